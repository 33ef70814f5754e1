/**
 * Leasing without containers: hands out scripted sessions, for each container one
 * at a time, and tells what is held.
 *
 * @since 0.1.0
 */

import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as Leasing from "@miroir-effect/core/Leasing"
import { InvalidUrls, NoFreeContainer } from "@miroir-effect/core/MiroirError"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { missing } from "./internal/answers.js"
import * as Watched from "./internal/watched.js"
import * as StubSession from "./StubSession.js"

/**
 * A pool of scripted containers, and who holds them.
 *
 * @since 0.1.0
 * @category models
 */
export interface StubLeasing {
  /** A `Leasing` of this pool. */
  readonly layer: Layer.Layer<Leasing.Leasing>
  /** The containers' URLs, in the order of their scripts. */
  readonly urls: ReadonlyArray<string>
  /** The URLs of the containers that are leased now. */
  readonly held: Effect.Effect<ReadonlyArray<string>>
  /** Completes as soon as nothing is leased. */
  readonly awaitNoneHeld: Effect.Effect<void>
  /** All sessions that were leased so far, with what was sent on them. */
  readonly sessions: Effect.Effect<ReadonlyArray<StubSession.StubSession>>
}

/**
 * A pool of containers. Their URLs are `http://stub-0.invalid` and so on where their scripts do not say; each lease
 * begins the lists of its container's script anew.
 *
 * A lease gets the first of its URLs that is free. URLs that are not in the pool count as unhealthy, and are not waited
 * for. A URL file is not read: it stands for the whole pool. Where all are leased, `waitBusy` and `timeout` count, and who
 * came first is served first. Its `stats` are of this pool, in which nothing is probed and an opening takes no time.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (containers: ReadonlyArray<StubSession.Script>): Effect.Effect<StubLeasing> =>
  Effect.gen(function* () {
    const scripts = yield* Effect.forEach(containers, (script, index) =>
      Effect.map(Effect.orDie(parse(script.url ?? `http://stub-${index}.invalid`)), (url) => ({ ...script, url }))
    )
    const pool = new Map(scripts.map((script) => [script.url, script]))
    const held = new Set<string>()
    /** In the order in which they came. */
    const waiting = new Set<{ readonly since: number }>()
    let handOvers = 0
    const sessions: Array<StubSession.StubSession> = []
    const { changed, first, until } = Watched.make()

    const release = (url: string): Effect.Effect<void> =>
      Effect.sync(() => {
        held.delete(url)
        changed()
      })
    const take = (known: ReadonlyArray<Container>) =>
      Effect.acquireRelease(
        Effect.flatMap(Clock.currentTimeMillis, (since) => {
          const waiter = { since }
          let taken = Option.none<Container>()
          const free = first(() => {
            taken = Option.fromNullable(known.find(({ url }) => !held.has(url)))
            if (Option.isNone(taken)) waiting.add(waiter)
            else {
              held.add(taken.value.url)
              if (waiting.delete(waiter)) handOvers++
            }
            return taken
          })
          return Effect.onInterrupt(Effect.interruptible(free), () => {
            waiting.delete(waiter)
            // The interruption may come between the taking and its being noticed.
            return Option.match(taken, { onNone: () => Effect.void, onSome: ({ url }) => release(url) })
          })
        }),
        ({ url }) => release(url)
      )

    const lease: Context.Tag.Service<Leasing.Leasing>["lease"] = (options) =>
      Effect.gen(function* () {
        const urls = options.urls === undefined ? Array.from(pool.keys()) : yield* Effect.forEach(options.urls, parse)
        if (urls.length === 0) return yield* new InvalidUrls({})
        const known = urls.flatMap((url) => pool.get(url) ?? [])
        const unhealthy = urls.filter((url) => !pool.has(url))
        const none = new NoFreeContainer({
          total: urls.length,
          leased: known.length,
          unhealthy: unhealthy.length,
          unhealthyUrls: unhealthy.slice(0, 3)
        })
        const busy = known.every(({ url }) => held.has(url))
        if (busy && (known.length === 0 || !options.waitBusy)) return yield* none
        const script = yield* Effect.timeoutFail(take(known), {
          duration: options.timeout ?? Leasing.defaults.timeout,
          onTimeout: () => none
        })
        const stub = yield* StubSession.make(script)
        sessions.push(stub)
        return stub.session
      })

    const stats = Effect.map(Clock.currentTimeMillis, (now): Leasing.Stats => {
      const [oldest] = waiting
      return {
        held: held.size,
        opening: 0,
        waiting: waiting.size,
        oldestWait: Option.map(Option.fromNullable(oldest), ({ since }) => Duration.millis(now - since)),
        probing: 0,
        probes: 0,
        handOvers
      }
    })

    return {
      layer: layer({ lease, stats }),
      urls: Array.from(pool.keys()),
      held: Effect.sync(() => Array.from(held)),
      awaitNoneHeld: until(() => held.size === 0),
      sessions: Effect.sync(() => Array.from(sessions))
    }
  })

/**
 * A Leasing of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Leasing.Leasing>> = {}): Layer.Layer<Leasing.Leasing> =>
  Layer.succeed(Leasing.Leasing, { lease: () => missing("Leasing.lease"), stats: missing("Leasing.stats"), ...given })

interface Container extends StubSession.Script {
  readonly url: string
}

const parse = (url: string): Either.Either<string, InvalidUrls> => Either.map(BaseUrl.parse(url), ({ href }) => href)
