/**
 * HTTP calls: a request with its redirects and the reading of its answer, under one deadline of the Clock. No retries.
 *
 * The `HttpClient`'s own spans are off: they would hold what a server put into a redirect, and on failure the request
 * with its headers. The callers have spans of their own.
 */

import type * as Headers from "@effect/platform/Headers"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
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
import * as Proxies from "./proxies.js"
import { shown } from "./text.js"

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
  /** A longer answer is given up; `maxBodyBytes` unless given. */
  readonly maxBytes?: number
}

export interface Answer {
  readonly status: number
  readonly headers: Headers.Headers
  /** Decoded as UTF-8, without a byte order mark. */
  readonly text: string
}

/** What is needed of an answer here. */
type Response = Pick<HttpClientResponse.HttpClientResponse, "status" | "headers" | "text" | "stream">

/** By this name a client may have a cheaper way to a short answer: health is asked of hundreds of containers at once. */
export const brief: unique symbol = Symbol.for("@miroir-effect/core/internal/http/brief")

export interface Brief {
  /** Sends a GET. Of an answer that is too long it gives the beginning, and closes the connection. */
  readonly [brief]: (
    request: HttpClientRequest.HttpClientRequest,
    maxBytes: number
  ) => Effect.Effect<Response, HttpClientError.HttpClientError>
}

const isBrief = (client: HttpClient.HttpClient): client is HttpClient.HttpClient & Brief => brief in client

const maxRedirects = 5

/** No answer is longer: a model's with all its log probabilities is far from it. */
export const maxBodyBytes = 256 * 1024 * 1024

/** Of an answer outside 2xx no more is read: it is for an error. */
const maxRefusalBytes = 1024 * 1024

