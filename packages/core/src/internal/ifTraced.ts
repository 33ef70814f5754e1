/** What spans cost only where somebody sees them. */

import * as Context from "effect/Context"
import * as DefaultServices from "effect/DefaultServices"
import * as Effect from "effect/Effect"
import * as Tracer from "effect/Tracer"

/** Nobody sees the spans of the default tracer, and making one costs as much as the rest of an exchange. */
const nativeTracer = Context.get(DefaultServices.liveServices, Tracer.Tracer)

/** An effect with its span, or without where nobody would see it. */
export const ifTraced = <A, E, R, R2>(
  self: Effect.Effect<A, E, R>,
  traced: (self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R2>
): Effect.Effect<A, E, R | R2> =>
  Effect.tracerWith((tracer): Effect.Effect<A, E, R | R2> => (tracer === nativeTracer ? self : traced(self)))
