/** The layers that leasing takes, as a user puts them together. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Transport from "@miroir-effect/core/Transport"
import * as Layer from "effect/Layer"

export const leasing = (settings) =>
  Leasing.layer(settings).pipe(
    Layer.provide([SessionExchange.layer.pipe(Layer.provide(Transport.layer())), NodeHttp.layer, NodeFileSystem.layer])
  )