/** Sends a request and gives the answer, whatever its status; a redirect that may not be followed is an answer. */
export const send = (request: Request): Effect.Effect<Answer, Unanswered, HttpClient.HttpClient> => {
  const answer = follow(request)
  if (!Duration.isFinite(Duration.decode(request.timeout))) return answer
  return Effect.timeoutFail(answer, {
    duration: request.timeout,
    onTimeout: () => {
      const proxy = Proxies.fromEnvironment()?.(new URL(request.url))
      const way = proxy === undefined ? "" : ` through the proxy ${proxy.name}`
      return new Unanswered({
        kind: "timeout",
        reason: `no answer within ${Duration.format(request.timeout)}${way}`
      })
    }
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
          : new Unanswered({
              kind: error.kind,
              reason: `${error.reason} (redirected to ${withoutCredential(request.authorization)(url.origin)})`
            })
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
    const made = toClientRequest(request, url, atHome)
    const isShort = request.method === "GET" && request.maxBytes !== undefined
    const response = yield* isShort && isBrief(client)
      ? client[brief](made, request.maxBytes)
      : Effect.locally(client.execute(made), HttpClient.currentTracerDisabledWhen, constTrue)
    const next = redirection(request.method, url, response.status, response.headers.location)
    if (next !== undefined) return yield* Effect.as(unread(response), next)
    if (response.status === 407) {
      return yield* Effect.zipRight(unread(response), unanswered(`a proxy on the way ${Proxies.refusal(407)}`))
    }
    const text = yield* readText(response, request.maxBytes)
    return { status: response.status, headers: response.headers, text }
  }).pipe(
    Effect.catchTags({
      RequestError: (error) => new Unanswered({ kind: "transport", reason: networkReason(error) }),
      ResponseError: (error) => new Unanswered({ kind: "transport", reason: networkReason(error) })
    })
  )

/** Lets go of an answer whose body nobody wants, whatever becomes of that body: a stream that ends early closes its connection. */
const unread = (response: Response): Effect.Effect<void> =>
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

const unanswered = (reason: string): Unanswered => new Unanswered({ kind: "transport", reason })

const tooLong = (maxBytes: number): Unanswered => unanswered(`an answer of more than ${maxBytes} bytes`)

/** The stream counts what arrives, but takes twice as long as the text: where a length is declared, that is asked. */
const readText = (response: Response, maxBytes = maxBodyBytes) => {
  const isRefusal = !isOk(response.status)
  const most = isRefusal ? Math.min(maxBytes, maxRefusalBytes) : maxBytes
  const length = Number(response.headers["content-length"])
  const encoding = response.headers["content-encoding"] ?? "identity"
  if (encoding === "identity") {
    if (length <= most || most === maxBodyBytes) return response.text
    if (length > most && !isRefusal) return Effect.zipRight(unread(response), tooLong(most))
  }
  return Effect.gen(function* () {
    const body = yield* beginning(response, most)
    if (body.length > most && !isRefusal) return yield* tooLong(most)
    const bytes = body.subarray(0, most)
    return new TextDecoder().decode(encoding === "identity" ? bytes : yield* decoded(bytes, encoding, most))
  })
}

/** All of an answer, or more than so many of its bytes: then its connection is closed. */
const beginning = (response: Response, least: number) =>
  Effect.suspend(() => {
    const chunks: Array<Uint8Array> = []
    let bytes = 0
    return response.stream.pipe(
      Stream.runForEachWhile((chunk) => {
        chunks.push(chunk)
        bytes += chunk.length
        return Effect.succeed(bytes <= least)
      }),
      Effect.map(() => Buffer.concat(chunks))
    )
  })

/** No encoding is asked for, but HTTP lets a server use any in that case. A bomb is let grow to the bound, no further. */
const decoded = (bytes: Uint8Array, encoding: string, maxBytes: number): Effect.Effect<Uint8Array, Unanswered> =>
  Effect.gen(function* () {
    const isBrotli = /^br$/i.test(encoding)
    if (!isBrotli && !/^(x-gzip|gzip|deflate)$/i.test(encoding)) {
      return yield* unanswered(`an answer encoded as ${shown(encoding, 40)}, which is unknown here`)
    }
    const { brotliDecompress, unzip } = yield* Effect.promise(() => import("node:zlib"))
    return yield* Effect.async<Uint8Array, Unanswered>((resume) => {
      const options = { maxOutputLength: maxBytes }
      const done = (error: NodeJS.ErrnoException | null, result: Uint8Array): void => {
        const isBomb = error?.code === "ERR_BUFFER_TOO_LARGE"
        const broken = isBomb ? tooLong(maxBytes) : unanswered(`an answer that is not the ${encoding} it says it is`)
        resume(error === null ? Effect.succeed(result) : broken)
      }
      if (isBrotli) brotliDecompress(bytes, options, done)
      else unzip(bytes, options, done)
    })
  })

/**
 * Takes the request's credential, which a server may echo, out of a text that is to go into an error; of Basic's also the
 * password. A short one is most likely a dummy ("x", "EMPTY"), and taken out only where it stands alone.
 */
export const withoutCredential = (
  ...authorizations: ReadonlyArray<Option.Option<Redacted.Redacted>>
): ((text: string) => string) => {
  const patterns = authorizations.flatMap(Option.toArray).flatMap(secretsIn).map(patternOf)
  if (patterns.length === 0) return identity
  const pattern = new RegExp(patterns.join("|"), "gu")
  return (text) => text.replace(pattern, "<redacted>")
}

/** The same for a call to a URL, whose answer may be from a proxy that echoes what it was sent. */
export const withoutCredentials = (
  url: string,
  authorization: Option.Option<Redacted.Redacted>
): ((text: string) => string) => {
  const proxy = Proxies.fromEnvironment()?.(new URL(url))
  return withoutCredential(authorization, proxy?.authorization ?? Option.none())
}

const secretsIn = (authorization: Redacted.Redacted): ReadonlyArray<string> => {
  const [, scheme, credential = ""] = /^(\w+) (.*)$/s.exec(Redacted.value(authorization)) ?? []
  const password =
    scheme === "Basic"
      ? Buffer.from(credential, "base64")
          .toString()
          .replace(/^[^:]*:/, "")
      : ""
  return [credential, password].filter((secret) => secret !== "")
}

const patternOf = (secret: string): string => {
  const escaped = secret.replace(/[^\w]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`)
  return secret.length < 8 ? `(?<!\\w)${escaped}(?!\\w)` : escaped
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

const urlOf = ({ base, path, query }: Pick<Call, "base" | "path" | "query">): string =>
  BaseUrl.endpoint(base, ...path) + (query === undefined ? "" : `?${query}`)

const toRequest = (call: Call): Request => ({
  method: call.method,
  url: urlOf(call),
  authorization: BaseUrl.authorization(call.base, call.token),
  body: call.body === undefined ? undefined : Json.stringify(call.body),
  timeout: call.timeout
})

/** Makes a call and reads its 2xx answer as JSON. */
export const call = Effect.fnUntraced(function* (call: Call) {
  const request = toRequest(call)
  const scrub = withoutCredentials(request.url, request.authorization)
  const answer = yield* send(request).pipe(
    Effect.mapError((error) => new ConnectionFailed({ url: call.base.href, reason: scrub(error.reason) }))
  )
  // A server may put into the path what it was sent, by the name that it gives its environment.
  const url = urlOf({ ...call, path: call.path.map(scrub) })
  if (!isOk(answer.status)) return yield* new HttpStatusError({ url, status: answer.status, body: scrub(answer.text) })
  const name = `${call.method} ${url.slice(call.base.href.length)}`
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
  /** Whether it said that it is, or is not, leased. */
  readonly tellsLeased: boolean
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
        onLeft: (reason): HealthAnswer => ({ ...unhealthy(reason), answered: true }),
        onRight: (told): HealthAnswer => ({ ...told, reason: Option.none(), answered: true })
      })
    ),
    Effect.catchAll(({ reason }) => Effect.succeed<HealthAnswer>({ ...unhealthy(reason), answered: false }))
  )

const unhealthy = (reason: string) =>
  ({ health: "unhealthy", tellsLeased: false, reason: Option.some(reason) }) as const

/** The same; why a container is unhealthy is logged at level Debug. */
export const health = (
  base: BaseUrl.BaseUrl,
  token: Option.Option<Redacted.Redacted>,
  timeout?: Duration.DurationInput
): Effect.Effect<HealthAnswer, never, HttpClient.HttpClient> =>
  Effect.tap(checkHealth(base, token, timeout), ({ reason }) =>
    Option.match(reason, {
      onNone: () => Effect.void,
      onSome: (reason) =>
        Effect.annotateLogs(Effect.logDebug(`${base.href} is unhealthy: ${reason}`), "container", base.href)
    })
  )

const readHealth = (answer: Answer): Either.Either<Pick<HealthAnswer, "health" | "tellsLeased">, string> => {
  if (!isOk(answer.status) && answer.status !== 503) return Either.left(`it answered ${answer.status}`)
  const json = Json.parse(answer.text)
  if (Either.isLeft(json) || !Json.isObject(json.right)) return Either.left("its answer is no JSON object")
  const { leased, status } = json.right
  if (status !== "healthy") return Either.left('its status is not "healthy"')
  return Either.right({ health: Json.truthy(leased) ? "leased" : "free", tellsLeased: leased !== undefined })
}
