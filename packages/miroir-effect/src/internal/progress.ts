/** How a run of rollouts is shown: a live line on a terminal, elsewhere a line every ten seconds and at the end. */

import type * as Rollout from "@miroir-effect/core/Rollout"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** Takes a run's events. The scope's end clears the live line and tells the totals. */
export const progress = (
  total: number
): Effect.Effect<(event: Rollout.Event) => Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const live = process.stderr.isTTY === true && process.env.TERM !== "dumb"
    const counts = { done: 0, successes: 0, void: 0, failed: 0, held: new Set<string>() }
    const line = () =>
      `${counts.done} of ${total} rollouts: ${counts.successes} succeeded, ${counts.void} void, ${counts.failed} failed, ${counts.held.size} containers`
    let told = yield* Clock.currentTimeMillis
    const tell = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (now - told < (live ? 100 : 10_000)) return
      told = now
      if (live) process.stderr.write(`\r\u001b[K${line()}`)
      else yield* Effect.logInfo(line())
    })
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        Effect.sync(() => {
          if (live) process.stderr.write("\r\u001b[K")
        }),
        Effect.logInfo(`${line()}.`)
      )
    )
    return (event) =>
      Effect.suspend(() => {
        switch (event._tag) {
          case "Leased":
            counts.held.add(event.url)
            break
          case "Started":
            break
          case "Saved":
            counts.done++
            if (event.finished.reward === null) counts.void++
            else if (event.finished.success) counts.successes++
            break
          case "Failed":
            counts.done++
            counts.failed++
            return Effect.andThen(Effect.logWarning(`${event.task.id}: ${event.error.message}`), tell)
        }
        return tell
      })
  })
