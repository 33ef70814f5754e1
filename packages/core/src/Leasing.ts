/**
 * Leasing: finds a free container among many, and holds it by an open session for
 * as long as the caller's scope lasts. Who waits for which container, and who gets
 * it, is decided at the desk (internal/leaseDesk.ts); here are its hands, which
 * ask containers for their health and open sessions on them.
 *
 * @since 0.1.0
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { identity } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as BaseUrl from "./BaseUrl.js"
import * as Dialect from "./Dialect.js"
import { addFinalizer } from "./internal/finalizer.js"
import * as Http from "./internal/http.js"
import { ifTraced } from "./internal/ifTraced.js"
import * as LeaseDesk from "./internal/leaseDesk.js"
import * as Timers from "./internal/timers.js"
import { whileCounted } from "./internal/whileCounted.js"
import type * as Json from "./Json.js"
import {
  type ConnectionFailed,
  type ConnectionLost,
  type EnvError,
  InvalidUrls,
  type LeaseError,
  type UnexpectedReply,
  type UrlFileError
} from "./MiroirError.js"
import * as Protocol from "./Protocol.js"
import * as Recognition from "./Recognition.js"
import * as Session from "./Session.js"
import { type Ask, SessionExchange } from "./SessionExchange.js"
import * as Telemetry from "./Telemetry.js"
import * as Token from "./Token.js"
import * as UrlFile from "./UrlFile.js"

/**
 * Where containers are to be found: their base URLs, or a file that lists them and is read again each round.
 *
 * @since 0.1.0
 * @category models
 */
export type Containers =
  | { readonly urls: ReadonlyArray<string>; readonly urlFile?: never }
  | { readonly urlFile: string; readonly urls?: never }

/**
 * Which containers a lease is wanted of, and how it is waited for.
 *
 * @since 0.1.0
 * @category models
 */
export type LeaseOptions = Containers & {
  /** Whether to wait where all containers are leased; otherwise that fails at once. There is no default. */
  readonly waitBusy: boolean
  /** How long to try. Default: the setting `timeout`, 600 s. */
  readonly timeout?: Duration.DurationInput
  /** Default: the setting `token`. */
  readonly token?: Redacted.Redacted
}

/**
 * What all leases of a `Leasing` have in common.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** Sent as a bearer token to every container; none if not given. */
  readonly token: Redacted.Redacted | undefined
  /** How long to try for a lease. Default 600 s. */
  readonly timeout: Duration.DurationInput
  /** For a whole answer to a health probe. Default 2 s. */
  readonly healthTimeout: Duration.DurationInput
  /** For the reply to the `state` that opens a session, and for what is asked to find out the dialect. Default 30 s. */
  readonly openingTimeout: Duration.DurationInput
  /** How long one handshake is waited for before another one is tried beside it. Default 1 s. */
  readonly hedgeAfter: Duration.DurationInput
  /**
   * Before each further try of a container that was released here and whose server has not noticed yet, from the try
   * before. Default 20, 50, 100, 200, 500 and 1000 ms.
   */
  readonly releasedRetries: ReadonlyArray<Duration.DurationInput>
  /**
   * Sessions that may be held on one container at once. Default 1, which is what a Miroir env grants; OpenEnv servers may
   * grant more. One that grants fewer than this counts as leased when it is full.
   */
  readonly sessions: number
  /** Between two openings of containers that are free for all, so that processes which start together share them. Default 1 ms. */
  readonly openingPause: Duration.DurationInput
  /** Between two rounds, give or take a fifth. Default 1 s. */
  readonly roundPause: Duration.DurationInput
  /** What the first round gets at the least, whatever the timeout. Default 5 s. */
  readonly firstRound: Duration.DurationInput
  /** Probes under way at most, over all callers. Default 512. */
  readonly maxProbes: number
  /** Handshakes and openings under way at most, over all callers. Default 64. */
  readonly maxHandshakes: number
  /** How it is found out what a container's server speaks. Default `Recognition.auto()`: Miroir or OpenEnv, by what it does. */
  readonly recognition: Recognition.Recognition
}

/**
 * The settings that hold where none are given.
 *
 * @since 0.1.0
 * @category settings
 */
