/** The pipeline on a world of one's own, all for real: sockets, files, a scripted policy. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Miroir from "miroir-effect/Miroir"
import { container } from "../../examples/environment.js"
import { pipeline } from "./pipeline.js"

/** Right in every other rollout. */
const policy = Policy.scripted("taker", ({ messages, rollout }) =>
  messages.length > 1 ? [] : [{ tool: "take_bottles", args: { count: 1 + (rollout % 2) } }]
)

const program = Effect.gen(function* () {
  const { url } = yield* container
  const done = yield* pipeline([url], "run")
  yield* Console.log(JSON.stringify(done))
}).pipe(Effect.scoped)

NodeRuntime.runMain(
  Effect.provide(program, Rollout.layer.pipe(Layer.provide(policy), Layer.provideMerge(Miroir.layer())))
)
