import * as Net from "node:net"
import { assert, describe, it } from "@effect/vitest"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import type { JsonObject } from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import type * as Session from "@miroir-effect/core/Session"
import * as Transport from "@miroir-effect/core/Transport"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { leasing } from "./layers.js"
import { watching } from "./support/watching.js"

const observation = { send: { type: "observation", data: { observation: { ok: true }, reward: null, done: false } } }

/** A container that answers every frame, and a session on it. */
const withSession = <A, E>(
  script: ScriptedContainer.Script,
  use: (session: Session.Service, container: ScriptedContainer.ScriptedContainer) => Effect.Effect<A, E, Scope.Scope>
) =>
  Effect.gen(function* () {
    const container = yield* ScriptedContainer.make({ replies: () => observation, ...script })
    const { lease } = yield* Leasing.Leasing
    const session = yield* lease({ urls: [container.url], waitBusy: false })
    return yield* use(session, container)
  }).pipe(Effect.provide(leasing()))

/** The tag of the failure that a call meets. */
const tagOf = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.match(self, { onSuccess: () => "none", onFailure: ({ _tag }) => _tag })

const typesOf = (container: ScriptedContainer.ScriptedContainer) =>
  Effect.map(container.seen, ({ frames }) => frames.map(({ type }) => type))

