/**
 * A model behind an OpenAI-compatible `chat/completions`: one request without streaming, its failures told apart, and
 * repeated on a schedule where a repeat may mend them. Reads what such servers really send.
 */

import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as BaseUrl from "../BaseUrl.js"
import * as Json from "../Json.js"
import type { InvalidUrls } from "../MiroirError.js"
import * as Telemetry from "../Telemetry.js"
import * as http from "./http.js"
import { retryAfter } from "./retryAfter.js"
import { shown } from "./text.js"

/** A model, and how patiently it is asked. */
export interface Settings {
  /** `http(s)://HOST[:PORT][/PATH]`, to which `/chat/completions` is added unless it ends so. A query is kept. */
  readonly baseUrl: string
  readonly model: string
  /** Sent as bearer token; without it, and without userinfo in the URL, there is no `Authorization`. */
  readonly apiKey?: Redacted.Redacted | undefined
  /** Left to the server unless given. */
  readonly temperature?: number | undefined
  /** For each attempt's whole answer; 30 seconds unless given. */
  readonly timeout?: Duration.DurationInput | undefined
  /** When failures that a repeat may mend are repeated; `defaultRetry` unless given. */
  readonly retry?: Schedule.Schedule<unknown> | undefined
  /** A server that asks for a longer pause than this is not asked again; 60 seconds unless given. */
  readonly maxRetryAfter?: Duration.DurationInput | undefined
}

/** Three attempts in all, the second after about 0.5 s and the third after about 1 s more. */
export const defaultRetry: Schedule.Schedule<unknown> = Schedule.exponential("500 millis").pipe(
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(2))
)

/** Why there is no usable completion. Nothing of the request is in it. */
class CompletionFailed extends Data.TaggedError("CompletionFailed")<{
  readonly reason: "transport" | "timeout" | "status" | "malformed" | "refused" | "empty"
  /** The answer's status outside 2xx, or the one that an error within a 2xx answer names. */
  readonly status?: number
  readonly detail: string
  /** The least pause before a repeat; none where a repeat would not mend it. */
  readonly again: Option.Option<Duration.Duration>
}> {}

/** What is made of a completion, a JSON object that reports no error. */
export type Reader<A> = (completion: Json.JsonObject) => Either.Either<A, CompletionFailed>

export interface ChatModel {
  /** The base URL as it may be shown. */
  readonly url: string
  readonly model: string
  /** Asks for a completion; the body's other members, `messages` above all, are the caller's. */
  readonly complete: <A>(body: Json.JsonObject, read: Reader<A>) => Effect.Effect<A, CompletionFailed>
}

export const make = (settings: Settings): Effect.Effect<ChatModel, InvalidUrls, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const parsed = yield* BaseUrl.parse(settings.baseUrl)
    const base = { ...parsed, href: parsed.href.replace(/\/+chat\/completions$/, "") }
    const apiKey = Option.filter(Option.fromNullable(settings.apiKey), (key) => Redacted.value(key) !== "")
    const authorization = BaseUrl.authorization(base, apiKey)
    const scrub = http.withoutCredential(authorization)
    const maxRetryAfter = settings.maxRetryAfter ?? "60 seconds"
    const url = `${BaseUrl.endpoint(base, "chat", "completions")}${new URL(settings.baseUrl).search}`
    const temperature = settings.temperature === undefined ? {} : { temperature: settings.temperature }

    const attempt = <A>(body: string, read: Reader<A>): Effect.Effect<A, CompletionFailed> =>
      http.send({ method: "POST", url, authorization, body, timeout: settings.timeout ?? "30 seconds" }).pipe(
        Effect.provideService(HttpClient.HttpClient, client),
        Effect.mapError(({ kind, reason }) => repeatable(kind, reason)),
        Effect.zip(Clock.currentTimeMillis),
        Effect.flatMap(([answer, now]) => Either.flatMap(judge(answer, scrub, now), read)),
        Effect.mapError((failure) =>
          withinPatience(new CompletionFailed({ ...failure, detail: scrub(failure.detail) }), maxRetryAfter)
        )
      )

    const schedule: Schedule.Schedule<unknown, CompletionFailed> = settings.retry ?? defaultRetry
    const policy = Schedule.modifyDelay(Schedule.passthrough(schedule), (failure, delay) =>
      Duration.max(
        delay,
        Option.getOrElse(failure.again, () => Duration.zero)
      )
    )

    const repeatedly = <A>(body: string, read: Reader<A>): Effect.Effect<A, CompletionFailed> =>
      Effect.suspend(() => {
        let attempts = 0
        return Effect.suspend(() => {
          attempts++
          return Effect.when(Metric.increment(Telemetry.completionRetries), () => attempts > 1)
        }).pipe(
          Effect.zipRight(attempt(body, read)),
          Effect.tapError(({ detail, reason }) =>
            Effect.logDebug(`Attempt ${attempts} for a completion failed (${reason}): ${shown(detail)}`)
          ),
          Effect.retry({ schedule: policy, while: ({ again }) => Option.isSome(again) }),
          Effect.onExit(() => Effect.annotateCurrentSpan("attempts", attempts))
        )
      })

    return {
      url: base.href,
      model: settings.model,
      complete: (body, read) =>
        Effect.try({
          try: () => Json.stringify({ model: settings.model, ...body, ...temperature }),
          catch: () => failed("malformed", "the request contains itself, which JSON cannot")
        }).pipe(
          Effect.flatMap((text) => repeatedly(text, read)),
          Effect.tapError(({ reason, status }) =>
            Effect.annotateCurrentSpan({ failure: reason, ...(status === undefined ? {} : { status }) })
          ),
          Effect.withSpan("miroir.completion", {
            attributes: { url: base.href, model: settings.model },
            kind: "client",
            captureStackTrace: false
          })
        )
    }
  })

