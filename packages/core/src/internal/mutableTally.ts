/**
 * A tally while it is made: for each task a row of numbers in one piece of memory. Records come in any order of tasks,
 * and with 100,000 of those it is the accesses to memory that take the time.
 */

import type { Outcome } from "../Outcome.js"
import type { Tally, TaskTally } from "../Tally.js"
import * as Binary from "./binary.js"
import { byCodePoints } from "./codePoints.js"
import * as RewardSums from "./rewardSums.js"

/** What stands where in a row. */
const graded = 0
const voids = 1
const successes = 2
const harmed = 3
const lowest = 4
const highest = 5
const sum = 6
const squares = 9
const used = 14
export const rowLength = 16

export class MutableTally {
  /** Whether any record told `success`. */
  tellsSuccess = false
  private readonly numbers = new Map<string, number>()
  private readonly hashes: Array<ReadonlyArray<string>> = []
  private rows = new Float64Array(256 * rowLength)
  /** By the tasks' numbers, what has no place in a row; few have any. */
  private readonly rests = new Map<number, RewardSums.Rest>()

  /** The number of a task; its version is noted. */
  task(taskId: string, taskHash: string): number {
    const known = this.numbers.get(taskId)
    if (known !== undefined) {
      const hashes = this.hashes[known] ?? []
      if (!hashes.includes(taskHash)) this.hashes[known] = [...hashes, taskHash].sort(byCodePoints).slice(0, 2)
      return known
    }
    const task = this.hashes.length
    this.numbers.set(taskId, task)
    this.hashes.push([taskHash])
    const row = task * rowLength
    if (row === this.rows.length) {
      const rows = new Float64Array(row * 2)
      rows.set(this.rows)
      this.rows = rows
    }
    this.rows[row + lowest] = Number.POSITIVE_INFINITY
    this.rows[row + highest] = Number.NEGATIVE_INFINITY
    return task
  }

  /** Counts a rollout of the task with that number. Where it is graded, `addReward` has to follow. */
  private count(task: number, isGraded: boolean, success: boolean, harm: boolean): void {
    const row = task * rowLength
    if (!isGraded) {
      this.increase(row + voids, 1)
      return
    }
    this.increase(row + graded, 1)
    if (success) this.increase(row + successes, 1)
    if (harm) this.increase(row + harmed, 1)
  }

  /** Adds a rollout's reward, which is finite. */
  private addReward(task: number, reward: number): void {
    const { rows } = this
    const row = task * rowLength
    if (reward < (rows[row + lowest] ?? 0)) rows[row + lowest] = reward
    if (reward > (rows[row + highest] ?? 0)) rows[row + highest] = reward
    if (RewardSums.isExtreme(reward)) {
      this.restOf(task).addExtreme(reward)
    } else if (reward !== 0) {
      const square = reward * reward
      this.addToSum(task, reward)
      this.addToSquares(task, square)
      const error = Binary.productError(reward, reward, square)
      if (error !== 0) this.addToSquares(task, error)
    }
  }

  addOutcome({ harm, reward, success, taskHash, taskId }: Outcome): void {
    if (success !== null) this.tellsSuccess = true
    const task = this.task(taskId, taskHash)
    this.count(task, reward !== null, success === true, harm)
    // A negative zero becomes a positive one, so that it does not matter which came first.
    if (reward !== null) this.addReward(task, reward + 0)
  }

  addTally({ tasks, tellsSuccess }: Tally): void {
    if (tellsSuccess) this.tellsSuccess = true
    for (const [taskId, tally] of tasks) this.addTask(taskId, tally)
  }

  addTask(taskId: string, { rewards, taskHashes, ...tally }: TaskTally): void {
    const [task = 0] = taskHashes.map((taskHash) => this.task(taskId, taskHash))
    const row = task * rowLength
    this.increase(row + graded, tally.graded)
    this.increase(row + voids, tally.void)
    this.increase(row + successes, tally.successes)
    this.increase(row + harmed, tally.harmed)
    this.rows[row + lowest] = Math.min(this.rows[row + lowest] ?? 0, tally.lowestReward)
    this.rows[row + highest] = Math.max(this.rows[row + highest] ?? 0, tally.highestReward)
    for (const part of rewards.sum) this.addToSum(task, part)
    for (const part of rewards.squares) this.addToSquares(task, part)
    if (rewards.extremeSum !== 0n || rewards.extremeSquares !== 0n) this.restOf(task).addExtremes(rewards)
  }

