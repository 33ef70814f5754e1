/**
 * HTTP calls: a request with its redirects and the reading of its answer, under one deadline of the Clock. No retries.
 *
 * The `HttpClient`'s own spans are off: they would hold what a server put into a redirect, and on failure the request
 * with its headers. The callers have spans of their own.
 */

import type * as Headers from "@effect/platform/Headers"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { constTrue, identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as BaseUrl from "../BaseUrl.js"
import * as Json from "../Json.js"
import { ConnectionFailed, HttpStatusError, UnexpectedReply } from "../MiroirError.js"
import { networkReason } from "./networkReason.js"

/** There was no whole answer. The reason is ours: nothing of the request or of a foreign error is in it. */
export class Unanswered extends Data.TaggedError("Unanswered")<{
  readonly kind: "transport" | "timeout"
  readonly reason: string
}> {}

export interface Request {
  readonly method: "GET" | "POST"
  /** Without userinfo and fragment. */
  readonly url: string
  /** Goes to the URL's own origin only, whatever the redirects. */
  readonly authorization: Option.Option<Redacted.Redacted>
  /** The text of a JSON value. */
  readonly body?: string | undefined
  /** For all of it, redirects and body too; infinity where the caller sees to it. */
  readonly timeout: Duration.DurationInput
  /** An answer with more than this is given up; without it there is no bound. */
  readonly maxBytes?: number
}

export interface Answer {
  readonly status: number
  readonly headers: Headers.Headers
  /** Decoded as UTF-8, without a byte order mark. */
  readonly text: string
}

const maxRedirects = 5

/** Sends a request and gives the answer, whatever its status; a redirect that may not be followed is an answer. */
export const send = (request: Request): Effect.Effect<Answer, Unanswered, HttpClient.HttpClient> => {
  const answer = Effect.locally(follow(request), HttpClient.currentTracerDisabledWhen, constTrue)
  if (!Duration.isFinite(Duration.decode(request.timeout))) return answer
  return Effect.timeoutFail(answer, {
    duration: request.timeout,
    onTimeout: () => new Unanswered({ kind: "timeout", reason: `no answer within ${Duration.format(request.timeout)}` })
  })
}

const follow = Effect.fnUntraced(function* (request: Request) {
  const start = new URL(request.url)
  let url = start
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    const hop = yield* exchange(request, url, url.origin === start.origin).pipe(
      Effect.mapError((error) =>
        url.origin === start.origin
          ? error
          : new Unanswered({ kind: error.kind, reason: `${error.reason} (redirected to ${url.origin})` })
      )
    )
    if (!(hop instanceof URL)) return hop
    url = hop
  }
  return yield* new Unanswered({ kind: "transport", reason: `more than ${maxRedirects} redirects` })
})

/** One request: its answer, or where it is redirected to. */
const exchange = (request: Request, url: URL, atHome: boolean) =>
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    const response = yield* client.execute(toClientRequest(request, url, atHome))
    const next = redirection(request.method, url, response.status, response.headers.location)
    if (next !== undefined) return yield* Effect.as(unread(response), next)
    const text = yield* request.maxBytes === undefined ? response.text : readText(response, request.maxBytes)
    return { status: response.status, headers: response.headers, text }
  }).pipe(
    Effect.catchTags({
      RequestError: (error) => new Unanswered({ kind: "transport", reason: networkReason(error) }),
      ResponseError: (error) => new Unanswered({ kind: "transport", reason: networkReason(error) })
    })
  )

/** Lets go of an answer whose body nobody wants, whatever becomes of that body: a stream that ends early closes its connection. */
const unread = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<void> =>
  Effect.ignore(Stream.runDrain(Stream.take(response.stream, 1)))

const toClientRequest = (request: Request, url: URL, atHome: boolean): HttpClientRequest.HttpClientRequest => {
  let made = HttpClientRequest.make(request.method)(url.href, { acceptJson: true })
  if (request.body !== undefined) made = HttpClientRequest.bodyText(made, request.body, "application/json")
  return atHome && Option.isSome(request.authorization)
    ? HttpClientRequest.setHeader(made, "authorization", Redacted.value(request.authorization.value))
    : made
}

const redirection = (
  method: "GET" | "POST",
  from: URL,
  status: number,
  location: string | undefined
): URL | undefined => {
  const follows = status === 307 || status === 308 || (method === "GET" && status >= 301 && status <= 303)
  if (!follows || location === undefined || !URL.canParse(location, from.href)) return undefined
  const next = new URL(location, from)
  if (next.protocol !== "http:" && next.protocol !== "https:") return undefined
  next.username = ""
  next.password = ""
  next.hash = ""
  return next
}

/** The stream counts what arrives, but takes twice as long as the text: where a length is declared, that is asked. */
const readText = (response: HttpClientResponse.HttpClientResponse, maxBytes: number) => {
  const tooLong = new Unanswered({ kind: "transport", reason: `an answer of more than ${maxBytes} bytes` })
  const length = response.headers["content-length"]
  if (length !== undefined)
    return Number(length) > maxBytes ? Effect.zipRight(unread(response), tooLong) : response.text
  return Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let bytes = 0
    return response.stream.pipe(
      Stream.runForEach((chunk) => {
        chunks.push(chunk)
        bytes += chunk.length
        return bytes > maxBytes ? tooLong : Effect.void
      }),
      Effect.map(() => new TextDecoder().decode(Buffer.concat(chunks)))
    )
  })
}

