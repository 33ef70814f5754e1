/** All services of a client, over real sockets, HTTP and files. */
import * as Catalog from "@miroir-effect/core/Catalog"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import type * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import type * as Transport from "@miroir-effect/core/Transport"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { leasing } from "../layers.js"
import { files } from "../support/files.js"

/** As of a process of its own: what is leased by one of these is not known to be held by another. */
export const clientOf = (sockets?: Partial<Transport.Settings>) =>
  Layer.mergeAll(leasing({}, sockets), Catalog.layer().pipe(Layer.provide(NodeHttp.layer)), files)

export const client = clientOf()

/** The events of a run by this policy. */
export const run = (policy: Layer.Layer<Policy.Policy>, plan: Rollout.Plan) =>
  Effect.flatMap(Rollout.Rollout, ({ run }) => Stream.runCollect(run(plan))).pipe(
    Effect.map(Chunk.toReadonlyArray),
    Effect.provide(Layer.provide(Rollout.layer, policy))
  )