export const defaults: Settings = {
  token: undefined,
  timeout: Duration.seconds(600),
  healthTimeout: Duration.seconds(2),
  openingTimeout: Duration.seconds(30),
  hedgeAfter: Duration.seconds(1),
  releasedRetries: [20, 50, 100, 200, 500, 1000],
  sessions: 1,
  openingPause: Duration.millis(1),
  roundPause: Duration.seconds(1),
  firstRound: Duration.seconds(5),
  maxProbes: 512,
  maxHandshakes: 64,
  recognition: Recognition.auto()
}

/**
 * What goes on in a `Leasing`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stats {
  /** Containers held now, those among them that are being closed. */
  readonly held: number
  /** Containers that are being opened now. */
  readonly opening: number
  /** Callers that wait now. */
  readonly waiting: number
  /** How long the first of them has waited. */
  readonly oldestWait: Option.Option<Duration.Duration>
  /** Health probes under way now. */
  readonly probing: number
  /** Health probes so far. */
  readonly probes: number
  /** Released containers that went to a waiter without a probe so far. */
  readonly handOvers: number
}

/**
 * Leases free containers, each of which is held by one session at a time, or by as many as the settings say.
 *
 * @since 0.1.0
 * @category services
 */
export class Leasing extends Context.Tag("@miroir-effect/core/Leasing")<
  Leasing,
  {
    /**
     * Leases a free container. The scope's end closes the socket, which frees the container: after success, failure,
     * defect and interruption, in whatever phase.
     */
    readonly lease: (options: LeaseOptions) => Effect.Effect<Session.Service, LeaseError, Scope.Scope>
    /** What is going on now, and has since the layer was made. */
    readonly stats: Effect.Effect<Stats>
  }
>() {}

/** The opening question. Any reply that is no error makes the container ours. */
const opening: Ask<Json.Json> = {
  request: Protocol.state,
  decode: ({ data }) => Either.right(data ?? null)
}

