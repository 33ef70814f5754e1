/**
 * The tally: what calibration has to know of the rollouts seen so far, by task. It
 * is a value of exact sums: tallies of pieces combine, in any order and grouping,
 * to the tally of the whole.
 *
 * @since 0.1.0
 */

import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Sink from "effect/Sink"
import { EpisodeRecord } from "./EpisodeRecord.js"
import { MutableTally } from "./internal/mutableTally.js"
import type { RewardSums } from "./internal/rewardSums.js"
import { TraceError } from "./MiroirError.js"
import * as Outcome from "./Outcome.js"

/**
 * The rollouts of one task.
 *
 * @since 0.1.0
 * @category models
 */
export interface TaskTally {
  /** The task's versions that were met, one if all is well; of more only the first two in code point order are kept. */
  readonly taskHashes: ReadonlyArray<string>
  /** How many rollouts have a reward. */
  readonly graded: number
  /** How many have none. */
  readonly void: number
  /** How many of the graded ones succeeded. */
  readonly successes: number
  /** In how many of the graded ones the policy did harm. */
  readonly harmed: number
  /** `Infinity` where none is graded. */
  readonly lowestReward: number
  /** `-Infinity` where none is graded. */
  readonly highestReward: number
  /** The exact sums of the rewards and of their squares. */
  readonly rewards: RewardSums
}

/**
 * The rollouts of all tasks, by the tasks' ids.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tally {
  readonly tasks: ReadonlyMap<string, TaskTally>
  /** Whether any record told `success`. */
  readonly tellsSuccess: boolean
}

/**
 * The tally of no rollouts: what combines with any other to the other.
 *
 * @since 0.1.0
 * @category constructors
 */
export const empty: Tally = { tasks: new Map(), tellsSuccess: false }

/**
 * The tally of some outcomes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromOutcomes = (outcomes: Iterable<Outcome.Outcome>): Tally => {
  const tally = new MutableTally()
  for (const outcome of outcomes) tally.addOutcome(outcome)
  return tally.result()
}

/**
 * The tally of the records of both.
 *
 * @since 0.1.0
 * @category combining
 */
export const combine = (one: Tally, other: Tally): Tally => {
  const both = new MutableTally()
  both.addTally(one)
  both.addTally(other)
  return both.result()
}

/**
 * Tallies records, or their outcomes. A record that lacks what a tally needs is a `TraceError` with its number.
 *
 * @since 0.1.0
 * @category sinks
 */
export const sink: Sink.Sink<Tally, EpisodeRecord | Outcome.Outcome, never, TraceError> = Sink.suspend(() => {
  const tally = new MutableTally()
  let count = 0
  return Sink.forEachChunk((chunk: Chunk.Chunk<EpisodeRecord | Outcome.Outcome>) =>
    Effect.suspend(() => {
      for (const item of chunk) {
        count++
        if (!(item instanceof EpisodeRecord)) {
          tally.addOutcome(item)
          continue
        }
        const outcome = Outcome.fromRecord(item)
        if (Either.isLeft(outcome)) return new TraceError({ line: count, reason: outcome.left })
        tally.addOutcome(outcome.right)
      }
      return Effect.void
    })
  ).pipe(Sink.map(() => tally.result()))
})