describe("Session", () => {
  it.scopedLive("keeps integers above 2^53 in observations and in arguments given as value or as text", () =>
    withSession(
      {
        replies: ({ text }) => ({
          raw: `{"type":"observation","data":{"observation":{"id":9007199254740993,"nan":NaN},"reward":-Infinity,"done":${text.includes("9007199254740995")}}}`
        })
      },
      (session, container) =>
        Effect.gen(function* () {
          assert.isFalse(yield* session.isOver)
          yield* session.reset("t")
          const first = yield* session.step("open", { id: 9007199254740993n })
          assert.isFalse(yield* session.isOver)
          assert.deepStrictEqual(first, {
            observation: { id: 9007199254740993n, nan: Number.NaN },
            reward: Number.NEGATIVE_INFINITY,
            done: false
          })
          const second = yield* session.step("open", '{ "id": 9007199254740995, "x": 1.0 }')
          assert.isTrue(second.done && (yield* session.isOver))
          const { frames } = yield* container.seen
          assert.include(frames[1]?.text, '"arguments":{"id":9007199254740993}')
          assert.include(frames[2]?.text, '"arguments":{ "id": 9007199254740995, "x": 1.0 }')
          // Half a surrogate pair, which UTF-8 cannot hold.
          for (const args of [{ "\ud83d": "é😀\udc00" }, '{"\ud83d":"é😀\udc00"}']) yield* session.step("open", args)
          const halves = (yield* container.seen).frames
            .slice(-2)
            .map(({ text }) => /"arguments":(\{.*?\})/.exec(text)?.[1])
          assert.deepStrictEqual(halves, Array(2).fill('{"\\ud83d":"é😀\\udc00"}'))
        })
    )
  )

  it.scopedLive("keeps every digit of a record", () =>
    withSession(
      {
        replies: ({ type }) =>
          type === "record"
            ? {
                raw: '{"data":{"task_id":"t","reward":1.0,"metadata":{"big":123456789012345678901},"b":2,"1":"é"},"type":"record"}'
              }
            : { send: { type: "observation", data: { observation: {}, done: true } } }
      },
      (session) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          yield* session.step("submit")
          const { metadata, record } = yield* session.finish
          assert.deepStrictEqual(metadata, { big: 123456789012345678901n })
          assert.strictEqual(
            record.line,
            '{"task_id": "t", "reward": 1.0, "metadata": {"big": 123456789012345678901}, "b": 2, "1": "\\u00e9"}'
          )
        })
    )
  )

  it.scopedLive("refuses arguments that are no JSON object, and sends nothing", () =>
    withSession({}, (session, container) =>
      Effect.gen(function* () {
        yield* session.reset("t")
        const cyclic: Record<string, JsonObject> = {}
        cyclic.self = cyclic
        for (const args of ["[1]", "{", "", "null", cyclic]) {
          assert.strictEqual(yield* tagOf(session.step("open", args)), "InvalidArguments")
        }
        assert.deepStrictEqual(yield* typesOf(container), ["reset"])
      })
    )
  )

  it.scopedLive("serves callers in the order they came, one at a time", () =>
    withSession({ replies: () => ({ delay: 1, reply: observation }) }, (session, container) =>
      Effect.gen(function* () {
        yield* session.reset("t")
        // Two fibers that ask again as soon as they have their answer must take turns with one another.
        const greedy = (tool: string) => Effect.replicateEffect(session.step(tool), 20)
        yield* Effect.all([greedy("a"), greedy("b")], { concurrency: 2 })
        const tools = (yield* container.seen).frames.slice(1).map(({ text }) => /"tool_name":"(.)"/.exec(text)?.[1])
        assert.strictEqual(tools.join(""), "ab".repeat(20))
      })
    )
  )

  it.scopedLive("holds the queue for the whole of a finish", () =>
    withSession(
      {
        replies: ({ type }) =>
          type === "record"
            ? { send: { type, data: { reward: 1, metadata: {} } } }
            : { delay: 5, reply: { send: { type, data: { observation: {}, done: type === "step" } } } }
      },
      (session, container) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          yield* Effect.all([session.finish, session.state, session.coworkerReply("ana", "hi").pipe(Effect.ignore)], {
            concurrency: 3
          })
          assert.deepStrictEqual(yield* typesOf(container), [
            "reset",
            "state",
            "step",
            "record",
            "state",
            "coworker_reply"
          ])
        })
    )
  )

  it.scopedLive("a call interrupted while it queues has sent nothing, and the session stays sound", () =>
    withSession(
      { replies: ({ index }) => (index === 1 ? { delay: 50, reply: observation } : observation) },
      (session, container) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          const first = yield* Effect.fork(session.step("first"))
          yield* container.awaitFrames(2)
          const queued = yield* Effect.forEach([session.step("x"), session.reset("u"), session.finish], (call) =>
            Effect.fork<unknown, unknown, never>(call)
          )
          yield* Effect.yieldNow()
          yield* Fiber.interruptAll(queued)
          yield* Fiber.join(first)
          yield* session.step("last")
          assert.deepStrictEqual(yield* typesOf(container), ["reset", "step", "step"])
          assert.isTrue(Option.isSome(yield* session.episodeId))
        })
    )
  )

  for (const [name, stop] of [
    ["interrupted", Fiber.interrupt],
    ["timed out", undefined]
  ] as const) {
    it.scopedLive(`a call ${name} after its frame was sent breaks the session, for those who queue too`, () =>
      withSession({ replies: ({ type }) => (type === "step" ? { hang: true } : observation) }, (session, container) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          const step = stop === undefined ? Effect.timeout(session.step("slow"), 50) : session.step("slow")
          const fiber = yield* Effect.fork<unknown, unknown, never>(step)
          yield* container.awaitFrames(2)
          const queued = yield* Effect.fork(tagOf(session.state))
          yield* stop === undefined ? Fiber.await(fiber) : stop(fiber)
          assert.strictEqual(yield* Fiber.join(queued), "ConnectionLost")
          assert.strictEqual(yield* tagOf(session.step("x")), "ConnectionLost")
          assert.strictEqual(yield* tagOf(session.finish), "ConnectionLost")
          yield* container.awaitNoSockets
          assert.deepStrictEqual(yield* typesOf(container), ["reset", "step"])
        })
      )
    )
  }

  const sticky: ReadonlyArray<readonly [string, ScriptedContainer.Reply, string, string?]> = [
    ["a reply that is no JSON", { raw: "<html>" }, "UnexpectedReply"],
    ["a reply without what is needed", { send: { type: "observation", data: [] } }, "UnexpectedReply"],
    ["an error without a code", { send: { type: "error", data: {} } }, "UnexpectedReply"],
    ["a binary frame that is no UTF-8", { binary: new Uint8Array([0xff, 0xfe]) }, "UnexpectedReply"],
    ["a close", { close: 1012, reason: "deploy" }, "ConnectionLost", "restarts (1012) (deploy)"],
    ["a cut", { drop: true }, "ConnectionLost"]
  ]
  for (const [name, reply, tag, message] of sticky) {
    it.scopedLive(`${name} breaks the session for good`, () =>
      withSession({ replies: ({ type }) => (type === "step" ? reply : observation) }, (session, container) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          const error = yield* Effect.flip(session.step("x"))
          assert.strictEqual(error._tag, tag)
          if (message !== undefined) assert.include(error.message, message)
          assert.strictEqual(yield* Effect.flip(session.state), error)
          assert.deepStrictEqual(yield* session.broken, Option.some(error))
          yield* container.awaitNoSockets
          assert.deepStrictEqual(yield* typesOf(container), ["reset", "step"])
        })
      )
    )
  }

  it.scopedLive("an error frame with a close behind it explains the loss", () =>
    withSession(
      {
        replies: ({ type }) =>
          type === "step"
            ? { many: [{ send: { type: "error", data: { code: "SESSION_ERROR", message: "no" } } }, { close: 1000 }] }
            : observation
      },
      (session, container) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          assert.strictEqual(yield* tagOf(session.step("x")), "EnvError")
          yield* container.awaitNoSockets
          const lost = yield* Effect.flip(session.step("y"))
          assert.strictEqual(lost._tag, "ConnectionLost")
          assert.include(lost.message, "SESSION_ERROR: no.")
        })
    )
  )

  it.scopedLive("reads a binary frame of UTF-8 as text", () =>
    withSession({ replies: () => ({ binary: '{"data":{"observation":"é"}}' }) }, (session) =>
      Effect.map(session.reset("t"), (first) => assert.strictEqual(first, "é"))
    )
  )

  it.scopedLive("a reply for an episode that has been replaced is not sent", () =>
    withSession(
      { replies: ({ type }) => ({ send: { type, data: { observation: {}, status: 200 } } }) },
      (session, container) =>
        Effect.gen(function* () {
          yield* session.reset("t")
          const episodeId = Option.getOrThrow(yield* session.episodeId)
          assert.deepStrictEqual(yield* session.coworkerReply("ana", "a", { episodeId }), Option.some(200))
          // The reset is ahead in the queue when the reply is asked for.
          const [, late] = yield* Effect.all([session.reset("u"), session.coworkerReply("ana", "b", { episodeId })], {
            concurrency: 2
          })
          assert.deepStrictEqual(late, Option.none())
          assert.deepStrictEqual(yield* typesOf(container), ["reset", "coworker_reply", "reset"])
        })
    )
  )

  it.scopedLive("the scope's end fails who still calls, and frees the container", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ replies: () => ({ hang: true }), capacity: 1 })
      const { lease } = yield* Leasing.Leasing
      const options = { urls: [container.url], waitBusy: false }
      const reset = yield* Effect.scoped(
        Effect.gen(function* () {
          const session = yield* lease(options)
          const fiber = yield* Effect.forkDaemon(Effect.exit(session.reset("t")))
          yield* container.awaitFrames(1)
          return fiber
        })
      )
      const exit = yield* Fiber.join(reset)
      assert.isTrue(Exit.isFailure(exit))
      yield* container.awaitNoSockets
      assert.deepStrictEqual(
        (yield* container.seen).closes.map(({ code }) => code),
        [1000]
      )
      yield* lease(options)
    }).pipe(Effect.provide(leasing()))
  )
})

