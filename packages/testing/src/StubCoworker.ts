/**
 * Coworkers without a model.
 *
 * @since 0.1.0
 */

import * as Coworker from "@miroir-effect/core/Coworker"
import type { CoworkerFailed } from "@miroir-effect/core/MiroirError"
import type { ChatMessage } from "@miroir-effect/core/Protocol"
import type * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { type Answers, answering, missing } from "./internal/answers.js"

/**
 * Canned texts: the next of a list, or what a function makes of the chat. An effect stands for its result; so does a
 * `CoworkerFailed`, which is an effect that fails with itself. The texts are posted to the session as the model's are.
 *
 * @since 0.1.0
 * @category layers
 */
export const canned = (
  texts: Answers<ReadonlyArray<ChatMessage>, string, CoworkerFailed>
): Layer.Layer<Coworker.Coworker> =>
  Layer.sync(Coworker.Coworker, () => {
    const complete = answering("Coworker.complete", texts)
    return { model: "stub", complete, answerCoworkers: Coworker.answeringWith(complete) }
  })

/**
 * A Coworker of the members that a test gives. Any other method dies with its name; the model's name is `stub`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Coworker.Coworker>> = {}): Layer.Layer<Coworker.Coworker> =>
  Layer.succeed(Coworker.Coworker, {
    model: "stub",
    complete: () => missing("Coworker.complete"),
    answerCoworkers: () => missing("Coworker.answerCoworkers"),
    ...given
  })
