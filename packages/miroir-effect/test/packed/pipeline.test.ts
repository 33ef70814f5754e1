import { assert, it } from "@effect/vitest"
import { NoFreeContainer } from "@miroir-effect/core/MiroirError"
import * as Tally from "@miroir-effect/core/Tally"
import * as StubCalibration from "@miroir-effect/testing/StubCalibration"
import * as StubCatalog from "@miroir-effect/testing/StubCatalog"
import * as StubRollout from "@miroir-effect/testing/StubRollout"
import * as StubTraces from "@miroir-effect/testing/StubTraces"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { pipeline } from "./pipeline.js"

const task = (id: string) => ({ id, task_hash: "h", instruction: "Leave 3 bottles." })
const outcome = (taskId: string, reward: number) => ({
  taskId,
  taskHash: "h",
  reward,
  success: reward === 1,
  harm: false
})

/** The pipeline on stubs: what was rolled out, and what the traces tell. */
const stubbed = (events: StubRollout.Events) =>
  pipeline(["http://stub.invalid"], "run").pipe(
    Effect.provide(
      Layer.mergeAll(
        StubCatalog.of({ tasks: { train: [task("a"), task("b")] } }),
        StubRollout.canned(events),
        Layer.provide(
          StubCalibration.memory,
          StubTraces.layer({
            tally: () =>
              Effect.succeed(Tally.fromOutcomes([outcome("a", 1), outcome("a", 1), outcome("b", 1), outcome("b", 0)]))
          })
        )
      )
    )
  )

it.effect("gives the learnable tasks", () =>
  Effect.gen(function* () {
    assert.deepStrictEqual(yield* stubbed([{ _tag: "Leased", url: "http://stub.invalid" }]), {
      saved: 0,
      learnable: ["b"]
    })
  })
)

it.effect("fails where no container is free", () =>
  Effect.gen(function* () {
    const full = new NoFreeContainer({ total: 1, leased: 1, unhealthy: 0, unhealthyUrls: [] })
    assert.strictEqual(yield* Effect.flip(stubbed([full])), full)
  })
)
