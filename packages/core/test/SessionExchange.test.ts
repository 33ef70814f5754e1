/** Frames in an order that real sockets cannot be made to keep; the Transport is a script, the Clock a test's. */
import { assert, describe, it } from "@effect/vitest"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import { ConnectionLost } from "@miroir-effect/core/MiroirError"
import * as Protocol from "@miroir-effect/core/Protocol"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Transport from "@miroir-effect/core/Transport"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"

const url = "http://127.0.0.1:1"
const reply = JSON.stringify({ type: "state", data: { n: 1 } })
const error = JSON.stringify({ type: "error", data: { code: "SHUTDOWN", message: "maintenance" } })
const closed = new ConnectionLost({ url, reason: "the server is going away (1001)", closeCode: 1001 })

const state: SessionExchange.Ask<unknown> = {
  request: Protocol.state,
  decode: ({ data }) => Protocol.decodeState(data)
}

/** An exchange, what it sent, and the server's side of its connection. */
const scripted = Effect.gen(function* () {
  const sent: Array<string> = []
  const server: { listener?: Transport.Listener; closed: boolean } = { closed: false }
  const transport = Layer.succeed(Transport.Transport, {
    open: () =>
      Effect.succeed({
        send: (text) => sent.push(text),
        listen: (listener) => {
          server.listener = listener
        },
        close: () => {
          server.closed = true
        }
      })
  })
  const exchange = yield* Effect.flatMap(SessionExchange.SessionExchange, ({ open }) =>
    open(Either.getOrThrow(BaseUrl.parse(url)), Option.none())
  ).pipe(Effect.provide(SessionExchange.layer.pipe(Layer.provide(transport))))
  return {
    exchange,
    sent,
    server,
    says: (...texts: ReadonlyArray<string>) =>
      Effect.sync(() => {
        for (const text of texts) server.listener?.onFrame(text)
      }),
    ends: Effect.sync(() => server.listener?.onClose(() => closed))
  }
})

/** Asks, and has the server answer. */
const asked = ({ exchange, says }: Effect.Effect.Success<typeof scripted>, ...replies: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(exchange.ask(state))
    yield* Effect.yieldNow()
    yield* says(...replies)
    return yield* Fiber.join(fiber)
  })

