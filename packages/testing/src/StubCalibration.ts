/**
 * Calibration without files.
 *
 * @since 0.1.0
 */

import * as Calibration from "@miroir-effect/core/Calibration"
import { CalibrationFileError } from "@miroir-effect/core/MiroirError"
import type { Traces } from "@miroir-effect/core/Traces"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { missing } from "./internal/answers.js"

/**
 * The real calibration, of whatever `Traces` there are, with calibration files in memory: what was written can be read
 * by its path, all else is a `CalibrationFileError`.
 *
 * @since 0.1.0
 * @category layers
 */
export const memory: Layer.Layer<Calibration.Calibration, never, Traces> = Layer.effect(
  Calibration.Calibration,
  Effect.suspend(() => {
    const files = new Map<string, Calibration.CalibrationResult>()
    return Calibration.makeWith({
      write: (file, calibration) => Effect.sync(() => files.set(file, calibration)),
      writable: () => Effect.void,
      read: (file) =>
        Effect.fromNullable(files.get(file)).pipe(
          Effect.mapError(() => new CalibrationFileError({ file, reason: "nothing was written there" }))
        )
    })
  })
)

/**
 * A Calibration of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  given: Partial<Context.Tag.Service<Calibration.Calibration>> = {}
): Layer.Layer<Calibration.Calibration> =>
  Layer.succeed(Calibration.Calibration, {
    calibrate: () => missing("Calibration.calibrate"),
    write: () => missing("Calibration.write"),
    writable: () => missing("Calibration.writable"),
    read: () => missing("Calibration.read"),
    select: () => missing("Calibration.select"),
    ...given
  })
