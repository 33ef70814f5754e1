/**
 * Serves a World to clients: one container, on a port of its own.
 *
 * HTTP: `GET /health`, `GET /list_environments`, `POST /{name}/tasks`, `POST /mcp`. WebSocket: `/ws`, one session at a
 * time, with the frames state, reset, step, coworkers, coworker_reply and record; an error frame's code is one of
 * UNKNOWN_TYPE, VALIDATION_ERROR, UNKNOWN_TASK, NO_EPISODE, EPISODE_MISMATCH, EPISODE_OVER, NOT_DONE, INTERNAL_ERROR
 * and, for a session too many, CAPACITY_REACHED. Frames are answered one after the other; a client that sends ahead, so
 * that more than 16 wait, is closed with 1008.
 *
 * @since 0.1.0
 */

import { createHash, timingSafeEqual } from "node:crypto"
import * as Json from "@miroir-effect/core/Json"
import * as Token from "@miroir-effect/core/Token"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Catalog from "./internal/catalog.js"
import * as Connection from "./internal/connection.js"
import * as HttpServer from "./internal/httpServer.js"
import type * as World from "./World.js"

/**
 * A world that cannot be served: two tasks or tools of the same name, a tool whose Schema has no JSON Schema, …
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidWorld extends Schema.TaggedError<InvalidWorld>("@miroir-effect/env/EnvServer/InvalidWorld")(
  "InvalidWorld",
  { world: Schema.String, reason: Schema.String }
) {
  override get message(): string {
    return `The world ${JSON.stringify(this.world)} cannot be served: ${this.reason}.`
  }
}

/**
 * The port is taken, or the host is none of this machine's.
 *
 * @since 0.1.0
 * @category errors
 */
export class ListenFailed extends Schema.TaggedError<ListenFailed>("@miroir-effect/env/EnvServer/ListenFailed")(
  "ListenFailed",
  { host: Schema.String, port: Schema.Number, reason: Schema.String }
) {
  override get message(): string {
    return `Cannot listen on ${this.host}, port ${this.port}: ${this.reason}. Give another port, or 0 for any that is free.`
  }
}

/**
 * Where and how a world is served.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The address to listen on: 127.0.0.1 if not given. */
  readonly host?: string
  /** 0, which is the default, takes any that is free. */
  readonly port?: number
  /** A path that comes before all others, as `/envs/office`; none if not given. */
  readonly prefix?: string
  /** Asked of every call and of the handshake, as `Authorization: Bearer TOKEN`; only `/health` answers without it. */
  readonly token?: Redacted.Redacted | undefined
  /** Between two pings to the client who holds the container: 20 s if not given; zero or infinity turns them off. */
  readonly pingInterval?: Duration.DurationInput
  /** A client that leaves a ping unanswered for so long is closed with 1011, and the container free: 20 s if not given. */
  readonly pongTimeout?: Duration.DurationInput
  /**
   * How long the end of the scope or layer waits for a tool, or another part of the world, that does not let itself be
   * interrupted, and for an episode's state to be released: 5 s if not given, infinity for as long as it takes. Then a
   * warning names what is left running, perhaps without the services that it needs.
   */
  readonly shutdownGrace?: Duration.DurationInput
}

/**
 * A world that is being served.
 *
 * @since 0.1.0
 * @category services
 */
export class EnvServer extends Context.Tag("@miroir-effect/env/EnvServer")<
  EnvServer,
  {
    /** The base URL, as clients on this machine take it. */
    readonly url: string
    /** Whether a client holds the container. */
    readonly leased: Effect.Effect<boolean>
  }
>() {}

