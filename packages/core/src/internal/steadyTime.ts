/** Time for what is measured: unlike the time of day it is never set back, nor forward. */

import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Milliseconds since some moment. */
export const steadyMillis: Effect.Effect<number> = Effect.map(Clock.currentTimeNanos, (nanos) =>
  Number(nanos / 1_000_000n)
)