const failed = (reason: CompletionFailed["reason"], detail: string): CompletionFailed =>
  new CompletionFailed({ reason, detail, again: Option.none() })

const repeatable = (reason: "transport" | "timeout", detail: string): CompletionFailed =>
  new CompletionFailed({ reason, detail, again: Option.some(Duration.zero) })

const withinPatience = (failure: CompletionFailed, maxRetryAfter: Duration.DurationInput): CompletionFailed =>
  Option.exists(failure.again, Duration.greaterThan(maxRetryAfter))
    ? new CompletionFailed({
        ...failure,
        detail: `it wants a pause of more than ${Duration.format(maxRetryAfter)}; ${failure.detail}`,
        again: Option.none()
      })
    : failure

/**
 * The completion that an answer is, or the failure that it reports. `now` is in milliseconds since the epoch; `scrub`
 * is for texts that go into an error.
 */
const judge = (
  answer: http.Answer,
  scrub: (text: string) => string,
  now: number
): Either.Either<Json.JsonObject, CompletionFailed> => {
  const json = parseBody(answer.text)
  return http.isOk(answer.status) && Json.isObject(json) && errorIn(json) === undefined
    ? Either.right(json)
    : Either.left(failureOf({ ...answer, text: scrub(answer.text) }, now))
}

/** Some servers send blank lines while the model works. */
const parseBody = (text: string): Json.Json | undefined => Either.getOrElse(Json.parse(text.trim()), () => undefined)

const failureOf = (answer: http.Answer, now: number): CompletionFailed => {
  const json = parseBody(answer.text)
  const error = errorIn(json)
  if (!http.isOk(answer.status)) return reported(answer, answer.status, error ?? json ?? answer.text.trim(), now)
  if (error !== undefined) return reported(answer, statusIn(error), error, now)
  const text = answer.text.trim()
  if (text === "") return repeatable("transport", "the answer is empty")
  if (text.startsWith("{") && !text.endsWith("}")) return repeatable("transport", "the answer was cut")
  return failed(
    "malformed",
    /^(data|event|id|retry)?:/.test(text)
      ? "the endpoint streams, though it was not asked to"
      : `the answer is no JSON object: ${shown(text, 100)}`
  )
}

/** Gemini puts its error into a list, OpenRouter an upstream's into the choice; older vLLM's is all of the answer. */
const errorIn = (json: Json.Json | undefined): Json.Json | undefined => {
  const answer = Json.isArray(json) ? json[0] : json
  if (!Json.isObject(answer)) return undefined
  if (Json.truthy(answer.error)) return answer.error
  if (answer.object === "error") return answer
  const choice = Json.isArray(answer.choices) ? answer.choices[0] : undefined
  return Json.isObject(choice) && Json.truthy(choice.error) ? choice.error : undefined
}

const statusIn = (error: Json.Json): number | undefined => {
  const { code, status, status_code } = Json.isObject(error) ? error : { code: error }
  return [code, status, status_code]
    .filter((value) => typeof value === "number" || (typeof value === "string" && /^\d{3}$/.test(value)))
    .map(Number)
    .find((value) => value >= 400 && value <= 599)
}

