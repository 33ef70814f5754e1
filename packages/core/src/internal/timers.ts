/**
 * Timers of the Clock for what nearly never runs out. One fiber sleeps until the first of them is due: a fiber each, or
 * a race with what it bounds, was a good part of what a lease costs.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Runtime from "effect/Runtime"

export type Cancel = () => void

export interface Timers {
  /** Calls `run` after a while, and never at once. It must not throw. */
  readonly after: (wait: Duration.DurationInput, run: () => void) => Cancel
  /** What an effect gives, unless it takes too long: then it is interrupted, and the other one run. */
  readonly within: <A, E, R, B, E2, R2>(
    self: Effect.Effect<A, E, R>,
    wait: Duration.DurationInput,
    late: Effect.Effect<B, E2, R2>
  ) => Effect.Effect<A | B, E | E2, R | R2>
}

interface Timer {
  readonly at: number
  readonly run: () => void
}

/** The fiber is there for as long as timers are: who sets one sees to it that it is cancelled. */
export const make: Effect.Effect<Timers> = Effect.gen(function* () {
  const start = Runtime.runFork(yield* Effect.runtime<never>())
  const clock = yield* Effect.clock
  const now = (): number => Number(clock.unsafeCurrentTimeNanos()) / 1e6
  /** The first ones first; of those that are due together, the one that was set first. */
  const timers: Array<Timer> = []
  let sleeper: Fiber.RuntimeFiber<void> | undefined
  let isRinging = false

  /** Where a timer belongs that is set now. */
  const placeFor = (at: number): number => {
    let low = 0
    for (let high = timers.length; low < high; ) {
      const middle = (low + high) >> 1
      const timer = timers[middle]
      if (timer !== undefined && timer.at <= at) low = middle + 1
      else high = middle
    }
    return low
  }

  const ring = (): void => {
    isRinging = true
    const at = now()
    for (let [timer] = timers; timer !== undefined && timer.at <= at; [timer] = timers) {
      timers.shift()
      timer.run()
    }
    isRinging = false
  }

  const sleep: Effect.Effect<void> = Effect.suspend(() => {
    ring()
    const [first] = timers
    if (first !== undefined) return Effect.zipRight(Effect.sleep(Math.ceil(first.at - now())), sleep)
    sleeper = undefined
    return Effect.void
  })

  const wake = (): void => {
    sleeper?.unsafeInterruptAsFork(FiberId.none)
    sleeper = timers.length === 0 ? undefined : start(Effect.interruptible(Effect.zipRight(Effect.yieldNow(), sleep)))
  }

  const after: Timers["after"] = (wait, run) => {
    const timer: Timer = { at: now() + Duration.toMillis(wait), run }
    timers.splice(placeFor(timer.at), 0, timer)
    if (timers[0] === timer && !isRinging) wake()
    return () => {
      const place = timers.indexOf(timer)
      if (place < 0) return
      timers.splice(place, 1)
      if (timers.length === 0 && !isRinging) wake()
    }
  }

  const within: Timers["within"] = <A, E, R, B, E2, R2>(
    self: Effect.Effect<A, E, R>,
    wait: Duration.DurationInput,
    late: Effect.Effect<B, E2, R2>
  ) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.fork(restore(self)), (fiber) => {
        let isLate = false
        const cancel = after(wait, () => {
          isLate = true
          fiber.unsafeInterruptAsFork(FiberId.none)
        })
        return restore(Fiber.await(fiber)).pipe(
          Effect.onInterrupt(() => Fiber.interrupt(fiber)),
          Effect.ensuring(Effect.sync(cancel)),
          Effect.flatMap(
            (exit): Effect.Effect<A | B, E | E2, R2> => (isLate && Exit.isInterrupted(exit) ? restore(late) : exit)
          )
        )
      })
    )

  return { after, within }
})
