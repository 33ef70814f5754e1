/** The calibration file's text, as Python's `json.dumps(..., indent=2)` writes it. */

import * as Either from "effect/Either"
import type { CalibrationResult, Classified, TaskCalibration } from "../Calibration.js"
import * as Json from "../Json.js"
import * as Python from "./pythonFormat.js"

/** Members are written one by one: an object would put a task called `10` first and lose one called `__proto__`. */
export const encode = ({ k, model, tasks }: CalibrationResult): string => {
  const entries = Array.from(tasks, ([id, task]) => member(4, id, block(4, encodeTask(task))))
  return `${block(0, [member(2, "model", Python.string(model)), member(2, "k", BigInt(k).toString()), member(2, "tasks", block(2, entries))])}\n`
}

const encodeTask = (task: TaskCalibration): ReadonlyArray<string> => [
  member(6, "task_hash", Python.string(task.task_hash)),
  member(6, "class", task.class === null ? "null" : Python.string(task.class)),
  member(6, "rollouts", String(task.rollouts)),
  member(6, "void", String(task.void)),
  ...figures.map((figure) => member(6, figure, floatOrNull(task[figure])))
]

/** The figures of a task, in the file's order. */
const figures = ["pass@1", "pass@k", "pass^k", "reward_mean", "reward_variance", "harm_rate"] as const

const member = (indent: number, key: string, value: string): string =>
  `${" ".repeat(indent)}${Python.string(key)}: ${value}`

const block = (indent: number, members: ReadonlyArray<string>): string =>
  members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n${" ".repeat(indent)}}`

const floatOrNull = (value: number | null): string => (value === null ? "null" : Python.float(value))

/** Reads what `select` needs. The left side says in a few words why it is no calibration. */
export const decode = (text: string): Either.Either<Classified, string> =>
  Either.flatMap(Json.parse(text), (json) => {
    const given = Json.isObject(json) ? json.tasks : undefined
    if (!Json.isObject(given)) return Either.left("it has no object `tasks`")
    const tasks = new Map<string, { readonly task_hash: string | null; readonly class: string | null }>()
    for (const [id, task] of Object.entries(given)) {
      if (!Json.isObject(task)) return Either.left(`its task "${id}" is no object`)
      if (task.task_hash === undefined) return Either.left(`its task "${id}" has no task_hash`)
      if (task.class === undefined) return Either.left(`its task "${id}" has no class`)
      tasks.set(id, { task_hash: stringOrNull(task.task_hash), class: stringOrNull(task.class) })
    }
    return Either.right({ tasks })
  })

const stringOrNull = (value: Json.Json): string | null => (typeof value === "string" ? value : null)
