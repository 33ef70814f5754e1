/** What a calibration says, for who reads it: the table, with colours on a terminal, and the summary. */

import type { CalibrationResult } from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { coloured, print, width } from "./terminal.js"

/** Prints a calibration that was written to `file`. */
export const report = Effect.fnUntraced(function* (result: CalibrationResult, file: string) {
  const table = CalibrationReport.table(result, { width: Option.getOrUndefined(yield* width) })
  const summary = CalibrationReport.summary(result, { file })
  yield* print(`${(yield* coloured) ? paint(table) : table}\n\n${summary}`)
})

/** Colours the classes. A class is what stands before the eight figures of a row, whatever the task's id holds. */
const paint = (table: string): string =>
  table.replace(
    /(?<= )(solved|learnable|out_of_reach)(?=(?: +[\d.-]+){8}$)/gm,
    (name: string) => `\u001b[${name === "solved" ? 32 : name === "learnable" ? 33 : 31}m${name}\u001b[39m`
  )
