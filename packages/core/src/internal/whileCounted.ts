/** A gauge that counts what is under way. */

import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"

/** Counts an effect for as long as it runs, however it ends. */
export const whileCounted =
  (gauge: Metric.Metric.Gauge<number>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Metric.incrementBy(gauge, 1),
      () => self,
      () => Metric.incrementBy(gauge, -1)
    )