  result(): Tally {
    const tasks = new Map<string, TaskTally>()
    for (const [taskId, task] of this.numbers) {
      tasks.set(taskId, taskTally(this.hashes[task] ?? [], this.rows, task * rowLength, this.rests.get(task)))
    }
    return { tasks, tellsSuccess: this.tellsSuccess }
  }

  private increase(at: number, more: number): void {
    this.rows[at] = (this.rows[at] ?? 0) + more
  }

  private addToSum(task: number, value: number): void {
    const row = task * rowLength
    const left = RewardSums.grow(this.rows, row + sum, row + squares, value)
    if (left !== 0) this.restOf(task).addToSum(left)
  }

  private addToSquares(task: number, value: number): void {
    const row = task * rowLength
    const left = RewardSums.grow(this.rows, row + squares, row + used, value)
    if (left !== 0) this.restOf(task).addToSquares(left)
  }

  private restOf(task: number): RewardSums.Rest {
    const rest = this.rests.get(task) ?? new RewardSums.Rest()
    this.rests.set(task, rest)
    return rest
  }
}

/** What the row that begins at `row` says, and what had no place in it. */
export const taskTally = (
  taskHashes: ReadonlyArray<string>,
  rows: Float64Array,
  row: number,
  rest: RewardSums.Rest | undefined
): TaskTally => ({
  taskHashes,
  graded: rows[row + graded] ?? 0,
  void: rows[row + voids] ?? 0,
  successes: rows[row + successes] ?? 0,
  harmed: rows[row + harmed] ?? 0,
  lowestReward: rows[row + lowest] ?? 0,
  highestReward: rows[row + highest] ?? 0,
  rewards: {
    sum: RewardSums.parts(rows, row + sum, row + squares, rest?.sum),
    squares: RewardSums.parts(rows, row + squares, row + used, rest?.squares),
    extremeSum: rest?.extremeSum ?? 0n,
    extremeSquares: rest?.extremeSquares ?? 0n
  }
})

/** What calibration says of a task but for what depends on k. */
export interface Figures {
  readonly taskHash: string
  readonly graded: number
  readonly void: number
  readonly successes: number
  readonly harmed: number
  /** Whether all rewards are equal, or there is none. */
  readonly isEqual: boolean
  /** Of the rewards, where any rollout is graded. */
  readonly mean: number
  readonly variance: number
}

export const figuresOf = ({ rewards, taskHashes, ...task }: TaskTally): Figures => {
  const isEqual = task.graded === 0 || task.lowestReward === task.highestReward
  return {
    taskHash: taskHashes[0] ?? "",
    graded: task.graded,
    void: task.void,
    successes: task.successes,
    harmed: task.harmed,
    isEqual,
    mean: RewardSums.mean(rewards, task.graded),
    variance: isEqual ? 0 : RewardSums.variance(rewards, task.graded)
  }
}

/** Of a task of which the row that begins at `row` says all; without the objects of a `TaskTally`, where doubles are enough. */
export const rowFigures = (taskHash: string, rows: Float64Array, row: number): Figures => {
  const count = rows[row + graded] ?? 0
  const isEqual = count === 0 || rows[row + lowest] === rows[row + highest]
  const mean = RewardSums.quickMean(rows, row + sum, row + squares, count)
  const variance = isEqual ? 0 : RewardSums.quickVariance(rows, row + sum, row + squares, row + used, count)
  if (Number.isNaN(mean) || Number.isNaN(variance)) {
    return figuresOf(taskTally([taskHash], rows, row, undefined))
  }
  return {
    taskHash,
    graded: count,
    void: rows[row + voids] ?? 0,
    successes: rows[row + successes] ?? 0,
    harmed: rows[row + harmed] ?? 0,
    isEqual,
    mean,
    variance
  }
}
