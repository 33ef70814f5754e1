/**
 * The outcome: the few values of a record that calibration needs.
 *
 * @since 0.1.0
 */

import * as Either from "effect/Either"
import type { EpisodeRecord } from "./EpisodeRecord.js"

/**
 * How one rollout of a task ended.
 *
 * @since 0.1.0
 * @category models
 */
export interface Outcome {
  readonly taskId: string
  /** The version of the task. */
  readonly taskHash: string
  /** Null where the rollout is void. Always finite. */
  readonly reward: number | null
  /** By Python's idea of truth; null where the record does not tell. */
  readonly success: boolean | null
  /** By Python's idea of truth; false where the record does not tell. */
  readonly harm: boolean
}

/**
 * A record's outcome. The left side says in a few words what it lacks.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromRecord = (record: EpisodeRecord): Either.Either<Outcome, string> => {
  const { task_id: taskId } = record.value
  const { success, task_hash: taskHash } = record.metadata
  if (taskId === undefined) return Either.left("it has no task_id")
  if (typeof taskId !== "string") return Either.left("its task_id is no string")
  if (taskHash === undefined) return Either.left("its metadata has no task_hash")
  if (typeof taskHash !== "string") return Either.left("its metadata's task_hash is no string")
  return Either.right({
    taskId,
    taskHash,
    reward: record.reward,
    success: success === undefined || success === null ? null : record.success,
    harm: record.harm
  })
}