/**
 * Serves a world until the scope closes. Several containers are several of these.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <State, T extends World.Task, R>(
  world: World.World<State, T, R>,
  options: Options = {}
): Effect.Effect<EnvServer["Type"], InvalidWorld | ListenFailed, R | Scope.Scope> =>
  Effect.gen(function* () {
    const { host = "127.0.0.1", pingInterval = "20 seconds", pongTimeout = "20 seconds", port: wanted = 0 } = options
    const { shutdownGrace = "5 seconds" } = options
    const prefix = asRequested(options.prefix ?? "")
    const catalog = yield* Either.mapLeft(
      Catalog.make(world),
      (reason) => new InvalidWorld({ world: world.name, reason })
    )

    // What an episode holds is given back before the next client's episode begins, even where that takes a while.
    const oneAtATime = yield* Effect.makeSemaphore(1)
    const activity: Connection.Activity = { current: undefined }
    let holder: HttpServer.Socket | undefined
    const isLeased = () => holder?.isOpen() ?? false

    const onSocket = (socket: HttpServer.Socket): Effect.Effect<void, never, R> =>
      Effect.suspend(() => {
        if (isLeased()) {
          const refused = Connection.errorFrame("CAPACITY_REACHED", "The container is leased.")
          return Effect.andThen(socket.send(refused), () => socket.close(1000))
        }
        holder = socket
        return oneAtATime.withPermits(1)(Effect.scoped(Connection.serve(world, catalog, socket, activity)))
      })

    const onLeft = Effect.suspend(() =>
      Effect.logWarning(
        `The world did not end within ${Duration.format(shutdownGrace)}: ${
          activity.current ?? "the release of an episode's state"
        } is left running. Make it interruptible or quicker, or raise shutdownGrace.`
      )
    )

    const isAllowed = allowing(options.token)

    const refusal = (handshake: HttpServer.Head): Option.Option<HttpServer.Response> => {
      if (handshake.path !== `${prefix}/ws`) return Option.some(notFound)
      return isAllowed(handshake) ? Option.none() : Option.some(unauthorized)
    }

    const onRequest = (request: HttpServer.Request): HttpServer.Response => {
      const path = request.path.startsWith(`${prefix}/`) ? request.path.slice(prefix.length) : ""
      const route = `${request.method} ${path}`
      if (route === "GET /health") return answer(200, { status: "healthy", leased: isLeased() })
      if (!isAllowed(request)) return unauthorized
      if (route === "GET /list_environments") return answer(200, [world.name])
      if (route === "POST /mcp") return mcp(catalog.listed, request)
      const env = request.method === "POST" ? /^\/([^/]+)\/tasks$/.exec(path)?.[1] : undefined
      return env !== undefined && isEncoded(env, world.name) ? tasks(catalog.splits, request.body) : notFound
    }

    const port = yield* HttpServer.serve({
      host,
      port: wanted,
      refusal,
      pingInterval,
      pongTimeout,
      shutdownGrace,
      onLeft,
      onSocket,
      onRequest: (request) => Effect.sync(() => onRequest(request))
    }).pipe(Effect.mapError(({ reason }) => new ListenFailed({ host, port: wanted, reason })))
    return { url: `http://${reachable(host)}:${port}${prefix}`, leased: Effect.sync(isLeased) }
  }).pipe(Effect.annotateLogs("env", world.name))

/**
 * A world that is served as long as the layer is in use, with options given here.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <State, T extends World.Task, R>(
  world: World.World<State, T, R>,
  options?: Options
): Layer.Layer<EnvServer, InvalidWorld | ListenFailed, R> => Layer.scoped(EnvServer, make(world, options))

/**
 * The options from the environment: MIROIR_ENV_HOST, MIROIR_ENV_PORT, MIROIR_ENV_PREFIX and MIROIR_TOKEN.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Options> = Config.all({
  host: Config.string("MIROIR_ENV_HOST").pipe(
    Config.withDefault("127.0.0.1"),
    Config.withDescription("The address that the environment listens on")
  ),
  port: Config.port("MIROIR_ENV_PORT").pipe(
    Config.withDefault(0),
    Config.withDescription("The port that the environment listens on; any that is free if not given")
  ),
  prefix: Config.string("MIROIR_ENV_PREFIX").pipe(
    Config.withDefault(""),
    Config.withDescription("A path that comes before all others")
  ),
  token: Token.config
})

/**
 * A world that is served as long as the layer is in use, with options from the environment; `config` unless given.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = <State, T extends World.Task, R>(
  world: World.World<State, T, R>,
  options: Config.Config<Options> = config
): Layer.Layer<EnvServer, InvalidWorld | ListenFailed | ConfigError.ConfigError, R> =>
  Layer.scoped(
    EnvServer,
    Effect.flatMap(options, (options) => make(world, options))
  )

const answer = (status: number, body: Json.Json): HttpServer.Response => ({ status, body: Json.stringify(body) })

const notFound = answer(404, { code: "NOT_FOUND", message: "There is nothing at this path for this method." })

const unauthorized: HttpServer.Response = {
  ...answer(401, { code: "UNAUTHORIZED", message: "The token is missing or wrong." }),
  headers: { "www-authenticate": "Bearer" }
}

const tasks = (splits: ReadonlyMap<string, ReadonlyArray<Json.JsonObject>>, body: string): HttpServer.Response => {
  const parsed = Either.getOrElse(Json.parse(body), () => null)
  const split = Json.isObject(parsed) ? (parsed.split ?? "train") : null
  if (typeof split !== "string") {
    return answer(422, { code: "VALIDATION_ERROR", message: 'The body has to be {"split": "NAME"}.' })
  }
  const listings = splits.get(split)
  return listings === undefined
    ? answer(404, { code: "UNKNOWN_SPLIT", message: `There is no split ${JSON.stringify(split)}.` })
    : answer(200, { tasks: listings })
}

/** JSON-RPC 2.0, of which `tools/list` is all that there is: tools are called by `step`. */
const mcp = (listed: ReadonlyArray<Catalog.Listed>, { body, query }: HttpServer.Request): HttpServer.Response => {
  const parsed = Json.parse(body)
  const request = Either.isRight(parsed) && Json.isObject(parsed.right) ? parsed.right : undefined
  const rpc = (reply: Json.JsonObject) => answer(200, { jsonrpc: "2.0", id: request?.id ?? null, ...reply })
  const failed = (code: number, message: string) => rpc({ error: { code, message } })
  if (Either.isLeft(parsed)) return failed(-32700, `The body cannot be read: ${parsed.left}.`)
  if (request === undefined || typeof request.method !== "string") {
    return failed(-32600, "The body is no JSON-RPC request.")
  }
  if (request.method !== "tools/list") {
    return failed(-32601, `There is no method ${JSON.stringify(request.method)}, only tools/list.`)
  }
  const asked = query.get("surface")
  const surface = Catalog.surfaces.find((name) => name === asked)
  if (asked !== null && surface === undefined) {
    return failed(-32602, `There is no surface ${JSON.stringify(asked)}, only ${Catalog.surfaces.join(", ")}.`)
  }
  const tools = listed.filter(({ surfaces }) => surface === undefined || surfaces.includes(surface))
  return rpc({ result: { tools: tools.map(({ listing }) => listing) } })
}

