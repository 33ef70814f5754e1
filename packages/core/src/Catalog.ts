/**
 * What a container offers: its tasks, its tools and its health, over HTTP and without a lease.
 *
 * @since 0.1.0
 */

import * as HttpClient from "@effect/platform/HttpClient"
import type { ConfigError } from "effect/ConfigError"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as BaseUrl from "./BaseUrl.js"
import * as http from "./internal/http.js"
import { tokenConfig } from "./internal/tokenConfig.js"
import * as Json from "./Json.js"
import { type CatalogError, InvalidUrls, ToolsError, UnexpectedReply } from "./MiroirError.js"
import type { Surface, Task, Tool } from "./Protocol.js"

/**
 * What a call of the catalog can fail with, but for the tools' own error.
 *
 * @since 0.1.0
 * @category models
 */
export type CallError = Exclude<CatalogError, ToolsError>

/**
 * Settings of one call.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallOptions {
  /** In place of the layer's token. */
  readonly token?: Redacted.Redacted | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** Sent as bearer token with each call. */
  readonly token?: Redacted.Redacted | undefined
  /** For each whole answer; 30 seconds unless given. */
  readonly timeout?: Duration.DurationInput | undefined
  /** For a whole answer about health; 2 seconds unless given. */
  readonly healthTimeout?: Duration.DurationInput | undefined
}

/**
 * How a container is.
 *
 * @since 0.1.0
 * @category models
 */
export interface Health {
  /** Unhealthy is one that did not answer in time, or not that it is healthy. */
  readonly health: "free" | "leased" | "unhealthy"
  /** Why it is unhealthy, in a few words. */
  readonly reason: Option.Option<string>
  /** From the request to the end of the answer; none where there was no whole answer. */
  readonly latency: Option.Option<Duration.Duration>
}

/**
 * @since 0.1.0
 * @category services
 */
export class Catalog extends Context.Tag("@miroir-effect/core/Catalog")<
  Catalog,
  {
    /**
     * The first of the URLs, as it was given, whose container can list its environments. They are tried one after the
     * other; if none can, the last one's failure is the result. All are checked before anything is sent.
     */
    readonly answering: (urls: ReadonlyArray<string>, options?: CallOptions) => Effect.Effect<string, CallError>

    /** The tasks of a split, `train` unless given, of the container's first environment. */
    readonly tasks: (
      url: string,
      split?: string,
      options?: CallOptions
    ) => Effect.Effect<ReadonlyArray<Task>, CallError>

    /** The tools of a surface, or of the env's own choice. */
    readonly tools: (
      url: string,
      surface?: Surface,
      options?: CallOptions
    ) => Effect.Effect<ReadonlyArray<Tool>, CallError | ToolsError>

    /** How the container is. That it cannot be reached is an answer, no failure; only an invalid URL is one. */
    readonly health: (url: string, options?: CallOptions) => Effect.Effect<Health, InvalidUrls>
  }
>() {}

