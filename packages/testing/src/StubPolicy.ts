/**
 * Policies without a model. For one that just calls tools, see `Policy.scripted` of the core.
 *
 * @since 0.1.0
 */

import type { PolicyFailed } from "@miroir-effect/core/MiroirError"
import * as Policy from "@miroir-effect/core/Policy"
import type * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { type Answers, answering, missing } from "./internal/answers.js"

/**
 * Canned messages: the next of a list, or what a function makes of the moment. An effect stands for its result; so
 * does a `PolicyFailed`, which is an effect that fails with itself.
 *
 * @since 0.1.0
 * @category layers
 */
export const canned = (
  messages: Answers<Policy.Moment, Policy.AssistantMessage, PolicyFailed>,
  model = "stub"
): Layer.Layer<Policy.Policy> => Layer.sync(Policy.Policy, () => ({ model, next: answering("Policy.next", messages) }))

/**
 * A Policy of the members that a test gives. `next` dies with its name; the model's name is `stub`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Policy.Policy>> = {}): Layer.Layer<Policy.Policy> =>
  Layer.succeed(Policy.Policy, { model: "stub", next: () => missing("Policy.next"), ...given })
