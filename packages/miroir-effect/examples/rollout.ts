/** Many rollouts of each task, calibrated; README.md shows it. */
// #region rollout
import * as Calibration from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Coworker from "@miroir-effect/core/Coworker"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Miroir from "miroir-effect/Miroir"

/** Files one document, whatever the task; in its first rollout of each it does nothing. */
const policy = Policy.scripted("filer", ({ messages, rollout }) =>
  rollout === 0 || messages.length > 1 ? [] : [{ tool: "move_document", args: { id: "d-02", folder: "Invoices/Paid" } }]
)

export const calibrated = (urls: ReadonlyArray<string>, folder: string) =>
  Effect.gen(function* () {
    const catalog = yield* Catalog.Catalog
    const rollout = yield* Rollout.Rollout
    const calibration = yield* Calibration.Calibration
    const all = yield* catalog.tasks(yield* catalog.answering(urls))
    const tasks = yield* Coworker.answerable(all, false)

    const traces = `${folder}/traces`
    yield* rollout.run({ tasks, rollouts: 4, urls, traces }).pipe(
      Stream.runForEach((event) => {
        if (event._tag === "Failed") return Effect.logWarning(event.task.id, event.error.message)
        if (event._tag === "Saved") return Effect.logDebug(event.finished.reward, event.messages) // what RL learns from
        return Effect.void
      })
    )

    const result = yield* calibration.calibrate({ traces, model: "filer" })
    yield* calibration.write(`${folder}/calibration.json`, result)
    yield* Effect.log(CalibrationReport.table(result))
    return yield* calibration.select(tasks, result, ["learnable"]) // to train on
  }).pipe(Effect.provide(Rollout.layer.pipe(Layer.provide(policy), Layer.provideMerge(Miroir.layer()))))
// #endregion
