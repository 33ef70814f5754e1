/**
 * What an endpoint of `chat/completions` answered: the completion, or the failure that it reports, whatever way its
 * server has of reporting one. What the failure is about is told by statuses and names where there are any, else by words.
 */

import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Json from "../Json.js"
import * as http from "./http.js"
import { retryAfter } from "./retryAfter.js"
import { shown } from "./text.js"

/** What a failure is about that no repeat mends; `root` is an address that lacks the path that APIs mostly have, `/v1`. */
export type Fault = "context" | "key" | "quota" | "address" | "root" | "tools" | "request"

/** Why there is no usable completion. Nothing of the request is in it. */
export class CompletionFailed extends Data.TaggedError("CompletionFailed")<{
  readonly reason: "transport" | "timeout" | "status" | "malformed" | "refused" | "empty"
  /** The answer's status outside 2xx, or the one that an error within a 2xx answer names. */
  readonly status?: number
  readonly detail: string
  /** The least pause before a repeat; none where a repeat would not mend it. */
  readonly again: Option.Option<Duration.Duration>
  /** Known only where a repeat would not mend it. */
  readonly fault?: Fault
}> {}

export const failed = (reason: CompletionFailed["reason"], detail: string, fault?: Fault): CompletionFailed =>
  new CompletionFailed({ reason, detail, again: Option.none(), ...(fault === undefined ? {} : { fault }) })

export const repeatable = (reason: CompletionFailed["reason"], detail: string): CompletionFailed =>
  new CompletionFailed({ reason, detail, again: Option.some(Duration.zero) })

/**
 * The completion that an answer is, or the failure that it reports. `now` is in milliseconds since the epoch; `scrub`
 * is for texts that go into an error.
 */
export const judge = (
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
  if (text.startsWith("<") || /^text\/html\b/i.test(answer.headers["content-type"] ?? "")) {
    return failed("malformed", `the answer is a web page, and not an API's: ${shown(text, 100)}`, "address")
  }
  return /^(data|event|id|retry)?:/.test(text)
    ? failed("malformed", "the endpoint streams, though it was not asked to", "address")
    : failed("malformed", `the answer is no JSON object: ${shown(text, 100)}`)
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
  const { names, said, words } = wordsOf(error)
  const refused = filtered.test(names) || refusals.test(words)
  const full = !refused && !isThrottling(status) && tooLong.test(words)
  const mayMend = status === undefined ? transient.test(names) : isTransient(status)
  const should = headers["x-should-retry"]
  const lost = refused || full || spent.test(names) || tooLargeForAMinute.test(words)
  const repeats = should === "true" || (should !== "false" && !lost && (mayMend || mishap.test(words)))
  const fault = repeats || refused ? undefined : full ? "context" : faultOf(status, names, words)
  return new CompletionFailed({
    reason: refused ? "refused" : "status",
    ...(status === undefined ? {} : { status }),
    detail: status === undefined ? said : `${status}: ${said}`,
    again: repeats ? Option.some(retryAfter(headers, now)) : Option.none(),
    ...(fault === undefined ? {} : { fault })
  })
}

/** The names that a server gives an error; what it and its upstream say of it; and both, for a look at their words. */
const wordsOf = (error: Json.Json): { readonly names: string; readonly said: string; readonly words: string } => {
  const { code, detail, innererror, message, metadata, status, type }: Json.JsonObject = Json.isObject(error)
    ? error
    : { message: error }
  const inner = Json.isObject(innererror) ? innererror.code : undefined
  const upstream = Json.isObject(metadata) ? metadata.raw : undefined
  const names = [code, type, status, inner].filter(isText).join(" ")
  const own = [message, detail, names].find((value) => isText(value) && value !== "") ?? Json.stringify(error)
  const said = [own, upstream].filter(isText).join(": ")
  return { names, said, words: `${names} ${said}`.slice(0, 10_000) }
}

