/** The settings of a run, which its folder keeps: what a run is gone on with has to be the same. */

import { createHash } from "node:crypto"
import * as Json from "../Json.js"
import type { Surface, Tool } from "../Protocol.js"

export interface RunSettings extends Json.JsonObject {
  readonly model: string
  readonly sampling: Json.JsonObject
  readonly surface: Surface
  readonly maxSteps: number
  readonly maxSeconds: number | null
  /** The coworkers' model, where there is one. */
  readonly coworker: string | null
  /** A digest of each tool by its name. */
  readonly tools: Json.JsonObject
  /** Which form of `Prompt.prompt` was used. */
  readonly prompt: number
  /** What the plan says besides. */
  readonly settings: Json.JsonObject
}

/** To be raised with each change of what `Prompt.prompt` makes of a task. */
export const promptFormat = 1

/** Digests of the tools, whatever the order in which their keys came. */
export const digests = (tools: ReadonlyArray<Tool>): Json.JsonObject =>
  Object.fromEntries(
    tools.map((tool) => [tool.name, createHash("sha256").update(canonical(tool)).digest("hex").slice(0, 16)])
  )

export interface Difference {
  readonly setting: string
  readonly was: string
  readonly is: string
}

/** What differs between two runs' settings, each by its name: `model`, `sampling.temperature`, `tools.submit`. */
export const differences = (was: Json.JsonObject, is: Json.JsonObject): ReadonlyArray<Difference> => {
  const before = flattened(was)
  const now = flattened(is)
  return [...new Set([...before.keys(), ...now.keys()])].flatMap((setting) => {
    const [one = "none", other = "none"] = [before.get(setting), now.get(setting)]
    return one === other ? [] : [{ setting, was: one, is: other }]
  })
}

const flattened = (settings: Json.JsonObject): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(settings).flatMap(([name, value]) =>
      Json.isObject(value)
        ? Object.entries(value).map(([key, member]): [string, string] => [`${name}.${key}`, shownValue(member)])
        : [[name, shownValue(value)]]
    )
  )

const shownValue = (value: Json.Json): string => (value === null ? "none" : canonical(value))

/** JSON with the keys of objects in order. */
const canonical = (value: Json.Json): string => Json.stringify(sorted(value))

const sorted = (value: Json.Json): Json.Json => {
  if (Json.isArray(value)) return value.map(sorted)
  if (!Json.isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, member]) => [key, sorted(member)])
  )
}
