/** One episode, from the lease to the saved record. A program of its own; README.md shows it. */
// #region episode
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Traces from "@miroir-effect/core/Traces"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as Effect from "effect/Effect"
import * as Miroir from "miroir-effect/Miroir"

const program = Effect.gen(function* () {
  const container = yield* EnvServer.make(Office.world) // stands for the container that you have
  const leasing = yield* Leasing.Leasing
  const traces = yield* Traces.Traces
  const session = yield* leasing.lease({ urls: [container.url], waitBusy: true })
  yield* session.reset("file-invoice")
  yield* session.step("move_document", { id: "d-02", folder: "Invoices/Paid" })
  const { record, reward } = yield* session.finish
  const file = yield* traces.save("traces", record)
  yield* Effect.log(`reward ${reward}, saved to ${file}`)
}).pipe(Effect.scoped) // gives the container back, whatever happens

NodeRuntime.runMain(program.pipe(Effect.provide(Miroir.layerConfig)))
// #endregion
