/**
 * A tally as the scanner leaves it: tasks by their number, and rows of numbers. An object for each task is made when it
 * is asked for; calibration is done with each before the next is made, which leaves the collector nothing to keep.
 */

import type { Tally, TaskTally } from "../Tally.js"
import { type Figures, figuresOf, MutableTally, rowFigures, rowLength, taskTally } from "./mutableTally.js"
import type { Rest } from "./rewardSums.js"

export interface Columns {
  readonly ids: ReadonlyArray<string>
  readonly hashes: ReadonlyArray<string>
  /** As those of a `MutableTally`. */
  readonly rows: Float64Array
  /** By the tasks' numbers, what has no place in a row. */
  readonly rests: ReadonlyMap<number, Rest>
  /** Whether the ids are in code point order. */
  readonly isSorted: boolean
  /** Whether an id may be there twice. */
  readonly mayRepeat: boolean
  /** Whether any record told `success`. */
  readonly tellsSuccess: boolean
}

/** Its tasks have one version each. */
export class ScannedTally implements Tally {
  private made: ReadonlyMap<string, TaskTally> | undefined

  constructor(
    /** The tasks' ids, each only once, by the tasks' numbers. */
    readonly ids: ReadonlyArray<string>,
    private readonly columns: Columns,
    /** By their numbers, the tasks whose columns do not tell all. */
    private readonly others: ReadonlyMap<number, TaskTally>,
    readonly tellsSuccess: boolean
  ) {}

  /** Whether the ids are in code point order. */
  get isSorted(): boolean {
    return this.columns.isSorted && this.ids === this.columns.ids
  }

  get tasks(): ReadonlyMap<string, TaskTally> {
    this.made ??= new Map(this.ids.map((id, task) => [id, this.task(task)]))
    return this.made
  }

  /** That of the task with that number. */
  task(task: number): TaskTally {
    return this.others.get(task) ?? ofColumns(this.columns, task)
  }

  /** Those of the task with that number. */
  figures(task: number): Figures {
    const { hashes, rests, rows } = this.columns
    return this.others.has(task) || rests.has(task)
      ? figuresOf(this.task(task))
      : rowFigures(hashes[task] ?? "", rows, task * rowLength)
  }

  /** The most rollouts of a task that are graded. */
  mostGraded(): number {
    let most = 0
    for (let row = 0; row < this.columns.rows.length; row += rowLength)
      most = Math.max(most, this.columns.rows[row] ?? 0)
    for (const { graded } of this.others.values()) most = Math.max(most, graded)
    return most
  }
}

const ofColumns = ({ hashes, rests, rows }: Columns, task: number): TaskTally =>
  taskTally([hashes[task] ?? ""], rows, task * rowLength, rests.get(task))

/** The tally of what was scanned and of what was parsed, which is little as a rule. */
export const withOthers = (columns: Columns, parsed: Tally): Tally => {
  const tellsSuccess = columns.tellsSuccess || parsed.tellsSuccess
  if (parsed.tasks.size === 0 && !columns.mayRepeat) {
    return new ScannedTally(columns.ids, columns, new Map(), tellsSuccess)
  }
  const numbers = new Map(columns.ids.map((id, task) => [id, task]))
  const others = new Map<number, TaskTally>()
  const more: Array<string> = []
  for (const [id, task] of parsed.tasks) {
    const number = numbers.get(id)
    if (number === undefined) more.push(id)
    others.set(
      number ?? columns.ids.length + more.length - 1,
      number === undefined ? task : both(id, ofColumns(columns, number), task)
    )
  }
  const hasVersions = Array.from(others.values()).some(({ taskHashes }) => taskHashes.length > 1)
  // Where a task is there twice, it is spelled in two ways or has two versions.
  if (numbers.size === columns.ids.length && !hasVersions) {
    return new ScannedTally(more.length === 0 ? columns.ids : [...columns.ids, ...more], columns, others, tellsSuccess)
  }
  const all = new MutableTally()
  for (const [task, id] of columns.ids.entries()) all.addTask(id, ofColumns(columns, task))
  all.addTally(parsed)
  all.tellsSuccess = tellsSuccess
  return all.result()
}

const both = (id: string, one: TaskTally, other: TaskTally): TaskTally => {
  const tally = new MutableTally()
  tally.addTask(id, one)
  tally.addTask(id, other)
  return tally.result().tasks.get(id) ?? one
}
