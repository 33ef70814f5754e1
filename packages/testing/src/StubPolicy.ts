/**
 * Policies without a model. For one that just calls tools, see `Policy.scripted` of the core.
 *
 * @since 0.1.0
 */

import type { PolicyError } from "@miroir-effect/core/MiroirError"
import * as Policy from "@miroir-effect/core/Policy"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Answers, answering, missing } from "./internal/answers.js"

/**
 * Canned messages: the next of a list, or what a function makes of the moment. An effect stands for its result; so
 * does an error, which is an effect that fails with itself.
 *
 * @since 0.1.0
 * @category layers
 */
export const canned = (
  messages: Answers<Policy.Moment, Policy.AssistantMessage, PolicyError>,
  model = "stub"
): Layer.Layer<Policy.Policy> =>
  Layer.sync(Policy.Policy, () => {
    const next = answering("Policy.next", messages)
    return { model, settings: {}, next: (moment) => Effect.map(next(moment), (message) => ({ message })) }
  })

/**
 * A Policy of the members that a test gives. `next` dies with its name; the model's name is `stub`, its settings are none.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Policy.Policy>> = {}): Layer.Layer<Policy.Policy> =>
  Layer.succeed(Policy.Policy, { model: "stub", settings: {}, next: () => missing("Policy.next"), ...given })
