/** `miroir-effect calibrate`: trace files to a calibration file, and what it says as a table. */

import * as Calibration from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as Traces from "@miroir-effect/core/Traces"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { report } from "../internal/report.js"
import { print } from "../internal/terminal.js"

interface Options {
  readonly traces: ReadonlyArray<string>
  readonly model: string
  readonly out: string
  readonly k: Option.Option<number>
  readonly json: boolean
}

export const calibrate = Effect.fnUntraced(
  function* ({ json, k, model, out, traces }: Options) {
    const calibration = yield* Calibration.Calibration
    const result = yield* calibration.calibrate({ traces, model, k: Option.getOrUndefined(k) })
    // Before anything is printed: who reads it may go away.
    yield* calibration.write(out, result)
    if (json) yield* print(Calibration.encode(result))
    else yield* report(result, out)
    yield* Effect.forEach(CalibrationReport.warnings(result), (warning) => Effect.logWarning(warning))
  },
  Effect.provide(Calibration.layer.pipe(Layer.provide(Traces.layer)))
)
