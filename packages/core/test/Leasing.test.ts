import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import type { LeaseError } from "@miroir-effect/core/MiroirError"
import type * as Session from "@miroir-effect/core/Session"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { leasing } from "./layers.js"

/** Pauses and deadlines short enough to be waited for. */
const quick: Partial<Leasing.Settings> = {
  openingTimeout: Duration.millis(100),
  healthTimeout: Duration.millis(100),
  hedgeAfter: Duration.millis(20),
  roundPause: Duration.millis(20),
  firstRound: Duration.millis(200)
}

const lease = (options: Leasing.LeaseOptions) => Effect.flatMap(Leasing.Leasing, (leases) => leases.lease(options))

/** What a lease of one such container fails with: its tag, and the counts where it has some. */
const failureOf = (script: ScriptedContainer.Script) =>
  Effect.gen(function* () {
    const container = yield* ScriptedContainer.make(script)
    const error = yield* Effect.flip(lease({ urls: [container.url], waitBusy: false, timeout: 0 }))
    yield* container.awaitNoSockets
    return error._tag === "NoFreeContainer"
      ? { tag: error._tag, leased: error.leased, unhealthy: error.unhealthy }
      : { tag: error._tag, code: error.code }
  })

describe("a container that is opened", () => {
  const unhealthy = { tag: "NoFreeContainer", leased: 0, unhealthy: 1 }
  const leased = { tag: "NoFreeContainer", leased: 1, unhealthy: 0 }
  const refused = { tag: "ConnectionFailed", code: "CONNECTION_FAILED" }
  const error = (code: string) => ({ code, message: "no" })
  const cases: ReadonlyArray<readonly [string, ScriptedContainer.Opening, object]> = [
    ["cuts the handshake", { drop: true }, unhealthy],
    ["does not answer the handshake", { hang: true }, unhealthy],
    ...[500, 502, 503, 408, 425, 429].map(
      (status) => [`answers the handshake with ${status}`, { status }, unhealthy] as const
    ),
    ...[400, 401, 403, 404, 418].map(
      (status) => [`answers the handshake with ${status}`, { status }, refused] as const
    ),
    ["redirects in a circle", { status: 302, headers: { location: "/ws" } }, unhealthy],
    ["redirects to what is no URL", { status: 302, headers: { location: "http://[" } }, unhealthy],
    ["closes", { close: 1000 }, leased],
    ["cuts the socket", { reply: { drop: true } }, leased],
    ["says nothing", { silent: true }, leased],
    ["is at capacity", { error: error("CAPACITY_REACHED") }, leased],
    [
      "is at capacity and says so unasked",
      { unasked: { send: { type: "error", data: error("CAPACITY_REACHED") } } },
      leased
    ],
    [
      "is at capacity, says so unasked and closes",
      { unasked: { many: [{ send: { type: "error", data: error("CAPACITY_REACHED") } }, { close: 1000 }] } },
      leased
    ],
    ["cannot make its env", { error: error("FACTORY_ERROR") }, unhealthy],
    ["answers another error", { error: error("BAD_TOKEN") }, { tag: "EnvError", code: "BAD_TOKEN" }],
    ["answers what is no JSON", { reply: { raw: "<html>" } }, unhealthy]
  ]
  for (const [name, ws, expected] of cases) {
    it.scopedLive(`and ${name}`, () =>
      Effect.map(failureOf({ ws }), (failure) => assert.deepStrictEqual(failure, expected)).pipe(
        Effect.provide(leasing(quick, { handshakeTimeout: Duration.millis(100) }))
      )
    )
  }

  it.scopedLive("and answers anything else is ours", () =>
    Effect.gen(function* () {
      for (const raw of ["[]", "{}", '{"type":"observation","data":{"a":9007199254740993}}']) {
        const container = yield* ScriptedContainer.make({ ws: { reply: { raw } } })
        const session = yield* lease({ urls: [container.url], waitBusy: false })
        assert.deepStrictEqual(session.opened, raw.includes("a") && raw.length > 2 ? { a: 9007199254740993n } : null)
      }
    }).pipe(Effect.provide(leasing()))
  )
})

