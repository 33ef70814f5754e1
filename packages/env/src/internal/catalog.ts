/** A World, checked and indexed once, for the lookups of each request. */

import { createHash } from "node:crypto"
import * as Json from "@miroir-effect/core/Json"
import type { Surface } from "@miroir-effect/core/Protocol"
import * as Either from "effect/Either"
import type * as World from "../World.js"

export interface Entry<T> {
  readonly task: T
  readonly split: string
  readonly hash: string
  /** The task as clients see it. */
  readonly listing: Json.JsonObject
}

export interface Listed {
  readonly surfaces: ReadonlyArray<Surface>
  readonly listing: Json.JsonObject
}

export interface Catalog<State, T, R> {
  readonly entries: ReadonlyMap<string, Entry<T>>
  readonly splits: ReadonlyMap<string, ReadonlyArray<Json.JsonObject>>
  readonly tools: ReadonlyMap<string, World.Tool<State, R>>
  /** All tools in their order, `submit` last. */
  readonly listed: ReadonlyArray<Listed>
}

/** The left side says what is wrong with the world. */
export const make = <State, T extends World.Task, R>(
  world: World.World<State, T, R>
): Either.Either<Catalog<State, T, R>, string> => {
  if (world.name === "") return Either.left("it has no name")
  if (world.name === "." || world.name === "..") return Either.left("its name fits into no path")
  const entries = new Map<string, Entry<T>>()
  const splits = new Map<string, ReadonlyArray<Json.JsonObject>>()
  for (const [split, tasks] of Object.entries(world.tasks)) {
    const listings: Array<Json.JsonObject> = []
    for (const task of tasks) {
      if (task.id === "") return Either.left(`a task of the split ${split} has no id`)
      if (entries.has(task.id)) return Either.left(`two of its tasks have the id ${task.id}`)
      if (task.max_steps !== undefined && !(Number.isSafeInteger(task.max_steps) && task.max_steps >= 1)) {
        return Either.left(`max_steps of the task ${task.id} has to be a whole number of at least 1`)
      }
      const shown = listed(task)
      const hash = task.task_hash ?? hashed(task.setup === undefined ? shown : { ...shown, setup: task.setup })
      const listing = { id: task.id, task_hash: hash, ...shown }
      entries.set(task.id, { task, split, hash, listing })
      listings.push(listing)
    }
    splits.set(split, listings)
  }
  const tools = new Map<string, World.Tool<State, R>>()
  const toolListings: Array<Listed> = []
  for (const tool of world.tools) {
    if (tool.name === submit.listing.name) return Either.left("it names a tool submit, which is always there")
    if (tool.name === "") return Either.left("one of its tools has no name")
    if (tools.has(tool.name)) return Either.left(`two of its tools have the name ${tool.name}`)
    if (Either.isLeft(tool.inputSchema)) return Either.left(`the tool ${tool.name}: ${tool.inputSchema.left}`)
    tools.set(tool.name, tool)
    toolListings.push({
      surfaces: tool.surfaces,
      listing: { name: tool.name, description: tool.description, inputSchema: tool.inputSchema.right }
    })
  }
  return Either.right({ entries, splits, tools, listed: [...toolListings, submit] })
}

export const surfaces: ReadonlyArray<Surface> = ["api", "mcp", "code"]

const submit = {
  surfaces,
  listing: {
    name: "submit",
    description: "Say that the task is done. This ends the episode; it is then graded.",
    inputSchema: { type: "object", properties: {}, additionalProperties: false }
  }
} as const

const listed = (task: World.Task): Json.JsonObject => ({
  id: task.id,
  instruction: task.instruction,
  ...(task.persona === undefined ? {} : { persona: { description: task.persona.description } }),
  ...(task.max_steps === undefined ? {} : { max_steps: task.max_steps }),
  ...(task.coworkers === undefined ? {} : { coworkers: task.coworkers })
})

const hashed = (task: Json.Json): string =>
  createHash("sha256")
    .update(Json.stringify(sorted(task)))
    .digest("hex")

/** With the keys of each object in the order of their UTF-16 code units, as RFC 8785 has it. */
const sorted = (value: Json.Json): Json.Json => {
  if (Json.isObject(value)) {
    const keys = Object.keys(value).sort()
    return Object.fromEntries(keys.map((key) => [key, sorted(value[key] ?? null)]))
  }
  return typeof value === "object" && value !== null ? value.map(sorted) : value
}