const isText = (value: Json.Json | undefined): value is string => typeof value === "string"

const isTransient = (status: number): boolean => status === 408 || status === 409 || status === 429 || status >= 500

/** Such an answer is about how much is asked for just now, even where it says "too many tokens". */
const isThrottling = (status: number | undefined): boolean =>
  status !== undefined && isTransient(status) && status !== 500

/** OpenAI's names for what a status would have said, and other servers' spellings: `rate_limit_exceeded`, `ServerError`. */
const transient = /rate_?limit|too_?many_?requests|server_?error|internal_?error|overloaded|unavailable|time_?out/i

/** With status 400, of what the model wrote: Groq's for a call that is broken, OpenAI's for one that never ended. */
const mishap = /tool_use_failed|output_parse_failed|could not finish the message/i

/** OpenAI's, Moonshot's and DeepSeek's names: sent with 429, which waiting does not mend. */
const spent = /insufficient_?(quota|balance|credits?|funds)|billing|current_quota|quota_exceeded/i

/** Groq's 413 and OpenAI's 429 for a request that is larger than what the account may use in a minute. */
const tooLargeForAMinute = /too large for .*tokens per min/i

const filtered = /content_?(filter|policy)|responsible_?ai|data_?inspection_?failed|invalid_prompt/i

/** What Azure by way of a proxy, DeepSeek, Alibaba, OpenRouter and xAI say where their names for it say nothing. */
const refusals =
  /content management policy|ContentPolicyViolation|content exists risk|DataInspectionFailed|inappropriate content|was flagged|violates usage guidelines/i

/**
 * What is said of a conversation that is longer than the model, or its server, can take. Whose words these are stands in
 * the test.
 */
const tooLong = new RegExp(
  [
    "context_?(length|window)_?exceeded",
    "string_above_max_length",
    "maximum (context|prompt|input) length",
    "longer than the (maximum model length|model's context length)",
    "max_tokens must be at least 1, got -",
    "prompt (is )?too long",
    "input is too long",
    "exceed\\w* (\\S+ ){0,3}context[ _](size|window|length|limit)",
    "context[ _](size|window|length) (has been |is )?exceed",
    "greater than the context length",
    "context the overflows",
    "n_keep .*n_ctx",
    "(token count|input tokens|input length|prompt length|prompt) .{0,40}exceeds? .{0,20}(max|limit)",
    "`inputs` (tokens \\+ `max_new_tokens` must be <=|must have less than)",
    "reduce the length of (the|your|either)",
    "exceeded model token limit",
    "input length should be",
    "configured context size is",
    "too many tokens:"
  ].join("|"),
  "i"
)

/** What has to be changed, where it is not for the server to come to itself. */
const faultOf = (status: number | undefined, names: string, words: string): Fault | undefined => {
  if (status === undefined) return faultByName(names, words)
  if (isTransient(status) && !spent.test(names) && !tooLargeForAMinute.test(words)) return undefined
  if (status === 413 && !tooLargeForAMinute.test(words)) return "context"
  if (status === 402 || status === 413 || status === 429 || account.test(words)) return "quota"
  if (status === 401 || status === 403) return "key"
  if (tools.test(words)) return "tools"
  return status < 400 || status === 404 || status === 405 || status === 410 ? "address" : "request"
}

const faultByName = (names: string, words: string): Fault | undefined => {
  if (spent.test(names)) return "quota"
  if (/auth|api_?key|permission|forbidden/i.test(names)) return "key"
  if (/not_?found/i.test(names) || /unexpected endpoint/i.test(words)) return "address"
  return /invalid|unsupported|bad_?request/i.test(names) ? "request" : undefined
}

const account =
  /credit balance|insufficient (balance|credits|funds|quota)|more credits|available credits|spending limit/i

const tools =
  /(enable-auto-tool-choice|tool-call-parser|support(s|ed)? (for )?(tools?|function)|tool use|tool calling)/i
