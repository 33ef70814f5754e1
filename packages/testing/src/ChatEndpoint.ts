/**
 * A stub of an OpenAI-compatible server on loopback: `POST {base}/chat/completions`,
 * answered as a script says, well or badly.
 *
 * The endpoint runs on the live clock, also in a test that runs on a TestClock.
 *
 * @since 0.1.0
 */

import * as Json from "@miroir-effect/core/Json"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import * as HttpServer from "./internal/httpServer.js"
import * as Watched from "./internal/watched.js"

/**
 * A request for a completion, as it arrived.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatRequest {
  /** Counts from 0. */
  readonly index: number
  /** Names in lower case. */
  readonly headers: HttpServer.HttpRequest["headers"]
  readonly text: string
  /** The body; null where it is no JSON. */
  readonly body: Json.Json
}

/**
 * How a request is answered.
 *
 * - `text`: with a completion whose message has this content
 * - `message`: with a completion that has this message; `finishReason` is `stop` if not given
 * - `raw`: with this body as it is; `body`: with this one as JSON
 * - `cut`: the connection is cut in the middle of the body; `drop`: without an answer; `hang`: never answered
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatAnswer {
  readonly text?: string
  readonly message?: Json.JsonObject
  readonly finishReason?: string
  readonly raw?: string
  readonly body?: Json.Json
  /** 200 if not said. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Wait before answering. */
  readonly delay?: Duration.DurationInput
  readonly hang?: boolean
  readonly drop?: boolean
  readonly cut?: boolean
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Script {
  /**
   * The next of a list (400 once it is exhausted), or what a function says. An effect that it returns runs on
   * the live clock.
   */
  readonly answers: ReadonlyArray<ChatAnswer> | ((request: ChatRequest) => ChatAnswer | Effect.Effect<ChatAnswer>)
  /** Wants `Authorization: Bearer` with this key, and answers 401 without. */
  readonly apiKey?: string
  /** `/v1` if not given. */
  readonly prefix?: string
}

/**
 * @since 0.1.0
 * @category models
 */
export interface ChatEndpoint {
  /** The base URL, with the prefix. */
  readonly url: string
  /** All requests for completions so far. */
  readonly requests: Effect.Effect<ReadonlyArray<ChatRequest>>
  /** Completes as soon as so many requests have come. */
  readonly awaitRequests: (count: number) => Effect.Effect<ReadonlyArray<ChatRequest>>
  /** Completes as soon as no client waits for an answer. */
  readonly awaitIdle: Effect.Effect<void>
}

/**
 * Starts an endpoint on a free port of 127.0.0.1. Closing the scope cuts its connections and stops it at once.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (script: Script): Effect.Effect<ChatEndpoint, never, Scope.Scope> =>
  Effect.gen(function* () {
    const prefix = (script.prefix ?? "/v1").replace(/\/+$/, "")
    const { changed, until } = Watched.make()
    const requests: Array<ChatRequest> = []
    let pending = 0

    const answerTo = (request: ChatRequest): Effect.Effect<ChatAnswer> =>
      Effect.suspend(() => {
        if (typeof script.answers !== "function") return Effect.succeed(script.answers[request.index] ?? exhausted)
        const made = script.answers(request)
        return Effect.isEffect(made) ? made : Effect.succeed(made)
      })
    const server = yield* HttpServer.make({
      answer: ({ body, headers, method, path }) =>
        Effect.suspend(() => {
          if (method !== "POST" || path !== `${prefix}/chat/completions`) return Effect.succeed(notFound)
          const request: ChatRequest = {
            index: requests.length,
            headers,
            text: body,
            body: Either.getOrElse(Json.parse(body), () => null)
          }
          requests.push(request)
          changed()
          if (script.apiKey !== undefined && headers.authorization !== `Bearer ${script.apiKey}`) {
            return Effect.succeed(unauthorized)
          }
          return Effect.map(answerTo(request), (answer) => toHttp(request, answer))
        }),
      arrived: () => {
        pending++
        return () => {
          pending--
          changed()
        }
      }
    })
    const seen = Effect.sync(() => Array.from(requests))
    return {
      url: `http://127.0.0.1:${server.port}${prefix}`,
      requests: seen,
      awaitRequests: (count) =>
        Effect.zipRight(
          until(() => requests.length >= count),
          seen
        ),
      awaitIdle: until(() => pending === 0)
    }
  })

const toHttp = (request: ChatRequest, answer: ChatAnswer): HttpServer.Answer => {
  const { finishReason, message, raw, text, ...rest } = answer
  if (raw !== undefined) return { ...rest, text: raw }
  const said = message ?? (text === undefined ? undefined : { role: "assistant", content: text })
  return said === undefined ? rest : { body: completion(request, said, finishReason ?? "stop"), ...rest }
}

/** The object that the API reference of chat completions describes; without streaming. */
const completion = (request: ChatRequest, message: Json.JsonObject, finishReason: string): Json.Json => ({
  id: `chatcmpl-${request.index}`,
  object: "chat.completion",
  created: 0,
  model: (Json.isObject(request.body) ? request.body.model : undefined) ?? null,
  choices: [{ index: 0, message, finish_reason: finishReason, logprobs: null }],
  usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
})

const failure = (status: number, message: string, code: string): ChatAnswer & HttpServer.Answer => ({
  status,
  body: { error: { message, type: "invalid_request_error", code } }
})

const exhausted = failure(400, "the script has no more answers", "SCRIPT_EXHAUSTED")

const notFound = failure(404, "there is nothing here but POST /chat/completions", "not_found")

const unauthorized = failure(401, "wrong key", "invalid_api_key")