describe("a round", () => {
  it.scopedLive("is won by the one free container, whatever the others do, and leaves no socket on them", () =>
    Effect.gen(function* () {
      const others = yield* Effect.forEach(
        [
          { health: { hang: true } },
          { health: { status: 500 } },
          { health: { body: { status: "healthy", leased: [0] } } },
          { ws: { hang: true } },
          { ws: { silent: true } },
          { ws: { status: 401 } },
          { ws: { error: { code: "BAD_TOKEN", message: "no" } } },
          { absent: true }
        ] satisfies ReadonlyArray<ScriptedContainer.Script>,
        ScriptedContainer.make
      )
      const free = yield* ScriptedContainer.make({ ws: { delay: 200, opening: { accept: true } } })
      const urls = [...others, free].map(({ url }) => url)
      const session = yield* lease({ urls, waitBusy: false })
      assert.strictEqual(session.url, free.url)
      for (const other of others) yield* other.awaitNoSockets
    }).pipe(Effect.provide(leasing({ hedgeAfter: Duration.millis(20) })))
  )

  it.scopedLive("opens one container at a time while it answers", () =>
    Effect.gen(function* () {
      const containers = yield* Effect.replicateEffect(ScriptedContainer.make(), 6)
      const session = yield* lease({ urls: containers.map(({ url }) => url), waitBusy: false })
      for (const container of containers) {
        const { handshakes } = yield* container.seen
        assert.lengthOf(handshakes, container.url === session.url ? 1 : 0)
      }
    }).pipe(Effect.provide(leasing({ hedgeAfter: Duration.seconds(60) })))
  )

  it.scopedLive("spreads many clients over the list", () =>
    Effect.gen(function* () {
      const containers = yield* Effect.replicateEffect(ScriptedContainer.make(), 4)
      const urls = containers.map(({ url }) => url)
      const leased = yield* Effect.replicateEffect(
        Effect.scoped(Effect.map(lease({ urls, waitBusy: false }), ({ url }) => url)),
        40
      )
      assert.sameMembers([...new Set(leased)], urls)
    }).pipe(Effect.provide(leasing()))
  )

  it.scopedLive("is cut short by the deadline, but the first one has its time", () =>
    Effect.gen(function* () {
      const slow = yield* ScriptedContainer.make({ ws: { delay: 50, opening: { accept: true } } })
      yield* lease({ urls: [slow.url], waitBusy: false, timeout: 0 })
      const hanging = yield* ScriptedContainer.make({ ws: { hang: true } })
      const failure = yield* Effect.flip(lease({ urls: [hanging.url], waitBusy: true, timeout: 1 }))
      assert.deepInclude(failure, { _tag: "NoFreeContainer", total: 1, unhealthy: 1, leased: 0 })
      assert.include(failure.message, hanging.url)
      yield* hanging.awaitNoSockets
    }).pipe(Effect.provide(leasing({ firstRound: Duration.millis(400) })))
  )
})

describe("a container that grants two sessions", () => {
  for (const [sessions, most] of [
    [undefined, 1],
    [2, 2],
    [3, 2]
  ] as const) {
    it.scopedLive(`gets ${most} of ours at once where there may be ${sessions ?? "no more than by default"}`, () =>
      Effect.gen(function* () {
        const script = { capacity: 2, health: { body: { status: "healthy" } } }
        const [container, other] = [yield* ScriptedContainer.make(script), yield* ScriptedContainer.make(script)]
        const urls = [container.url, other.url, container.url]
        const held = yield* Effect.forEach(Array.from({ length: 2 * most }), () => lease({ urls, waitBusy: true }))
        for (const { url } of [container, other]) {
          assert.lengthOf(
            held.filter((session) => session.url === url),
            most
          )
        }
        const error = yield* Effect.flip(lease({ urls, waitBusy: false }))
        assert.deepInclude(error, { _tag: "NoFreeContainer", total: 2, leased: 2, unhealthy: 0 })
      }).pipe(Effect.provide(leasing({ ...quick, ...(sessions === undefined ? {} : { sessions }) })))
    )
  }
})

