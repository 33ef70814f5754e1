/**
 * How the office's tasks are solved, and what a clumsy policy does instead: for
 * demonstrations and tests, where no model is at hand.
 *
 * @since 0.1.0
 */

import type * as Json from "@miroir-effect/core/Json"
import { solutions } from "./internal/officeSolutions.js"

/**
 * A tool call.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call {
  readonly tool: string
  /** The arguments, or a function that takes them from the observation of the step before. */
  readonly args: Json.JsonObject | ((previous: Json.Json) => Json.JsonObject)
}

/**
 * A call that is right, and plausible ones that might be made in its place and lead astray.
 *
 * @since 0.1.0
 * @category models
 */
export interface Step extends Call {
  readonly mistakes: ReadonlyArray<Call>
}

/**
 * The calls that solve a task of the office, `submit` not among them; empty for a task that it does not have.
 *
 * @since 0.1.0
 * @category getters
 */
export const steps = (taskId: string): ReadonlyArray<Step> => solutions.get(taskId) ?? []

/**
 * A call's arguments, after the given observation.
 *
 * @since 0.1.0
 * @category getters
 */
export const argumentsOf = ({ args }: Call, previous: Json.Json): Json.JsonObject =>
  typeof args === "function" ? args(previous) : args
