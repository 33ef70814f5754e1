/**
 * Keeps episodes from breaking one after the other while a model is away that was there before: then one at a time begins,
 * after a pause that grows, until the model answers again or has been away for too long.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as STM from "effect/STM"
import * as TRef from "effect/TRef"
import { steadyMillis } from "./steadyTime.js"

export interface ModelGate {
  /** Begins an episode when it may. */
  readonly through: <A, E, R>(episode: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** The model answered: all may begin. */
  readonly answered: Effect.Effect<void>
  /** The model did not answer. */
  readonly silent: Effect.Effect<void>
  /** Whether there is no hope of an answer: there never was one, or none for too long. */
  readonly isHopeless: Effect.Effect<boolean>
}

export interface Settings {
  /** Before the first of them begins; twice as long after each that tried in vain. */
  readonly pause: Duration.DurationInput
  readonly longestPause: Duration.DurationInput
  /** How long a model may be away until all begin again, and break or not. */
  readonly patience: Duration.DurationInput
}

interface State {
  /** Whether the model is one to wait for: it has answered, and has not been away for too long since. */
  readonly known: boolean
  /** How long it was last waited for, in milliseconds; 0 where it is not. */
  readonly pause: number
  readonly awaySince: number
  /** When the next may begin. */
  readonly until: number
  /** Whether one tries just now, for which the others wait. */
  readonly trying: boolean
}

const unknown: State = { known: false, pause: 0, awaySince: 0, until: 0, trying: false }
const there: State = { ...unknown, known: true }

export const make = (settings: Settings): Effect.Effect<ModelGate> =>
  Effect.map(TRef.make(unknown), (state) => {
    const first = Duration.toMillis(settings.pause)
    const longest = Math.max(first, Duration.toMillis(settings.longestPause))
    const patience = Duration.toMillis(settings.patience)

    /** The state as it is met; who finds that the next may begin is that one. */
    const enter = (now: number): STM.STM<State> =>
      TRef.modify(state, (met) => [met, mayTry(met, now) ? { ...met, trying: true } : met])

    const awaitNews = (met: State, now: number): Effect.Effect<void> =>
      Effect.raceFirst(
        STM.flatMap(TRef.get(state), (current) => STM.check(() => current !== met)),
        met.trying ? Effect.never : Effect.sleep(Duration.millis(met.until - now))
      )

    const leave = TRef.update(state, (current) => (current.pause > 0 ? { ...current, trying: false } : current))

    return {
      through: (episode) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.gen(function* () {
            while (true) {
              const now = yield* steadyMillis
              const met = yield* enter(now)
              if (met.pause === 0) return yield* restore(episode)
              if (mayTry(met, now)) return yield* Effect.ensuring(restore(episode), leave)
              yield* restore(awaitNews(met, now))
            }
          })
        ),
      answered: TRef.set(state, there),
      isHopeless: Effect.map(TRef.get(state), ({ known }) => !known),
      silent: Effect.flatMap(steadyMillis, (now) =>
        TRef.update(state, (current) => {
          if (!current.known) return current
          if (current.pause === 0) return { ...current, pause: first, awaySince: now, until: now + first }
          // That of an episode which had begun before tells nothing new.
          if (!current.trying) return current
          if (now - current.awaySince >= patience) return unknown
          const pause = Math.min(longest, current.pause * 2)
          return { ...current, pause, until: now + pause, trying: false }
        })
      )
    }
  })

const mayTry = ({ pause, trying, until }: State, now: number): boolean => pause > 0 && !trying && now >= until
