/** The work of a run: jobs in rounds, each taken by one worker at a time, and taken again where it has to be. */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as STM from "effect/STM"
import * as TRef from "effect/TRef"

export interface WorkList<Job> {
  /**
   * Takes the next job, if one waits, and does it; what `use` gives says whether it has to be done again, and as what. Gives
   * whether there was one. A job that `use` fails at, or is interrupted at, is over.
   */
  readonly next: <E, R>(use: (job: Job) => Effect.Effect<Option.Option<Job>, E, R>) => Effect.Effect<boolean, E, R>
  /** Waits until a job does; false once all of them are over. */
  readonly awaitWork: Effect.Effect<boolean>
  /** Waits until no job does. */
  readonly awaitNone: Effect.Effect<void>
}

/** All that there is to do. Only the round that is under way is in memory: a plan may have millions of jobs. */
export interface Rounds<Job> {
  /** How many jobs there are in all. */
  readonly jobs: number
  /** The jobs of a round, from 0; there may be none. It is asked for no round beyond the last that has some. */
  readonly round: (index: number) => ReadonlyArray<Job>
}

interface State<Job> {
  /** How many of the jobs were taken for the first time. */
  readonly taken: number
  /** The round under way, how many of its jobs were taken, and which round is the next. */
  readonly round: ReadonlyArray<Job>
  readonly position: number
  readonly nextRound: number
  /** What is to be done again, and how many of the jobs come before it: those of the round that was under way. */
  readonly again: ReadonlyArray<{ readonly job: Job; readonly behind: number }>
  readonly underWay: number
}

export const make = <Job>(rounds: Rounds<Job>): Effect.Effect<WorkList<Job>> => {
  const none: State<Job> = { taken: 0, round: [], position: 0, nextRound: 0, again: [], underWay: 0 }
  return Effect.map(TRef.make(none), (state) => {
    const waiting = ({ again, taken }: State<Job>): boolean => again.length > 0 || taken < rounds.jobs

    const take: STM.STM<Option.Option<Job>> = TRef.modify(state, (now) => {
      const [repeat, ...again] = now.again
      const underWay = now.underWay + 1
      if (repeat !== undefined && repeat.behind <= now.taken) {
        return [Option.some(repeat.job), { ...now, again, underWay }]
      }
      if (now.taken >= rounds.jobs) return [Option.none(), now]
      let { nextRound, position, round } = now
      while (position >= round.length) {
        round = rounds.round(nextRound++)
        position = 0
      }
      const taken = now.taken + 1
      return [Option.fromNullable(round[position++]), { ...now, taken, round, position, nextRound, underWay }]
    })

    const putBack = (job: Option.Option<Job>): STM.STM<void> =>
      TRef.update(state, (now) => ({
        ...now,
        again: Option.match(job, {
          onNone: () => now.again,
          onSome: (job) => [...now.again, { job, behind: now.taken + now.round.length - now.position }]
        }),
        underWay: now.underWay - 1
      }))

    return {
      next: (use) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.flatMap(
            take,
            Option.match({
              onNone: () => Effect.succeed(false),
              onSome: (job) =>
                restore(use(job)).pipe(
                  Effect.tapErrorCause(() => putBack(Option.none())),
                  Effect.flatMap(putBack),
                  Effect.as(true)
                )
            })
          )
        ),
      awaitWork: TRef.get(state).pipe(
        STM.tap((now) => STM.check(() => waiting(now) || now.underWay === 0)),
        STM.map(waiting),
        STM.commit
      ),
      awaitNone: TRef.get(state).pipe(
        STM.flatMap((now) => STM.check(() => !waiting(now))),
        STM.commit
      )
    }
  })
}