/**
 * The service. All that waits in it ends with the scope; settings that are not given are the `defaults`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function* (
  options: Partial<Settings> = {}
): Effect.fn.Return<
  Context.Tag.Service<Leasing>,
  never,
  SessionExchange | HttpClient.HttpClient | FileSystem.FileSystem | Scope.Scope
> {
  const settings: Settings = { ...defaults, ...options }
  const exchanges = yield* SessionExchange
  const files = yield* FileSystem.FileSystem
  const http = yield* HttpClient.HttpClient
  const timers = yield* Timers.make

  /** Containers whose last healthy answer told `leased`. */
  const tellLeased = new Set<string>()

  const probe: LeaseDesk.Hands["probe"] = (base, token) =>
    Metric.increment(Telemetry.probes).pipe(
      // The desk has their deadlines.
      Effect.andThen(Http.health(base, token, Duration.infinity)),
      Effect.map(({ health, tellsLeased }) => {
        if (tellsLeased) tellLeased.add(base.href)
        else if (health !== "unhealthy") tellLeased.delete(base.href)
        return health
      }),
      Effect.provideService(HttpClient.HttpClient, http)
    )

  const open: LeaseDesk.Hands["open"] = (base, token) =>
    Effect.gen(function* () {
      const exchange = yield* exchanges.open(base, token)
      const answer = Effect.gen(function* () {
        const told = yield* exchange.ask(opening).pipe(Effect.map(Either.right), Effect.catchIf(isStateless, leftOf))
        const state = Either.getOrElse(told, () => null)
        const dialect = yield* settings.recognition({ base, token, state, tellsLeased: tellLeased.has(base.href) })
        if (Either.isLeft(told) && dialect.name === Dialect.miroir.name) return yield* told.left
        return { dialect, state }
      })
      const opened = yield* timers.within(Effect.asSome(answer), settings.openingTimeout, Effect.succeedNone)
      if (Option.isNone(opened)) return LeaseDesk.Leased
      // What was closed while the dialect was found out is nobody's.
      if (Option.isSome(yield* exchange.broken)) return LeaseDesk.Leased
      const { dialect, state } = opened.value
      return LeaseDesk.Ours(yield* Session.make(exchange, dialect, state))
    }).pipe(
      Effect.provideService(HttpClient.HttpClient, http),
      Effect.catchTags({
        ConnectionFailed: (error) => Effect.succeed(isPassing(error) ? LeaseDesk.Unhealthy : LeaseDesk.Refusing(error)),
        ConnectionLost: () => Effect.succeed(LeaseDesk.Leased),
        UnexpectedReply: () => Effect.succeed(LeaseDesk.Unhealthy),
        EnvError: (error) => Effect.succeed(judged(error))
      })
    )

  const desk = yield* LeaseDesk.make(settings, { probe, open }, timers)
  const listing = makeListing()
  const places = placesOf(settings.sessions)

  /** Reads the list again in each round; where that fails, it stays as it was. */
  const relisting = (waiter: LeaseDesk.Waiter, list: Places): Effect.Effect<never> =>
    Effect.gen(function* () {
      let good = true
      while (true) {
        yield* Effect.sleep(settings.roundPause)
        const read = yield* Effect.either(list)
        if (Either.isRight(read)) desk.relist(waiter, read.right)
        else if (good) yield* Effect.logWarning(`${read.left.message} Going on with the list as it was.`)
        good = Either.isRight(read)
      }
    })

  const lease = Effect.fnUntraced(function* (
    options: LeaseOptions,
    restore: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  ) {
    const began = yield* Clock.currentTimeMillis
    const list: Places = Effect.map(Effect.provideService(listing(options), FileSystem.FileSystem, files), places)
    const waiter = desk.join({
      bases: yield* Effect.flatMap(restore(list), rotated),
      token: Option.fromNullable(options.token ?? settings.token),
      waitBusy: options.waitBusy,
      since: began,
      traced: yield* tracing
    })
    const timeout = options.timeout ?? settings.timeout
    const hurrying = timers.after(timeout, () => desk.hurry(waiter))
    const givingUp = timers.after(Duration.max(timeout, settings.firstRound), () => desk.giveUp(waiter))
    // Beside the waiting, not in a race with it: a race takes two fibers more.
    const relister =
      options.urlFile === undefined
        ? undefined
        : yield* Effect.fork(Effect.interruptible(Effect.intoDeferred(relisting(waiter, list), waiter.settled)))
    const settled = yield* Deferred.await(waiter.settled).pipe(
      restore,
      whileCounted(Telemetry.leaseWaiters),
      Effect.exit
    )
    hurrying()
    givingUp()
    if (relister !== undefined) yield* Fiber.interrupt(relister)
    const grant = desk.leave(waiter)
    // What comes at the last moment is taken, unless nobody is there any more to take it.
    if (grant === undefined) return yield* Effect.map(settled, ({ session }) => session)
    if (Exit.isFailure(settled) && Exit.isInterrupted(settled)) {
      yield* desk.grantOn(grant)
      return yield* Effect.failCause(settled.cause)
    }
    yield* Metric.incrementBy(Telemetry.leasesHeld, 1)
    yield* addFinalizer(Effect.zipRight(Metric.incrementBy(Telemetry.leasesHeld, -1), desk.giveBack(grant)))
    yield* Metric.update(Telemetry.leaseWait, ((yield* Clock.currentTimeMillis) - began) / 1000)
    yield* Effect.annotateLogs(Effect.logDebug("Leased a container"), "container", grant.session.url)
    return grant.session
  })

  return {
    lease: (options) =>
      // One mask around all of it: an interruption between a grant and its finalizer would lose the container.
      ifTraced(
        Effect.uninterruptibleMask((restore) => lease(options, restore)),
        (leased) =>
          leased.pipe(
            Effect.tapBoth({
              onSuccess: ({ url }) => Effect.annotateCurrentSpan("container", url),
              onFailure: ({ code }) => Effect.annotateCurrentSpan("code", code)
            }),
            Effect.withSpan("miroir.lease", { captureStackTrace: false })
          )
      ),
    stats: Effect.map(Clock.currentTimeMillis, (now) => {
      const { since, ...stats } = desk.stats()
      return { ...stats, oldestWait: Option.map(since, (then) => Duration.millis(now - then)) }
    })
  }
})

