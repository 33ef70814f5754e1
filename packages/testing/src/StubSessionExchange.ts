/**
 * Exchanges without a socket: a connection whose env is a script, frame by frame. Where whole episodes are scripted see
 * `StubSession`.
 *
 * @since 0.1.0
 */

import type * as Json from "@miroir-effect/core/Json"
import type { ConnectionLost, EnvError } from "@miroir-effect/core/MiroirError"
import type * as Protocol from "@miroir-effect/core/Protocol"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Answers, answering, missing } from "./internal/answers.js"
import { headOf } from "./internal/frames.js"
import * as MemoryExchange from "./internal/memoryExchange.js"

/**
 * A question, as its frame asks it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Question {
  /** The container's base URL. */
  readonly url: string
  readonly type: Protocol.RequestType
  /** Undefined where the frame has none. */
  readonly data: Json.Json | undefined
}

/**
 * Connections to any URL, whose questions are answered with the next `data` of a list, which all of them share, or with
 * what a function makes of the question. An effect stands for its result; so does an error, which is an effect that
 * fails with itself: an `EnvError` is an error frame, a `ConnectionLost` breaks the connection. Where there is no answer
 * the question dies.
 *
 * @since 0.1.0
 * @category layers
 */
export const canned = (
  answers: Answers<Question, Json.Json, EnvError | ConnectionLost>
): Layer.Layer<SessionExchange.SessionExchange> =>
  Layer.sync(SessionExchange.SessionExchange, () => {
    const answer = answering("SessionExchange.ask", answers)
    return {
      open: ({ href: url }) =>
        MemoryExchange.make(url, ({ text, type }) =>
          Effect.suspend(() => answer({ url, type, data: headOf(text).data }))
        )
    }
  })

/**
 * A SessionExchange of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  given: Partial<Context.Tag.Service<SessionExchange.SessionExchange>> = {}
): Layer.Layer<SessionExchange.SessionExchange> =>
  Layer.succeed(SessionExchange.SessionExchange, { open: () => missing("SessionExchange.open"), ...given })