/** Compares digests, which are of one length and tell an attacker nothing by the time that it takes. */
const allowing = (token: Redacted.Redacted | undefined): ((head: HttpServer.Head) => boolean) => {
  if (token === undefined) return () => true
  const digest = (text: string) => createHash("sha256").update(text).digest()
  const expected = digest(`Bearer ${Redacted.value(token)}`)
  return ({ authorization }) =>
    Option.exists(authorization, (given) => timingSafeEqual(digest(given.replace(/^bearer +/i, "Bearer ")), expected))
}

/** A prefix as clients write it into a request: percent-encoded where it is not yet, without dot segments. */
const asRequested = (prefix: string): string => {
  const url = new URL("http://localhost")
  url.pathname = prefix.replace(/^\/+/, "")
  return url.pathname.replace(/\/+$/, "")
}

/** Whether a part of a path is this name, in whichever way it is percent-encoded. */
const isEncoded = (part: string, name: string): boolean =>
  Either.try(() => decodeURIComponent(part)).pipe(
    Either.match({ onLeft: () => false, onRight: (text) => text === name })
  )

/** A host as it stands in a URL; one that means every address is reached by loopback. */
const reachable = (host: string): string => {
  if (host === "0.0.0.0") return "127.0.0.1"
  if (host === "::") return "[::1]"
  return host.includes(":") ? `[${host}]` : host
}
