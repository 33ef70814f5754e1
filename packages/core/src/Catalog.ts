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
import { readSchema } from "./internal/openEnvHttp.js"
import { taskHash } from "./internal/taskHash.js"
import { listed, shown } from "./internal/text.js"
import * as Json from "./Json.js"
import { type CatalogError, HttpStatusError, InvalidUrls, ToolsError, UnexpectedReply } from "./MiroirError.js"
import * as OpenEnv from "./OpenEnv.js"
import type { Surface, Task, Tool } from "./Protocol.js"
import * as Token from "./Token.js"

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
 * What all calls of a catalog have in common.
 *
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
  /** Whether a container may be an OpenEnv server, for which it is asked; `miroir` where none is. Default `auto`. */
  readonly dialect?: "auto" | "miroir" | undefined
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
 * Asks containers over HTTP what they have: environments, tasks, tools, and whether they are free.
 *
 * @since 0.1.0
 * @category services
 */
export class Catalog extends Context.Tag("@miroir-effect/core/Catalog")<
  Catalog,
  {
    /**
     * The first of the URLs, as it was given, whose container can list its environments, or is an OpenEnv server that has no
     * such list. They are tried one after the other; if none can, the last one's failure is the result. All are checked
     * before anything is sent.
     */
    readonly answering: (urls: ReadonlyArray<string>, options?: CallOptions) => Effect.Effect<string, CallError>

    /**
     * Whose tasks and tools the container's are taken for: an OpenEnv server's, by its answer to `GET /schema` and a health
     * that does not tell `leased`; any other container's are a Miroir env's.
     */
    readonly dialect: (url: string, options?: CallOptions) => Effect.Effect<"miroir" | "openenv", CallError>

    /**
     * The tasks of a split, `train` unless given, of the container's first environment.
     *
     * OpenEnv servers may leave out what a task has to have. Then its id is its `task_id`, or SPLIT-INDEX; its hash is
     * made of its canonical JSON (RFC 8785); its instruction is its `prompt` or `question`, or empty. Their tasks get a
     * `reset` that names split and index. One without a task API fails, and the message says what to do about it.
     */
    readonly tasks: (
      url: string,
      split?: string,
      options?: CallOptions
    ) => Effect.Effect<ReadonlyArray<Task>, CallError>

    /**
     * The tools of a surface, or of the env's own choice. OpenEnv servers have one set of tools, whatever the surface; where
     * the env takes actions of a type of its own, that is the one tool `act`. Of several tools of one name, which no model
     * could tell apart and chat endpoints refuse, the first is given, and a warning names them.
     */
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
 * The service, on an `HttpClient`.
 *
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
  ) => {
    // A name that the server gave is in the path.
    const scrub = http.withoutCredentials(base.href, BaseUrl.authorization(base, tokenOf(options)))
    return http
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
          attributes: { container: base.href, request: `${request.method} /${request.path.map(scrub).join("/")}` },
          captureStackTrace: false
        })
      )
  }

  const environment = (base: BaseUrl.BaseUrl, options: CallOptions | undefined) =>
    Effect.flatMap(call(base, options, { method: "GET", path: ["list_environments"] }), readEnvironment)

  /** What the steps of an OpenEnv server's env are; none where the server is a Miroir env, whose health tells `leased`. */
  const openEnv = Effect.fnUntraced(function* (base: BaseUrl.BaseUrl, options: CallOptions | undefined) {
    if (settings.dialect === "miroir") return Option.none()
    const actions = yield* readSchema(base, call(base, options, { method: "GET", path: ["schema"] }))
    if (Option.isNone(actions)) return actions
    const health = yield* call(base, options, { method: "GET", path: ["health"] }).pipe(
      Effect.map(({ json }) => json),
      Effect.catchTags({
        HttpStatusError: ({ body }) => Effect.succeed(Either.getOrElse(Json.parse(body), () => null)),
        UnexpectedReply: () => Effect.succeed(null)
      })
    )
    return Json.isObject(health) && health.leased !== undefined ? Option.none() : actions
  })

  /** Says of an OpenEnv server's refusal to list its tasks what is to be done about it. */
  const advised =
    (base: BaseUrl.BaseUrl, options: CallOptions | undefined, split: string) =>
    (error: HttpStatusError): Effect.Effect<never, HttpStatusError> =>
      Effect.gen(function* () {
        const { body, status, url } = error
        if (status !== 500 && !hasNoSuch(status)) return yield* error
        const actions = yield* Effect.orElseSucceed(openEnv(base, options), () => Option.none())
        if (Option.isNone(actions)) return yield* error
        const advice =
          status === 500
            ? splitAdvice(split, yield* splits(base, options))
            : "It has no task API: roll out tasks of your own, by --tasks FILE, or seeds, by --seeds A..B."
        return yield* advice === undefined ? error : new HttpStatusError({ url, status, body, advice })
      })

  /** The names of the splits; none where they are not told. */
  const splits = (base: BaseUrl.BaseUrl, options: CallOptions | undefined): Effect.Effect<ReadonlyArray<string>> =>
    environment(base, options).pipe(
      Effect.flatMap((name) => call(base, options, { method: "GET", path: [name, "splits"] })),
      Effect.map(({ json }) => (Json.isArray(json) ? json : [])),
      Effect.map((entries) =>
        entries.flatMap((entry) => (Json.isObject(entry) && typeof entry.name === "string" ? [entry.name] : []))
      ),
      Effect.orElseSucceed(() => [])
    )

  return Catalog.of({
    answering: Effect.fnUntraced(function* (urls, options) {
      const bases = yield* Effect.forEach(urls, (url) => Effect.map(BaseUrl.parse(url), (base) => ({ url, base })))
      return yield* Effect.firstSuccessOf([
        new InvalidUrls({}),
        ...bases.map(({ base, url }) =>
          environment(base, options).pipe(
            Effect.catchIf(
              (error) => error._tag === "HttpStatusError" && hasNoSuch(error.status),
              (error) =>
                Effect.flatMap(openEnv(base, options), (actions) =>
                  Option.isNone(actions) ? Effect.fail(error) : Effect.void
                )
            ),
            Effect.as(url)
          )
        )
      ])
    }),

    dialect: Effect.fnUntraced(function* (url, options) {
      const base = yield* BaseUrl.parse(url)
      return Option.isNone(yield* openEnv(base, options)) ? "miroir" : "openenv"
    }),

    tasks: Effect.fnUntraced(function* (url, split = "train", options) {
      const base = yield* BaseUrl.parse(url)
      const answer = yield* environment(base, options).pipe(
        Effect.flatMap((name) => call(base, options, { method: "POST", path: [name, "tasks"], body: { split } })),
        Effect.catchTag("HttpStatusError", advised(base, options, split))
      )
      return yield* Option.isNone(yield* openEnv(base, options)) ? readTasks(answer) : readOpenEnvTasks(answer, split)
    }),

    tools: Effect.fnUntraced(function* (url, surface, options) {
      const base = yield* BaseUrl.parse(url)
      const query = surface === undefined ? undefined : `surface=${encodeURIComponent(surface)}`
      const actions = Option.getOrUndefined(yield* openEnv(base, options))
      if (actions?._tag === "Own") return [OpenEnv.actTool(actions.schema)]
      const body = { jsonrpc: "2.0", id: 1, method: "tools/list" }
      const answer = yield* call(base, options, { method: "POST", path: ["mcp"], query, body })
      return yield* Effect.flatMap(readTools(answer), (tools) => firstOfEach(answer, tools))
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
 * The service as a layer, with settings given here.
 *
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
  Effect.flatMap(Token.config, (token) => make({ token }))
)

const readEnvironment = (answer: http.CallAnswer): Either.Either<string, UnexpectedReply> => {
  const name = Json.isArray(answer.json) ? answer.json[0] : undefined
  if (typeof name !== "string") return unexpected(answer, "it lists no environment")
  if (/^\.{0,2}$/.test(name)) return unexpected(answer, `its environment's name, "${name}", fits into no path`)
  return Either.right(name)
}

/** What is to be said where the tasks of a split brought a server to fall over. */
const splitAdvice = (split: string, names: ReadonlyArray<string>): string | undefined => {
  if (names.length === 0) return `It may have no split "${shown(split, 80)}".`
  return names.includes(split)
    ? undefined
    : `It has no split "${shown(split, 80)}". Its splits are: ${listed(names, 20)}.`
}

/** Whether a status says that there is nothing of the kind. */
const hasNoSuch = (status: number): boolean => status === 404 || status === 405 || status === 501

const readTasks = (answer: http.CallAnswer): Either.Either<ReadonlyArray<Task>, UnexpectedReply> =>
  Either.flatMap(
    readEntries<"id" | "task_hash" | "instruction">(answer, "tasks", answer.json, ["id", "task_hash", "instruction"]),
    (entries) =>
      Either.all(
        entries.map(({ reset, ...task }, index) =>
          reset === undefined
            ? Either.right(task)
            : Json.isObject(reset)
              ? Either.right({ ...task, reset })
              : unexpected(answer, `tasks[${index}] has a reset that is no object`)
        )
      )
  )

/** OpenEnv lets an env list whatever it likes; what texts or numbers mean, only its author knows. */
const withOwnTasks = ({ reason, request, url }: UnexpectedReply): UnexpectedReply =>
  new UnexpectedReply({ url, request, reason: `${reason}; write its tasks into a file, for --tasks FILE` })

const readOpenEnvTasks = (
  answer: http.CallAnswer,
  split: string
): Either.Either<ReadonlyArray<Task>, UnexpectedReply> =>
  Either.flatMap(Either.mapLeft(readEntries<never>(answer, "tasks", answer.json, []), withOwnTasks), (entries) =>
    Either.all(
      entries.map((entry, index) => {
        const named = entry.id ?? entry.task_id
        const isNumber = typeof named === "number" || typeof named === "bigint"
        const id = isNumber ? String(named) : named
        const key = OpenEnv.instructionKey(entry)
        const instruction = key === undefined ? undefined : entry[key]
        const hash =
          typeof entry.task_hash === "string" && entry.task_hash !== ""
            ? Either.right(entry.task_hash)
            : Either.mapLeft(
                taskHash(entry),
                (reason) =>
                  new UnexpectedReply({
                    url: answer.url,
                    request: answer.request,
                    reason: `tasks[${index}]: ${reason}`
                  })
              )
        return Either.map(hash, (task_hash) => ({
          ...entry,
          id: typeof id === "string" && id !== "" ? id : `${split}-${index}`,
          task_hash,
          instruction: typeof instruction === "string" ? instruction : "",
          // Where the server's own id is a number, it is told that.
          reset: isNumber ? { task_id: named, split, index } : { split, index }
        }))
      })
    )
  )

const readTools = (answer: http.CallAnswer): Either.Either<ReadonlyArray<Tool>, UnexpectedReply | ToolsError> => {
  const { error, result } = Json.isObject(answer.json) ? answer.json : {}
  if (error === undefined || error === null) return readEntries<"name">(answer, "tools", result, ["name"])
  const { code, message } = Json.isObject(error) ? error : {}
  const reason = answer.scrub(typeof message === "string" ? message : Json.stringify(error))
  return Either.left(
    new ToolsError({ url: answer.url, ...(typeof code === "number" ? { rpcCode: code } : {}), reason })
  )
}

/** Of several tools of one name the first. */
const firstOfEach = (answer: http.CallAnswer, tools: ReadonlyArray<Tool>): Effect.Effect<ReadonlyArray<Tool>> => {
  const first = new Map<string, Tool>()
  const more = new Set<string>()
  for (const tool of tools) {
    if (first.has(tool.name)) more.add(tool.name)
    else first.set(tool.name, tool)
  }
  if (more.size === 0) return Effect.succeed(tools)
  const names = listed([...more].map(answer.scrub), 10)
  return Effect.as(
    Effect.logWarning(`${answer.url} lists several tools of one name, of which the first is taken: ${names}`),
    [...first.values()]
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
