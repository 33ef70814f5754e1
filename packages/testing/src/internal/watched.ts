/** What a stub has seen so far, and waiting for it to have seen more: by event, never by the clock. */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

export interface Watched {
  /** To be called after each change: lets those go who waited for it, in the order in which they came. */
  readonly changed: () => void
  /** Completes as soon as `holds` does. */
  readonly until: (holds: () => boolean) => Effect.Effect<void>
  /** Completes with what `find` finds, as soon as it does; it is not asked again. */
  readonly first: <A>(find: () => Option.Option<A>) => Effect.Effect<A>
}

export const make = (): Watched => {
  const waiting = new Set<() => void>()
  const first: Watched["first"] = (find) =>
    Effect.async((resume) => {
      const check = (): void => {
        const found = find()
        if (Option.isNone(found)) return
        waiting.delete(check)
        resume(Effect.succeed(found.value))
      }
      waiting.add(check)
      check()
      return Effect.sync(() => waiting.delete(check))
    })
  return {
    changed: () => {
      for (const check of Array.from(waiting)) check()
    },
    until: (holds) => first(() => (holds() ? Option.some(undefined) : Option.none())),
    first
  }
}