describe("the list", () => {
  it.effect("is refused before anything is sent", () =>
    Effect.gen(function* () {
      const tags = yield* Effect.forEach(
        [[], ["ftp://a"], ["http:a"], ["http:///a"], [" http://a"], ["localhost:1"], ["http://user:secret@"]],
        (urls) => Effect.flip(Effect.scoped(lease({ urls, waitBusy: true })))
      )
      for (const error of tags) {
        assert.strictEqual(error._tag, "InvalidUrls")
        assert.notInclude(error.message, "secret")
      }
    }).pipe(Effect.provide(leasing()))
  )

  it.scopedLive("names each container once, however its URL is written", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ health: { body: { status: "healthy", leased: true } } })
      const urls = [container.url, `${container.url}///`, container.url.replace("http", "HTTP")]
      const error = yield* Effect.flip(lease({ urls, waitBusy: false }))
      assert.deepInclude(error, { _tag: "NoFreeContainer", total: 1 })
    }).pipe(Effect.provide(leasing()))
  )

  it.scopedLive("is read from its file again each round, and kept while the file is bad", () =>
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "miroir-"))),
        (path) => Effect.promise(() => rm(path, { recursive: true }))
      )
      const urlFile = join(folder, "urls")
      const write = (text: string) => Effect.promise(() => writeFile(urlFile, text))
      assert.strictEqual((yield* Effect.flip(lease({ urlFile, waitBusy: true })))._tag, "UrlFileError")

      const busy = yield* ScriptedContainer.make({ health: { body: { status: "healthy", leased: true } } })
      const free = yield* ScriptedContainer.make()
      yield* write(`${busy.url}\n`)
      const waiter = yield* Effect.fork(lease({ urlFile, waitBusy: true }))
      yield* busy.awaitSeen(({ healthRequests }) => healthRequests >= 1)
      yield* write("no url\n")
      yield* busy.awaitSeen(({ healthRequests }) => healthRequests >= 4)
      yield* write(`${free.url} # came later\n`)
      assert.strictEqual((yield* Fiber.join(waiter)).url, free.url)
    }).pipe(Effect.provide(leasing(quick)))
  )
})

describe("the token", () => {
  it.scopedLive("goes to health, schema and handshake, along redirects within the origin, and to no other origin", () =>
    Effect.gen(function* () {
      const token = "tok-3c9f1b"
      const other = yield* ScriptedContainer.make()
      const container = yield* ScriptedContainer.make({ token, prefix: "/env" })
      const session = yield* Effect.scoped(
        lease({ urls: [`${container.url}/`], waitBusy: false, token: Redacted.make(token) })
      )
      assert.strictEqual(session.url, container.url)
      const { handshakes, requests } = yield* container.seen
      assert.deepStrictEqual(
        [...requests, ...handshakes].map(({ headers, path }) => [path, headers.authorization]),
        [
          ["/env/health", `Bearer ${token}`],
          ["/env/schema", `Bearer ${token}`],
          ["/env/ws", `Bearer ${token}`]
        ]
      )

      const away = yield* ScriptedContainer.make({
        ws: { status: 307, headers: { location: `${other.url.replace("http", "ws")}/ws` } }
      })
      yield* lease({ urls: [away.url], waitBusy: false, token: Redacted.make(token) })
      assert.deepStrictEqual(
        (yield* other.seen).handshakes.map(({ headers }) => headers.authorization),
        [undefined]
      )

      const refusal = yield* Effect.flip(
        lease({ urls: [container.url], waitBusy: false, token: Redacted.make("wrong") })
      )
      assert.include(refusal.message, "Check the token")
      assert.strictEqual(
        (yield* Effect.flip(
          lease({ urls: [container.url], waitBusy: false, timeout: 0, token: Redacted.make("a\nb") })
        ))._tag,
        "NoFreeContainer"
      )
    }).pipe(Effect.provide(leasing(quick)))
  )

  it.scopedLive("is the URL's userinfo where there is no other", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      const session = yield* lease({ urls: [container.url.replace("//", "//ana:s%40crt@")], waitBusy: false })
      assert.strictEqual(session.url, container.url)
      const { handshakes } = yield* container.seen
      assert.strictEqual(handshakes[0]?.headers.authorization, `Basic ${btoa("ana:s@crt")}`)
    }).pipe(Effect.provide(leasing()))
  )
})

/** How far a lease has come when it ends, and how it is brought there. */
interface Phase {
  readonly name: string
  readonly script: ScriptedContainer.Script
  readonly body?: (session: Session.Service) => Effect.Effect<unknown, unknown>
  readonly reached: (seen: ScriptedContainer.Seen) => boolean
}

const data = { observation: {}, reward: null, done: false }
const answers =
  (hangs: string): NonNullable<ScriptedContainer.Script["replies"]> =>
  ({ type }) =>
    type === hangs ? { hang: true } : { send: { type: "observation", data } }