describe("SessionExchange", () => {
  it.scoped("two replies to one request break it at the next question, which is not sent", () =>
    Effect.gen(function* () {
      const peer = yield* scripted
      yield* asked(peer, reply, reply)
      const fiber = yield* Effect.fork(Effect.flip(peer.exchange.ask(state)))
      yield* TestClock.adjust("250 millis")
      const failure = yield* Fiber.join(fiber)
      assert.strictEqual(failure._tag, "UnexpectedReply")
      assert.include(failure.message, "nobody asked for")
      assert.isTrue(peer.server.closed)
      assert.lengthOf(peer.sent, 1)
      assert.strictEqual(yield* Effect.flip(peer.exchange.ask(state)), failure)
    })
  )

  it.scoped("a frame that nobody asked for is explained by the close that comes behind it", () =>
    Effect.gen(function* () {
      const peer = yield* scripted
      yield* asked(peer, reply, error)
      const fiber = yield* Effect.fork(Effect.flip(peer.exchange.ask(state)))
      yield* TestClock.adjust("200 millis")
      yield* peer.ends
      const failure = yield* Fiber.join(fiber)
      assert.strictEqual(failure._tag, "ConnectionLost")
      assert.include(failure.message, "(1001). It had said SHUTDOWN: maintenance.")
    })
  )

  it.scoped("an error that comes unasked before the opening question answers it", () =>
    Effect.gen(function* () {
      const peer = yield* scripted
      yield* peer.says(error)
      const failure = yield* Effect.flip(peer.exchange.ask(state))
      assert.strictEqual(failure._tag, "EnvError")
      assert.lengthOf(peer.sent, 0)
    })
  )

  it.scoped("what a dialect throws is the asker's defect, and the others are served", () =>
    Effect.gen(function* () {
      const peer = yield* scripted
      const bug = (): never => assert.fail("bug")
      const decode: SessionExchange.Ask<unknown> = { ...state, decode: bug }
      const asks = [
        peer.exchange.askIf("state", bug),
        peer.exchange.ask(decode),
        peer.exchange.hold((ask) => ask(decode)),
        peer.exchange.ask(state)
      ]
      const fibers = yield* Effect.forEach(asks, (ask) => Effect.fork<unknown, unknown, never>(ask))
      for (const count of [1, 2, 3]) {
        while (peer.sent.length < count) yield* Effect.yieldNow()
        yield* peer.says(reply)
      }
      const exits = yield* Effect.forEach(fibers, Fiber.await)
      assert.deepStrictEqual(
        exits.map((exit) => (exit._tag === "Success" ? "answered" : exit.cause._tag)),
        ["Die", "Die", "Die", "answered"]
      )
      assert.deepStrictEqual(yield* peer.exchange.broken, Option.none())
    })
  )

  it.scoped("one that is interrupted when its reply has come leaves the exchange sound", () =>
    Effect.gen(function* () {
      const peer = yield* scripted
      for (const ask of [peer.exchange.ask(state), peer.exchange.hold((ask) => ask(state))]) {
        const fiber = yield* Effect.fork(ask)
        yield* Effect.yieldNow()
        // The fiber has no turn between the two.
        yield* peer.says(reply)
        yield* Fiber.interrupt(fiber)
      }
      assert.deepStrictEqual(yield* asked(peer, reply), { n: 1 })
    })
  )

  it.effect(
    "whatever is asked, answered and interrupted in whatever order: no reply goes to another's question",
    () => {
      type Action = "ask" | "hold" | "reply" | "interrupt first" | "interrupt last"
      const actions = FastCheck.array(
        FastCheck.constantFrom<Action>("ask", "hold", "reply", "reply", "interrupt first", "interrupt last"),
        { maxLength: 25 }
      )
      const numbered = (n: number): SessionExchange.Ask<unknown> => ({
        request: { type: "state", text: String(n) },
        decode: ({ data }) => Either.right(data)
      })
      const run = (script: ReadonlyArray<Action>) =>
        Effect.gen(function* () {
          const peer = yield* scripted
          const fibers: Array<readonly [number, Fiber.RuntimeFiber<unknown, unknown>]> = []
          let answered = 0
          for (const [n, action] of script.entries()) {
            if (action === "ask") fibers.push([n, yield* Effect.fork(peer.exchange.ask(numbered(n)))])
            if (action === "hold") {
              const body = (ask: SessionExchange.AskFn) => Effect.zipRight(ask(numbered(n)), ask(numbered(n)))
              fibers.push([n, yield* Effect.fork(peer.exchange.hold(body))])
            }
            if (action === "reply" && peer.sent.length > answered) {
              yield* peer.says(JSON.stringify({ type: "state", data: Number(peer.sent[answered++]) }))
            }
            const doomed =
              action === "interrupt first" ? fibers[0] : action === "interrupt last" ? fibers.at(-1) : undefined
            if (doomed !== undefined) yield* Fiber.interrupt(doomed[1])
            yield* Effect.yieldNow()
            // One question is under way at a time.
            assert.isAtMost(peer.sent.length - answered, 1)
          }
          // All that wait are answered now, or know that the exchange is broken.
          for (let left = fibers.length * 10; left > 0; left--) {
            if (peer.sent.length > answered && !peer.server.closed) {
              yield* peer.says(JSON.stringify({ type: "state", data: Number(peer.sent[answered++]) }))
            }
            yield* Effect.yieldNow()
          }
          for (const [n, fiber] of fibers) {
            const exit = Option.getOrThrow(yield* Fiber.poll(fiber))
            if (exit._tag === "Success") assert.strictEqual(exit.value, n)
          }
          assert.strictEqual(peer.server.closed, Option.isSome(yield* peer.exchange.broken))
        }).pipe(Effect.scoped)
      return Effect.promise(() =>
        FastCheck.assert(
          FastCheck.asyncProperty(actions, (script) => Effect.runPromise(run(script))),
          { numRuns: 300 }
        )
      )
    }
  )
})
