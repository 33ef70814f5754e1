/** A line at the foot of stderr that is drawn anew again and again, while logs go by above it. */

import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import { line, logger } from "./terminal.js"

/** Between two drawings. */
const interval = Duration.millis(100)

/** Whether stderr is a terminal on which a line can be drawn anew. */
export const isLive = (): boolean => process.stderr.isTTY === true && process.env.TERM !== "dumb"

/**
 * Runs something that never ends for as long as something else runs; a bug in it is a bug of both. Not by a race: one that is
 * interrupted does not wait for what it runs, so that a record might be written when its file is closed already.
 */
export const beside =
  (other: Effect.Effect<never>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.gen(function* () {
      const over = yield* Deferred.make<A, E>()
      return yield* Effect.acquireUseRelease(
        Effect.forEach([self, other], (one) =>
          Effect.fork(Effect.onExit(Effect.interruptible(one), (exit) => Deferred.done(over, exit)))
        ),
        () => Deferred.await(over),
        Fiber.interruptAll
      )
    })

/** `draw` gets the number of columns that the line may have. */
export const withLiveLine =
  (draw: (columns: number) => Effect.Effect<string>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    // In the last column some terminals go on to the next line.
    const drawn = Effect.flatMap(
      Effect.suspend(() => draw((process.stderr.columns || 80) - 1)),
      (text) => written(erase + text)
    )
    return self.pipe(
      beside(Effect.forever(Effect.zipRight(drawn, Effect.sleep(interval)))),
      Effect.ensuring(written(erase)),
      Effect.provide(Logger.replace(logger, above))
    )
  }

const erase = "\r\u001b[K"

const written = (text: string): Effect.Effect<void> => Effect.sync(() => void process.stderr.write(text))

const above: Logger.Logger<unknown, void> = Logger.map(line, (text) => {
  process.stderr.write(`${erase}${text}\n`)
})