/**
 * The service as a layer, with settings given here.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options?: Partial<Settings>
): Layer.Layer<Leasing, never, SessionExchange | HttpClient.HttpClient | FileSystem.FileSystem> =>
  Layer.scoped(Leasing, make(options))

/**
 * Settings from the environment: MIROIR_TOKEN and MIROIR_LEASE_TIMEOUT, a duration such as `10 minutes`.
 *
 * @since 0.1.0
 * @category settings
 */
export const config: Config.Config<Pick<Settings, "token" | "timeout">> = Config.all({
  token: Token.config,
  timeout: Config.duration("MIROIR_LEASE_TIMEOUT").pipe(
    Config.withDefault(defaults.timeout),
    Config.withDescription("How long to try for a lease")
  )
})

/**
 * The service as a layer, with the settings of `config`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = Layer.scoped(Leasing, Effect.flatMap(config, make))

/** An OpenEnv server asks its env for the state, and an env may have none before its first reset. */
const isStateless = (error: ConnectionLost | UnexpectedReply | EnvError): error is EnvError =>
  error._tag === "EnvError" && error.code === "EXECUTION_ERROR"

const leftOf = (error: EnvError) => Effect.succeed(Either.left(error))

/** Refusals that pass: the server is not up yet, or has too much to do. */
const isPassing = ({ status }: ConnectionFailed): boolean =>
  status === undefined || status >= 500 || status === 408 || status === 425 || status === 429

const judged = (error: EnvError): LeaseDesk.Verdict => {
  switch (error.code) {
    case "CAPACITY_REACHED":
      return LeaseDesk.Leased
    case "FACTORY_ERROR":
      return LeaseDesk.Unhealthy
    default:
      return LeaseDesk.Refusing(error)
  }
}

/** The list with its beginning at a random place. */
const rotated = <A>(list: ReadonlyArray<A>): Effect.Effect<ReadonlyArray<A>> =>
  Effect.map(Random.nextIntBetween(0, Math.max(1, list.length)), (start) => [
    ...list.slice(start),
    ...list.slice(0, start)
  ])

type Places = Effect.Effect<ReadonlyArray<LeaseDesk.Place>, InvalidUrls | UrlFileError>

/** Each container so many times; every container comes once before any comes again. */
const placesOf =
  (sessions: number) =>
  (bases: ReadonlyArray<BaseUrl.BaseUrl>): ReadonlyArray<LeaseDesk.Place> =>
    sessions <= 1
      ? bases
      : Array.from({ length: sessions }, (_, place) => bases.map((base) => ({ ...base, place }))).flat()

/** So many URLs are remembered as checked; a list is given anew with each lease. */
const maxKnown = 10_000

/** Checks lists, each URL once. */
const makeListing = () => {
  const known = new Map<string, BaseUrl.BaseUrl>()

  /** Checked, and each container once. */
  const bases = (urls: ReadonlyArray<string>): Either.Either<ReadonlyArray<BaseUrl.BaseUrl>, InvalidUrls> => {
    const found = new Map<string, BaseUrl.BaseUrl>()
    for (const url of urls) {
      let base = known.get(url)
      if (base === undefined) {
        const parsed = BaseUrl.parse(url)
        if (Either.isLeft(parsed)) return Either.left(parsed.left)
        base = parsed.right
        if (known.size >= maxKnown) known.clear()
        known.set(url, base)
      }
      found.set(base.href, base)
    }
    return found.size === 0 ? Either.left(new InvalidUrls({})) : Either.right([...found.values()])
  }

  /** The containers as they are listed now. */
  return (
    containers: Containers
  ): Effect.Effect<ReadonlyArray<BaseUrl.BaseUrl>, InvalidUrls | UrlFileError, FileSystem.FileSystem> =>
    Effect.flatMap(
      containers.urlFile === undefined ? Effect.succeed(containers.urls) : UrlFile.read(containers.urlFile),
      bases
    )
}

/** What puts an effect that runs elsewhere into the trace of here. */
const tracing = ifTraced<LeaseDesk.Waiter["traced"], never, never, never>(Effect.succeed(identity), () =>
  Effect.map(
    Effect.all([Effect.tracer, Effect.option(Effect.currentParentSpan)]),
    ([tracer, parent]) =>
      (self) =>
        Effect.withTracer(
          Option.match(parent, { onNone: () => self, onSome: (span) => Effect.withParentSpan(self, span) }),
          tracer
        )
  )
)