const opening: ReadonlyArray<Phase> = [
  { name: "health", script: { health: { hang: true } }, reached: (seen) => seen.pendingRequests === 1 },
  { name: "handshake", script: { ws: { hang: true } }, reached: (seen) => seen.pendingHandshakes === 1 },
  { name: "the opening state", script: { ws: { silent: true } }, reached: (seen) => seen.openSockets === 1 }
]

const held: ReadonlyArray<Phase> = [
  { name: "idle", script: {}, body: () => Effect.never, reached: (seen) => seen.sessions === 1 },
  {
    name: "queued",
    script: { replies: answers("reset") },
    body: (session) => Effect.all([session.reset("t"), session.state, session.finish], { concurrency: 3 }),
    reached: (seen) => seen.frames.length === 1
  },
  {
    name: "an exchange under way",
    script: { replies: answers("step") },
    body: (session) => Effect.andThen(session.reset("t"), session.step("x")),
    reached: (seen) => seen.frames.length === 2
  },
  {
    name: "finish",
    script: { replies: answers("step") },
    body: (session) => Effect.andThen(session.reset("t"), session.finish),
    reached: (seen) => seen.frames.length === 3
  }
]

describe("whatever becomes of a lease, its container is free again", () => {
  const again = (container: ScriptedContainer.ScriptedContainer): Effect.Effect<void, LeaseError, Leasing.Leasing> =>
    Effect.gen(function* () {
      yield* container.awaitSeen((seen) => seen.openSockets + seen.pendingHandshakes + seen.pendingRequests === 0)
      yield* container.update({ health: { body: { status: "healthy" } }, ws: { accept: true }, capacity: 1 })
      yield* Effect.scoped(lease({ urls: [container.url], waitBusy: false }))
      yield* container.awaitNoSockets
    })

  for (const { body = Effect.succeed, name, reached, script } of [...opening, ...held]) {
    it.scopedLive(`interrupted in ${name}`, () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make({ capacity: 1, ...script })
        const fiber = yield* Effect.fork(
          Effect.scoped(Effect.flatMap(lease({ urls: [container.url], waitBusy: true }), (session) => body(session)))
        )
        yield* container.awaitSeen(reached)
        assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
        yield* again(container)
      }).pipe(Effect.provide(leasing()))
    )
  }

  for (const { name, reached, script } of opening) {
    it.scopedLive(`out of time in ${name}`, () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make({ capacity: 1, ...script })
        const fiber = yield* Effect.fork(Effect.flip(lease({ urls: [container.url], waitBusy: true, timeout: 0 })))
        yield* container.awaitSeen(reached)
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "NoFreeContainer")
        yield* again(container)
      }).pipe(Effect.provide(leasing({ firstRound: Duration.millis(200) })))
    )
  }

  const ends = { succeeds: Exit.void, fails: Exit.fail("no"), dies: Exit.die("bug") }
  for (const { body = Effect.succeed, name, reached, script } of held) {
    for (const [end, exit] of Object.entries(ends)) {
      it.scopedLive(`whose use ${end} in ${name}`, () =>
        Effect.gen(function* () {
          const container = yield* ScriptedContainer.make({ capacity: 1, ...script })
          const ended = yield* Deferred.make<void, string>()
          const fiber = yield* Effect.fork(
            Effect.scoped(
              Effect.flatMap(lease({ urls: [container.url], waitBusy: true }), (session) =>
                Effect.raceFirst(body(session), Deferred.await(ended))
              )
            )
          )
          yield* container.awaitSeen(reached)
          yield* Deferred.done(ended, exit)
          assert.deepStrictEqual(Exit.asVoid(yield* Fiber.await(fiber)), Exit.asVoid(exit))
          yield* again(container)
        }).pipe(Effect.provide(leasing()))
      )
    }
  }

  it.scopedLive("closed to a server that ignores the close", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ replies: () => ({ stall: true }) })
      yield* Effect.scoped(
        Effect.gen(function* () {
          const session = yield* lease({ urls: [container.url], waitBusy: false })
          yield* Effect.fork(session.state)
          yield* container.awaitFrames(1)
        })
      )
      yield* container.update({ replies: [] })
      yield* Effect.scoped(lease({ urls: [container.url], waitBusy: false }))
    }).pipe(Effect.provide(leasing({}, { closeTimeout: Duration.millis(100) })))
  )
})