/**
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function* (settings: Settings = {}) {
  const client = yield* HttpClient.HttpClient

  const tokenOf = (options: CallOptions | undefined) => Option.fromNullable(options?.token ?? settings.token)

  const call = (
    base: BaseUrl.BaseUrl,
    options: CallOptions | undefined,
    request: Pick<http.Call, "method" | "path" | "query" | "body">
  ) =>
    http
      .call({
        ...request,
        base,
        token: tokenOf(options),
        timeout: settings.timeout ?? "30 seconds"
      })
      .pipe(
        Effect.provideService(HttpClient.HttpClient, client),
        Effect.tapError((error) => Effect.annotateCurrentSpan("code", error.code)),
        Effect.withSpan("miroir.catalog", {
          attributes: { container: base.href, request: `${request.method} /${request.path.join("/")}` },
          captureStackTrace: false
        })
      )

  const environment = (base: BaseUrl.BaseUrl, options: CallOptions | undefined) =>
    Effect.flatMap(call(base, options, { method: "GET", path: ["list_environments"] }), readEnvironment)

  return Catalog.of({
    answering: Effect.fnUntraced(function* (urls, options) {
      const bases = yield* Effect.forEach(urls, (url) => Effect.map(BaseUrl.parse(url), (base) => ({ url, base })))
      return yield* Effect.firstSuccessOf([
        new InvalidUrls({}),
        ...bases.map(({ base, url }) => Effect.as(environment(base, options), url))
      ])
    }),

    tasks: Effect.fnUntraced(function* (url, split = "train", options) {
      const base = yield* BaseUrl.parse(url)
      const name = yield* environment(base, options)
      return yield* Effect.flatMap(
        call(base, options, { method: "POST", path: [name, "tasks"], body: { split } }),
        readTasks
      )
    }),

    tools: Effect.fnUntraced(function* (url, surface, options) {
      const base = yield* BaseUrl.parse(url)
      const query = surface === undefined ? undefined : `surface=${encodeURIComponent(surface)}`
      const body = { jsonrpc: "2.0", id: 1, method: "tools/list" }
      return yield* Effect.flatMap(call(base, options, { method: "POST", path: ["mcp"], query, body }), readTools)
    }),

    health: Effect.fnUntraced(function* (url, options) {
      const base = yield* BaseUrl.parse(url)
      const [duration, { answered, health, reason }] = yield* http
        .checkHealth(base, tokenOf(options), settings.healthTimeout)
        .pipe(
          Effect.timed,
          Effect.provideService(HttpClient.HttpClient, client),
          Effect.withSpan("miroir.catalog", {
            attributes: { container: base.href, request: "GET /health" },
            captureStackTrace: false
          })
        )
      return { health, reason, latency: answered ? Option.some(duration) : Option.none() }
    })
  })
})

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (settings: Settings = {}): Layer.Layer<Catalog, never, HttpClient.HttpClient> =>
  Layer.effect(Catalog, make(settings))

/**
 * The token from `MIROIR_TOKEN`, if it is set.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<Catalog, ConfigError, HttpClient.HttpClient> = Layer.effect(
  Catalog,
  Effect.flatMap(tokenConfig, (token) => make({ token }))
)

const readEnvironment = (answer: http.CallAnswer): Either.Either<string, UnexpectedReply> => {
  const name = Json.isArray(answer.json) ? answer.json[0] : undefined
  if (typeof name !== "string") return unexpected(answer, "it lists no environment")
  if (/^\.{0,2}$/.test(name)) return unexpected(answer, `its environment's name, "${name}", fits into no path`)
  return Either.right(name)
}

const readTasks = (answer: http.CallAnswer): Either.Either<ReadonlyArray<Task>, UnexpectedReply> =>
  readEntries<"id" | "task_hash" | "instruction">(answer, "tasks", answer.json, ["id", "task_hash", "instruction"])

const readTools = (answer: http.CallAnswer): Either.Either<ReadonlyArray<Tool>, UnexpectedReply | ToolsError> => {
  const { error, result } = Json.isObject(answer.json) ? answer.json : {}
  if (error === undefined || error === null) return readEntries<"name">(answer, "tools", result, ["name"])
  const { code, message } = Json.isObject(error) ? error : {}
  const reason = answer.scrub(typeof message === "string" ? message : Json.stringify(error))
  return Either.left(
    new ToolsError({ url: answer.url, ...(typeof code === "number" ? { rpcCode: code } : {}), reason })
  )
}

/** The list that a member of the answer is; each entry an object in which the keys name strings. */
const readEntries = <Key extends string>(
  answer: http.CallAnswer,
  member: string,
  within: Json.Json | undefined,
  keys: ReadonlyArray<Key>
): Either.Either<ReadonlyArray<Json.JsonObject & Record<Key, string>>, UnexpectedReply> => {
  const lacking = (entry: Json.JsonObject): Key | undefined => keys.find((key) => typeof entry[key] !== "string")
  const isWhole = (entry: Json.JsonObject): entry is Json.JsonObject & Record<Key, string> =>
    lacking(entry) === undefined
  const list = Json.isObject(within) ? within[member] : undefined
  if (!Json.isArray(list)) return unexpected(answer, `it has no ${member}`)
  const entries: Array<Json.JsonObject & Record<Key, string>> = []
  for (const [index, entry] of list.entries()) {
    if (!Json.isObject(entry)) return unexpected(answer, `${member}[${index}] is no object`)
    if (!isWhole(entry)) return unexpected(answer, `${member}[${index}] has no ${lacking(entry)}`)
    entries.push(entry)
  }
  return Either.right(entries)
}

const unexpected = (answer: http.CallAnswer, reason: string): Either.Either<never, UnexpectedReply> =>
  Either.left(new UnexpectedReply({ url: answer.url, request: answer.request, reason }))
