/** `miroir-effect calibrate`: trace files to a calibration file, and what it says as a table. */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as Json from "@miroir-effect/core/Json"
import * as Text from "@miroir-effect/core/Text"
import * as Traces from "@miroir-effect/core/Traces"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { keepFrom } from "../internal/inputs.js"
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
    yield* keepFrom(traces, { command: "calibrate", file: out, option: "--out" })
    yield* Effect.forEach(traces, (path) => warnOfOthers(path, model), { discard: true })
    const result = yield* calibration.calibrate({ traces, model, k: Option.getOrUndefined(k) })
    // Before anything is printed: who reads it may go away.
    yield* calibration.write(out, result)
    if (json) yield* print(Calibration.encode(result))
    else yield* report(result, out)
    yield* Effect.forEach(CalibrationReport.warnings(result), (warning) => Effect.logWarning(warning))
  },
  Effect.provide(Calibration.layer.pipe(Layer.provideMerge(Traces.layer)))
)

/** Warns of traces whose first rollout says that it is another model's: all that follow most likely are. */
const warnOfOthers = Effect.fnUntraced(function* (path: string, model: string) {
  const { read } = yield* Traces.Traces
  const fs = yield* FileSystem.FileSystem
  // What cannot be read is told when all of it is, and what comes by a pipe can be read only once.
  const isKept = yield* Effect.orElseSucceed(
    Effect.map(fs.stat(path), ({ type }) => type === "File" || type === "Directory"),
    () => false
  )
  if (!isKept) return
  const first = yield* Effect.orElseSucceed(Stream.runHead(read(path)), Option.none)
  const rollout = Option.getOrUndefined(first)?.value.rollout
  const other = Json.isObject(rollout) ? rollout.model : undefined
  if (typeof other === "string" && other !== model) {
    yield* Effect.logWarning(
      `${Text.visible(path)} begins with a rollout of ${Text.visible(other)}, not of ${Text.visible(model)}; all of it is calibrated`
    )
  }
})
