/** The services under test, over real sockets and files. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Transport from "@miroir-effect/core/Transport"
import * as Layer from "effect/Layer"

const exchanges = (settings?: Partial<Transport.Settings>) =>
  SessionExchange.layer.pipe(Layer.provide(Transport.layer(settings)))

export const leasing = (settings?: Partial<Leasing.Settings>, sockets?: Partial<Transport.Settings>) =>
  Leasing.layer(settings).pipe(Layer.provide([exchanges(sockets), NodeHttp.layer, NodeFileSystem.layer]))