/**
 * Takes the request's credential, which a server may echo, out of a text that is to go into an error. A short one is
 * most likely a dummy ("x", "EMPTY"), and taken out only where it stands alone.
 */
export const withoutCredential = (authorization: Option.Option<Redacted.Redacted>): ((text: string) => string) => {
  const credential = Option.match(authorization, {
    onNone: () => "",
    onSome: (header) => Redacted.value(header).replace(/^\w+ /, "")
  })
  if (credential === "") return identity
  const escaped = credential.replace(/[^\w]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`)
  const pattern = new RegExp(credential.length < 8 ? `(?<!\\w)${escaped}(?!\\w)` : escaped, "gu")
  return (text) => text.replace(pattern, "<redacted>")
}

/** A call to a container. */
export interface Call {
  readonly base: BaseUrl.BaseUrl
  readonly token: Option.Option<Redacted.Redacted>
  readonly method: "GET" | "POST"
  /** The path behind the base URL; each part is percent-encoded. */
  readonly path: ReadonlyArray<string>
  /** The query without its `?`, encoded. */
  readonly query?: string | undefined
  readonly body?: Json.Json
  readonly timeout: Duration.DurationInput
}

/** What a call answered in a 2xx answer, and how its errors name it. */
export interface CallAnswer {
  readonly url: string
  readonly request: string
  readonly json: Json.Json
  /** For a text of the answer that is to go into an error. */
  readonly scrub: (text: string) => string
}

const toRequest = (call: Call): Request => ({
  method: call.method,
  url: BaseUrl.endpoint(call.base, ...call.path) + (call.query === undefined ? "" : `?${call.query}`),
  authorization: BaseUrl.authorization(call.base, call.token),
  body: call.body === undefined ? undefined : Json.stringify(call.body),
  timeout: call.timeout
})

/** Makes a call and reads its 2xx answer as JSON. */
export const call = Effect.fnUntraced(function* (call: Call) {
  const request = toRequest(call)
  const scrub = withoutCredential(request.authorization)
  const answer = yield* send(request).pipe(
    Effect.mapError((error) => new ConnectionFailed({ url: call.base.href, reason: error.reason }))
  )
  if (!isOk(answer.status)) {
    return yield* new HttpStatusError({ url: request.url, status: answer.status, body: scrub(answer.text) })
  }
  const name = `${call.method} ${request.url.slice(call.base.href.length)}`
  const json = yield* Either.mapLeft(
    Json.parse(answer.text),
    (reason) => new UnexpectedReply({ url: call.base.href, request: name, reason })
  )
  return { url: call.base.href, request: name, json, scrub }
})

export const isOk = (status: number): boolean => status >= 200 && status < 300

/** What a health check says of a container. */
export type Health = "free" | "leased" | "unhealthy"

const maxHealthBytes = 1024 * 1024

/** What became of a health check. */
export interface HealthAnswer {
  readonly health: Health
  /** Why it is unhealthy, in a few words that are ours. */
  readonly reason: Option.Option<string>
  /** Whether there was a whole answer. */
  readonly answered: boolean
}

/**
 * Asks a container's health. Never fails: one that cannot be reached, or answers anything else than
 * a JSON object in a 2xx or 503 answer whose status is "healthy", is unhealthy.
 */
export const checkHealth = (
  base: BaseUrl.BaseUrl,
  token: Option.Option<Redacted.Redacted>,
  timeout: Duration.DurationInput = "2 seconds"
): Effect.Effect<HealthAnswer, never, HttpClient.HttpClient> =>
  send({ ...toRequest({ base, token, method: "GET", path: ["health"], timeout }), maxBytes: maxHealthBytes }).pipe(
    Effect.map((answer) =>
      Either.match(readHealth(answer), {
        onLeft: (reason): HealthAnswer => ({ health: "unhealthy", reason: Option.some(reason), answered: true }),
        onRight: (health): HealthAnswer => ({ health, reason: Option.none(), answered: true })
      })
    ),
    Effect.catchAll(({ reason }) =>
      Effect.succeed<HealthAnswer>({ health: "unhealthy", reason: Option.some(reason), answered: false })
    )
  )

/** The same, but for why a container is unhealthy: that is logged at level Debug. */
export const health = (
  base: BaseUrl.BaseUrl,
  token: Option.Option<Redacted.Redacted>,
  timeout?: Duration.DurationInput
): Effect.Effect<Health, never, HttpClient.HttpClient> =>
  Effect.flatMap(checkHealth(base, token, timeout), ({ health, reason }) =>
    Option.match(reason, {
      onNone: () => Effect.succeed(health),
      onSome: (reason) =>
        Effect.as(
          Effect.annotateLogs(Effect.logDebug(`${base.href} is unhealthy: ${reason}`), "container", base.href),
          health
        )
    })
  )

const readHealth = (answer: Answer): Either.Either<Health, string> => {
  if (!isOk(answer.status) && answer.status !== 503) return Either.left(`it answered ${answer.status}`)
  const json = Json.parse(answer.text)
  if (Either.isLeft(json) || !Json.isObject(json.right)) return Either.left("its answer is no JSON object")
  const { leased, status } = json.right
  if (status !== "healthy") return Either.left('its status is not "healthy"')
  return Either.right(Json.truthy(leased) ? "leased" : "free")
}
