/**
 * What a policy is told of a task: the same text, to the byte, as the Python client's.
 *
 * @since 0.1.0
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Json from "./Json.js"

/**
 * What the prompt needs of a task; any `Protocol.Task` has it. `persona.description` and `max_steps` are used where
 * they are there.
 *
 * @since 0.1.0
 * @category models
 */
export interface Promptable extends Json.JsonObject {
  readonly instruction: string
}

/**
 * A day in UTC, or the `YYYY-MM-DD` that names it.
 *
 * @since 0.1.0
 * @category models
 */
export type Day = string | DateTime.Utc

/**
 * The prompt of a task on a day: the instruction, then who the policy acts as and how many tool calls it has, then the
 * day. A part that the task does not tell is left out. Where there is no tool `submit`, none is spoken of.
 *
 * @since 0.1.0
 * @category constructors
 */
export const prompt = (task: Promptable, today: Day, hasSubmit = true): string => {
  const description = Json.isObject(task.persona) ? task.persona.description : undefined
  const persona = typeof description === "string" ? description : Json.stringify(description ?? null)
  const role = [
    ...(Json.truthy(description) ? [`You act as ${persona}.`] : []),
    ...(isCount(task.max_steps)
      ? [`You have ${task.max_steps} tool calls${hasSubmit ? "; call submit when you are done" : ""}.`]
      : [])
  ].join(" ")
  const day = typeof today === "string" ? today : DateTime.formatIsoDateUtc(today)
  const parts = [...(task.instruction === "" ? [] : [task.instruction]), ...(role === "" ? [] : [role])]
  return [...parts, `Today is ${day} (UTC).`].join("\n\n")
}

/**
 * The Clock's day in UTC, as `YYYY-MM-DD`.
 *
 * @since 0.1.0
 * @category getters
 */
export const today: Effect.Effect<string> = Effect.map(DateTime.now, DateTime.formatIsoDateUtc)

const isCount = (value: Json.Json | undefined): value is number | bigint =>
  typeof value === "number" || typeof value === "bigint"