/** A failure that the server reports: by a status, or without one by the names that it gives the error. */
const reported = (
  { headers }: http.Answer,
  status: number | undefined,
  error: Json.Json,
  now: number
): CompletionFailed => {
  const {
    code,
    detail,
    message,
    status: name,
    type
  }: Json.JsonObject = Json.isObject(error) ? error : { message: error }
  const names = [code, type, name].filter((value) => typeof value === "string").join(" ")
  const said =
    [message, detail, names].find((value) => typeof value === "string" && value !== "") ?? Json.stringify(error)
  const mayMend = status === undefined ? transient.test(names) : isTransient(status)
  const should = headers["x-should-retry"]
  const repeats = should === "true" || (should !== "false" && mayMend && !spent.test(names))
  return new CompletionFailed({
    reason: filtered.test(names) ? "refused" : "status",
    ...(status === undefined ? {} : { status }),
    detail: status === undefined ? `${said}` : `${status}: ${said}`,
    again: repeats ? Option.some(retryAfter(headers, now)) : Option.none()
  })
}

const isTransient = (status: number): boolean => status === 408 || status === 409 || status === 429 || status >= 500

/** OpenAI's names for what a status would have said, and other servers' spellings: `rate_limit_exceeded`, `ServerError`. */
const transient = /rate_?limit|too_?many_?requests|server_?error|internal_?error|overloaded|unavailable|time_?out/i

/** OpenAI's, Moonshot's and DeepSeek's names: sent with 429, which waiting does not mend. */
const spent = /insufficient_?(quota|balance|credits?|funds)|billing|current_quota|quota_exceeded/i

const filtered = /content_?(filter|policy)|responsible_?ai/i

/** The text of a completion: not trimmed, less a leading block of reasoning. */
export const readText: Reader<string> = (completion) => {
  if (!Json.isArray(completion.choices)) return Either.left(failed("malformed", "the answer has no choices"))
  const choice = completion.choices[0]
  if (choice === undefined) return Either.left(failed("empty", "the answer has no choice"))
  if (!Json.isObject(choice)) return Either.left(failed("malformed", "its choice is no object"))
  // Servers of the older completions API put the text into the choice.
  const message: Json.Json | undefined =
    choice.message ?? (typeof choice.text === "string" ? { content: choice.text } : null)
  if (!Json.isObject(message)) return Either.left(failed("malformed", "its choice has no message"))
  const parts = textParts(message.content)
  if (parts === undefined) return Either.left(failed("malformed", "its message has no content that is known here"))
  const refusal = [message.refusal, ...parts.refusals].find(isSaid)
  if (refusal !== undefined) return Either.left(failed("refused", refusal))
  if (choice.finish_reason === "content_filter") return Either.left(failed("refused", "a content filter stopped it"))
  const text = withoutReasoning(parts.text)
  if (isSaid(text)) return Either.right(text)
  const why =
    choice.finish_reason === "length"
      ? "it ran out of tokens before it said anything; let it use more"
      : Json.truthy(message.tool_calls)
        ? "it called a tool instead of speaking"
        : "its message has no text"
  return Either.left(failed("empty", why))
}

const isSaid = (value: Json.Json | undefined): value is string => typeof value === "string" && value.trim() !== ""

/** A content is a text, null, or a list of parts, some of which (reasoning, images) are no text for the reader. */
const textParts = (
  content: Json.Json | undefined
): { readonly text: string; readonly refusals: ReadonlyArray<string> } | undefined => {
  if (content === undefined || content === null) return { text: "", refusals: [] }
  if (typeof content === "string") return { text: content, refusals: [] }
  if (!Json.isArray(content)) return undefined
  let text = ""
  const refusals: Array<string> = []
  for (const part of content) {
    const { refusal, text: said, type = "text" } = Json.isObject(part) ? part : { text: part }
    if (typeof refusal === "string") refusals.push(refusal)
    if ((type === "text" || type === "output_text") && typeof said === "string") text += said
  }
  return { text, refusals }
}

/**
 * Some templates open the block in the prompt, so that only its end is in the text. A block that does not end has no
 * text behind it. The blank lines that part it from the text go with it.
 */
const withoutReasoning = (text: string): string => {
  const closes = text.indexOf("</think>")
  const opens = text.indexOf("<think>")
  const leads = opens >= 0 && text.slice(0, opens).trim() === ""
  if (closes < 0) return leads ? "" : text
  return leads || opens < 0 || closes < opens ? text.slice(closes + "</think>".length).trimStart() : text
}