describe("a handshake", () => {
  const opening = (url: string) =>
    Effect.flatMap(Effect.all([BaseUrl.parse(url), Transport.make()]), ([base, { open }]) =>
      open(base, Option.some(Redacted.make("tok-55")))
    )

  it.scopedLive("follows a redirect without the userinfo and the fragment that the server put there", () =>
    Effect.gen(function* () {
      const end = yield* ScriptedContainer.make()
      const location = `${end.url.replace("//", "//user:pass@")}/ws#top`
      const start = yield* ScriptedContainer.make({ ws: { status: 302, location } })
      yield* opening(start.url)
      assert.deepStrictEqual(
        (yield* end.seen).handshakes.map(({ headers, path }) => [path, headers.authorization]),
        [["/ws", undefined]]
      )
      yield* start.update({ ws: { status: 302, location: "tok-55:x" } })
      assert.include((yield* Effect.flip(opening(start.url))).message, "redirected to what is no http(s) URL")
    })
  )

  it.scopedLive("that is answered with what is no HTTP says so", () =>
    Effect.gen(function* () {
      const server = yield* Effect.acquireRelease(
        Effect.async<Net.Server>((resume) => {
          const server = Net.createServer((socket) => socket.on("error", () => socket.destroy()).end("SSH-2.0-x\r\n"))
          server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.sync(() => server.close())
      )
      const address = server.address()
      const port = typeof address === "object" ? address?.port : undefined
      assert.include((yield* Effect.flip(opening(`http://127.0.0.1:${port}`))).message, "it does not speak HTTP")
    })
  )
})

it.scopedLive("a token that the server echoes is in no error, log or span", () =>
  Effect.gen(function* () {
    const token = "tok-7d20e4c1"
    const data = { code: `BAD_${token}`, message: `Bearer ${token}` }
    const replies: ReadonlyArray<ScriptedContainer.Reply> = [
      { send: { type: "error", data } },
      { many: [{ send: { type: "error", data } }, { close: 1008, reason: `not ${token}` }] },
      { close: 4001, reason: `not ${token}` }
    ]
    for (const reply of replies) {
      const container = yield* ScriptedContainer.make({ token, replies: () => reply })
      const { exit, seen } = yield* watching(
        Effect.scoped(
          Effect.gen(function* () {
            const { lease } = yield* Leasing.Leasing
            const session = yield* lease({ urls: [container.url], waitBusy: false, token: Redacted.make(token) })
            yield* Effect.either(session.reset("t"))
            if ("send" in reply) return yield* session.reset("t")
            yield* container.awaitNoSockets
            return yield* session.reset("t")
          })
        )
      )
      assert.isTrue(Exit.isFailure(exit))
      assert.include(seen, "<redacted>")
      assert.notInclude(seen, token)
    }
  }).pipe(Effect.provide(leasing()))
)

describe("keepalive, on the Clock", () => {
  const alive = (script: ScriptedContainer.Script, settings: Parameters<typeof leasing>[1]) =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(script)
      const { lease } = yield* Leasing.Leasing
      const session = yield* lease({ urls: [container.url], waitBusy: false })
      return { container, session }
    }).pipe(Effect.provide(leasing({}, settings)))

  it.scoped("breaks the session after three pings in a row without a pong, naming the setting", () =>
    Effect.gen(function* () {
      const { container, session } = yield* alive({ pong: false }, {})
      for (let pings = 1; pings <= 3; pings++) {
        yield* TestClock.adjust("20 seconds")
        yield* container.awaitSeen((seen) => seen.pings === pings)
        assert.deepStrictEqual(yield* session.broken, Option.none())
      }
      yield* TestClock.adjust("20 seconds")
      const error = yield* Effect.flip(session.state)
      assert.strictEqual(error._tag, "ConnectionLost")
      assert.include(error.message, "MIROIR_PING_INTERVAL")
      yield* container.awaitNoSockets
    })
  )

  it.scoped("goes on for as long as pongs come, and can be turned off", () =>
    Effect.gen(function* () {
      const { container, session } = yield* alive({ replies: () => ({ send: { type: "state", data: {} } }) }, {})
      const off = yield* alive({ pong: false }, { pingInterval: Duration.zero })
      for (let pings = 1; pings <= 8; pings++) {
        yield* TestClock.adjust("20 seconds")
        yield* container.awaitSeen((seen) => seen.pings === pings)
        // The reply to this comes behind the pong.
        yield* session.state
      }
      assert.deepStrictEqual(yield* session.broken, Option.none())
      assert.strictEqual((yield* off.container.seen).pings, 0)
      assert.deepStrictEqual(yield* off.session.broken, Option.none())
    })
  )
})
