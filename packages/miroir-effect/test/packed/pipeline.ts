/** A stranger's pipeline: rolls a policy out, calibrates it, and gives the tasks that it can learn from. */
import * as Calibration from "@miroir-effect/core/Calibration"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

export const pipeline = (urls: ReadonlyArray<string>, folder: string) =>
  Effect.gen(function* () {
    const catalog = yield* Catalog.Catalog
    const rollout = yield* Rollout.Rollout
    const calibration = yield* Calibration.Calibration
    const traces = `${folder}/traces`
    const tasks = yield* catalog.tasks(yield* catalog.answering(urls))
    const events = rollout.run({ tasks, rollouts: 4, urls, traces })
    const saved = yield* Stream.runCount(Stream.filter(events, ({ _tag }) => _tag === "Saved"))
    const result = yield* calibration.calibrate({ traces, model: "taker" })
    yield* calibration.write(`${folder}/calibration.json`, result)
    const learnable = yield* calibration.select(tasks, `${folder}/calibration.json`)
    return { saved, learnable: learnable.map(({ id }) => id) }
  })
