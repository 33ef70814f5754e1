/** So many may be in at a time; who waits gets in in the order they came. Effect's semaphore lets newcomers pass. */

import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

export interface Places {
  /** Runs an effect once there is a place for it. `waiting` is put around the wait, where there is one. */
  readonly within: <A, E, R>(
    self: Effect.Effect<A, E, R>,
    waiting: (wait: Effect.Effect<void>) => Effect.Effect<void>
  ) => Effect.Effect<A, E, R>
}

interface Guest {
  readonly called: Deferred.Deferred<void>
  isIn: boolean
}

export const make = (count: number): Places => {
  let free = count
  const queue = new Set<Guest>()

  const come = Effect.map(Deferred.make<void>(), (called): Guest => {
    const guest = { called, isIn: free > 0 }
    if (guest.isIn) free--
    else queue.add(guest)
    return guest
  })
  const leave = (guest: Guest): void => {
    if (!guest.isIn) {
      queue.delete(guest)
      return
    }
    const [next] = queue
    if (next === undefined) {
      free++
      return
    }
    queue.delete(next)
    next.isIn = true
    Deferred.unsafeDone(next.called, Exit.void)
  }

  return {
    within: (self, waiting) =>
      // A guest is known from its coming on, so that no place is lost that is given in the moment of an interruption.
      Effect.acquireUseRelease(
        come,
        (guest) => (guest.isIn ? self : Effect.zipRight(waiting(Deferred.await(guest.called)), self)),
        (guest) => Effect.sync(() => leave(guest))
      )
  }
}
