/**
 * Tasks that are the user's: from a file, or one for each of a range of seeds. An env
 * that has no task API is rolled out on these.
 *
 * @since 0.1.0
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { platformReason } from "./internal/platformReason.js"
import { taskHash } from "./internal/taskHash.js"
import { shown } from "./internal/text.js"
import * as Json from "./Json.js"
import { InvalidSeeds, TasksFileError } from "./MiroirError.js"
import { instructionKey } from "./OpenEnv.js"
import type { Task } from "./Protocol.js"

/**
 * The tasks of a file's text: a JSON object a line, blank lines ignored; at least one. `file` is its name, for errors.
 *
 * Of a task's keys `id` is needed, a text that no other line has. `instruction`, else `prompt` or `question`, is what the
 * policy is asked to do; where there is none, the first observation has to tell. `reset` is an object of further keys for the
 * reset's data. `task_hash` is made of the line where it is missing: `sha256:` and the hex digest of its canonical JSON (RFC
 * 8785). All other keys are kept.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (file: string, text: string): Either.Either<ReadonlyArray<Task>, TasksFileError> => {
  const tasks = new Map<string, { readonly task: Task; readonly line: number }>()
  for (const [index, content] of text.split("\n").entries()) {
    if (content.trim() === "") continue
    const line = index + 1
    const invalid = (reason: string) => Either.left(new TasksFileError({ file, line, reason }))
    const task = Either.flatMap(Json.parse(content), readTask)
    if (Either.isLeft(task)) return invalid(task.left)
    const { id } = task.right
    const other = tasks.get(id)
    if (other !== undefined) return invalid(`its id, "${shown(id, 80)}", is that of line ${other.line}`)
    tasks.set(id, { task: task.right, line })
  }
  return tasks.size === 0
    ? Either.left(new TasksFileError({ file, reason: "it has no task" }))
    : Either.right(Array.from(tasks.values(), ({ task }) => task))
}

const readTask = (value: Json.Json): Either.Either<Task, string> => {
  if (!Json.isObject(value)) return Either.left("it is no JSON object")
  const { id, reset, task_hash } = value
  if (typeof id !== "string" || id === "") return Either.left('it has no "id" that is a text')
  if (reset !== undefined && !Json.isObject(reset)) return Either.left('its "reset" is no object')
  if (task_hash !== undefined && (typeof task_hash !== "string" || task_hash === "")) {
    return Either.left('its "task_hash" is no text')
  }
  const key = instructionKey(value)
  const instruction = key === undefined ? undefined : value[key]
  return Either.map(task_hash === undefined ? taskHash(value) : Either.right(task_hash), (task_hash) => ({
    ...value,
    id,
    task_hash,
    instruction: typeof instruction === "string" ? instruction : "",
    ...(reset === undefined ? {} : { reset })
  }))
}

/**
 * Reads a file of tasks, as `parse` does its text. It has to be UTF-8.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const bytes = yield* fs
    .readFile(file)
    .pipe(Effect.mapError((error) => new TasksFileError({ file, reason: platformReason(error) })))
  const text = yield* Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
    catch: () => new TasksFileError({ file, reason: "it is no UTF-8 text" })
  })
  return yield* parse(file, text)
})

/**
 * Seeds in one range at most.
 *
 * @since 0.1.0
 * @category settings
 */
export const maxSeeds = 100_000

/**
 * A task for each seed of a range, `A..B`, both included: of id `seed-N`, with N for the reset's `seed` and without a
 * `task_id`. Its hash is that of `{"seed": N}`; what it asks for, the first observation has to tell.
 *
 * @since 0.1.0
 * @category constructors
 */
export const seeds = (range: string): Either.Either<ReadonlyArray<Task>, InvalidSeeds> => {
  const invalid = (reason: string) => Either.left(new InvalidSeeds({ seeds: range, reason }))
  const [, first, last] = /^\s*(\d+)\.\.(\d+)\s*$/.exec(range) ?? []
  if (first === undefined || last === undefined) return invalid("give the first and the last, as 0..99")
  const [from, to] = [Number(first), Number(last)]
  if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to)) return invalid("a seed is at most 9007199254740991")
  if (from > to) return invalid("the first is greater than the last")
  if (to - from >= maxSeeds) return invalid(`it has more than ${maxSeeds} seeds`)
  return Either.mapLeft(
    Either.all(Array.from({ length: to - from + 1 }, (_, index) => seedTask(from + index))),
    (reason) => new InvalidSeeds({ seeds: range, reason })
  )
}

const seedTask = (seed: number): Either.Either<Task, string> =>
  Either.map(taskHash({ seed }), (task_hash) => ({
    id: `seed-${seed}`,
    task_hash,
    instruction: "",
    reset: { seed, task_id: null }
  }))
