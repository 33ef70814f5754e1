/** A TestClock beside real sockets: time may only be moved once what waits for it does. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"

/** One turn of the event loop, in which sockets get on. */
export const turn: Effect.Effect<void> = Effect.async((resume) => {
  setImmediate(() => resume(Effect.void))
})

/**
 * Waits until somebody sleeps on the TestClock for so many milliseconds, gives those, and moves the clock to where the
 * sleep ends.
 */
export const passPause = (atLeast: number, atMost: number): Effect.Effect<number> =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    for (;;) {
      for (const end of yield* TestClock.sleeps()) {
        const pause = end - now
        if (pause < atLeast || pause > atMost) continue
        yield* TestClock.adjust(pause)
        return pause
      }
      yield* turn
    }
  })
