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
  /** The body as it came. */
  readonly text: string
  /** The body; null where it is no JSON. */
  readonly body: Json.Json
}

/**
 * How a request is answered.
 *
 * - `text`: with a completion whose message has this content
 * - `calls`: with a completion whose message calls these tools
 * - `message`: with a completion that has this message
 * - `choice`: with a completion that has this choice, as it is
 * - `raw`: with this body as it is; `body`: with this one as JSON
 * - `cut`: the connection is cut in the middle of the body; `drop`: without an answer; `hang`: never answered
 * - `drip`: the body comes byte by byte; `blanks`: after so many blank lines
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatAnswer {
  readonly text?: string
  readonly calls?: ReadonlyArray<ChatCall>
  readonly message?: Json.JsonObject
  readonly choice?: Json.JsonObject
  /** `tool_calls` for `calls`, else `stop`, if not said. */
  readonly finishReason?: string
  /** Zeros if not said. */
  readonly usage?: Json.Json
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
  readonly blanks?: number
  /** The pause after each byte. */
  readonly drip?: Duration.DurationInput
}

/**
 * A tool call of an answer.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatCall {
  readonly tool: string
  /** A text stands as it is, JSON or not. */
  readonly args?: Json.JsonObject | string
  /** Made up if not said; null leaves it out. */
  readonly id?: string | null
}

/**
 * What an endpoint answers, and what it asks of its clients.
 *
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
 * An endpoint that is being served, and what it has seen.
 *
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
  const { calls, choice, finishReason, message, raw, text, usage, ...rest } = answer
  if (raw !== undefined) return { ...rest, text: raw }
  const said = message ?? (calls === undefined ? undefined : calling(request, text ?? null, calls)) ?? speaking(text)
  const finish_reason = finishReason ?? (calls === undefined ? "stop" : "tool_calls")
  const only = choice ?? (said === undefined ? undefined : { index: 0, message: said, finish_reason, logprobs: null })
  return only === undefined ? rest : { body: completion(request, only, usage), ...rest }
}

const speaking = (text: string | undefined): Json.JsonObject | undefined =>
  text === undefined ? undefined : { role: "assistant", content: text }

const calling = (request: ChatRequest, content: string | null, calls: ReadonlyArray<ChatCall>): Json.JsonObject => ({
  role: "assistant",
  content,
  tool_calls: calls.map(({ args = {}, id, tool }, index) => ({
    ...(id === null ? {} : { id: id ?? `call_${request.index}_${index}` }),
    type: "function",
    function: { name: tool, arguments: typeof args === "string" ? args : Json.stringify(args) }
  }))
})

/** The object that the API reference of chat completions describes; without streaming. */
const completion = (
  request: ChatRequest,
  choice: Json.JsonObject,
  usage: Json.Json = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
): Json.Json => ({
  id: `chatcmpl-${request.index}`,
  object: "chat.completion",
  created: 0,
  model: (Json.isObject(request.body) ? request.body.model : undefined) ?? null,
  choices: [choice],
  usage
})

const failure = (status: number, message: string, code: string): ChatAnswer & HttpServer.Answer => ({
  status,
  body: { error: { message, type: "invalid_request_error", code } }
})

const exhausted = failure(400, "the script has no more answers", "SCRIPT_EXHAUSTED")

const notFound = failure(404, "there is nothing here but POST /chat/completions", "not_found")

const unauthorized = failure(401, "wrong key", "invalid_api_key")
