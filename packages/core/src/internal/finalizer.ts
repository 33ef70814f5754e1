/** Finalizers that cost little. */

import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"

/**
 * Adds a finalizer, which runs with the tracer, logger and clock of who closes the scope. `Effect.addFinalizer` brings
 * back those of here, and compares all FiberRefs of here and there for it, which a lease would pay for five times.
 */
export const addFinalizer = (finalizer: Effect.Effect<void>): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(Effect.scope, (scope) => Scope.addFinalizer(scope, Effect.uninterruptible(finalizer)))

/** Makes something that the scope's end releases. */
export const acquireRelease = <A, E, R>(
  acquire: Effect.Effect<A, E, R>,
  release: (acquired: A) => Effect.Effect<void>
): Effect.Effect<A, E, R | Scope.Scope> =>
  Effect.uninterruptible(Effect.tap(acquire, (acquired) => addFinalizer(release(acquired))))
