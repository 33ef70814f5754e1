import { once } from "node:events"
import * as Net from "node:net"
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { EnvServer, layer, layerConfig, make } from "../src/EnvServer.js"
import * as World from "../src/World.js"
import { at, type Client, connect, http, record, reset, step } from "./client.js"

class Lab {
  total: number | bigint = 0
  asked = false
  answer = ""
}

/** A world in which a figure is added up, and all that can go wrong does on demand. */
const lab = (
  hooks: {
    readonly begun?: Effect.Effect<unknown>
    readonly hang?: Effect.Effect<unknown>
    readonly gone?: Effect.Effect<unknown>
  } = {}
) =>
  World.make<Lab>({
    name: "lab / 1",
    tasks: {
      train: [
        { id: "t1", instruction: "Add.", persona: { description: null }, coworkers: { ada: "knows" }, setup: 1 },
        { id: "t2", instruction: "Add.", max_steps: 2, task_hash: "given" }
      ],
      test: [{ id: "t3", instruction: "Add.", setup: { b: 1, a: [2n ** 64n] } }]
    },
    tools: [
      World.tool({
        name: "add",
        description: "Adds.",
        parameters: Schema.Struct({ by: World.Integer }),
        handle: ({ by }, state: Lab) =>
          Effect.sync(() => {
            state.total = by
            return { total: state.total }
          })
      }),
      World.tool({
        name: "refuse",
        description: "Refuses.",
        parameters: World.noParameters,
        surfaces: ["code"],
        handle: () => Effect.fail(new World.ToolError({ type: "refused", message: "Never." }))
      }),
      World.tool({
        name: "break",
        description: "Has a bug.",
        parameters: World.noParameters,
        surfaces: ["code"],
        handle: () => Effect.die(new Error("a bug"))
      }),
      World.tool({
        name: "interrupt",
        description: "Is interrupted, as by a fiber that it joins.",
        parameters: World.noParameters,
        surfaces: ["code"],
        handle: () => Effect.interrupt
      }),
      World.tool({
        name: "draw",
        description: "Draws a number.",
        parameters: World.noParameters,
        handle: () => Random.next
      }),
      World.tool({
        name: "hang",
        description: "Never answers.",
        parameters: World.noParameters,
        handle: () => Effect.zipRight(hooks.hang ?? Effect.void, Effect.never)
      }),
      World.tool({
        name: "ask",
        description: "Asks Ada.",
        parameters: World.noParameters,
        handle: (_, state: Lab) =>
          Effect.sync(() => {
            state.asked = true
            return null
          })
      })
    ],
    reset: () =>
      Effect.acquireRelease(Effect.as(hooks.begun ?? Effect.void, new Lab()), () => hooks.gone ?? Effect.void),
    coworkers: {
      turns: (state) =>
        Effect.sync(() => (state.asked ? [{ coworker: "ada", messages: [{ role: "user", content: "?" }] }] : [])),
      reply: (state, coworker, text) =>
        Effect.sync(() => {
          if (!state.asked || coworker !== "ada") return false
          state.asked = false
          state.answer = text
          return true
        })
    },
    grade: (state) =>
      state.total === 13
        ? Effect.fail(new World.GradeError({ message: "13 cannot be graded" }))
        : Effect.succeed({
            reward: state.total === 14 ? Number.NaN : state.total === 0 ? 0 : 0.5,
            success: state.total !== 0,
            harm: state.total === 6,
            metadata: { total: state.total, answer: state.answer, task_hash: "not the world's to say" }
          })
  })

/** Resets the task, plays the frames, and gives what each was answered. */
const played = (frames: ReadonlyArray<Json.Json | Buffer>) =>
  Effect.gen(function* () {
    const { url } = yield* EnvServer
    const client = yield* connect(url)
    return yield* Effect.forEach(frames, client.ask)
  })

/** A list in a list, and so on. */
const nested = (depth: number) => Array.from({ length: depth }).reduce<Json.Json>((inner) => [inner], null)

const codes = (replies: ReadonlyArray<Json.JsonObject>) =>
  replies.map((reply) => at(reply, "data", "code") ?? reply.type)

const tools = (name: string) => ({ tool_name: name, result: null })

describe("EnvServer", () => {
  it.scoped("plays an episode, frame by frame", () =>
    Effect.gen(function* () {
      const { url } = yield* EnvServer
      const client = yield* connect(url)
      const state = (data: Json.JsonObject) => ({ type: "state", data })
      assert.deepEqual(
        yield* client.ask({ type: "state" }),
        state({ episode_id: null, step_count: 0, done: false, task_id: null })
      )
      assert.deepEqual(yield* client.ask(reset("t1")), {
        type: "observation",
        data: {
          observation: {
            task_id: "t1",
            instruction: "Add.",
            persona: { description: null },
            coworkers: { ada: "knows" }
          },
          reward: null,
          done: false
        }
      })
      assert.deepEqual(yield* client.ask(step("ask")), {
        type: "observation",
        data: { observation: { tool_name: "ask", result: null, error: null }, reward: null, done: false }
      })
      assert.deepEqual(yield* client.ask({ type: "coworkers" }), {
        type: "coworkers",
        data: { turns: [{ coworker: "ada", messages: [{ role: "user", content: "?" }] }] }
      })
      const reply = { type: "coworker_reply", data: { coworker: "ada", text: "Seven — 7." } }
      assert.deepEqual(yield* client.ask(reply), { type: "coworker_reply", data: { status: 200 } })
      assert.deepEqual(yield* client.ask(reply), { type: "coworker_reply", data: { status: 404 } })
      assert.deepEqual(yield* client.ask(step("refuse")), {
        type: "observation",
        data: {
          observation: { ...tools("refuse"), error: { type: "refused", message: "Never." } },
          reward: null,
          done: false
        }
      })
      yield* TestClock.adjust("1500 millis")
      const big = yield* client.ask(Buffer.from(Json.stringify(step("add", { by: 9007199254740993n }))))
      assert.deepEqual(at(big, "data", "observation", "result"), { total: 9007199254740993n })
      assert.deepEqual(
        yield* client.ask({ type: "state", data: null }),
        state({ episode_id: "e-1", step_count: 3, done: false, task_id: "t1" })
      )
      assert.deepEqual(yield* client.ask(step("submit")), {
        type: "observation",
        data: { observation: { tool_name: "submit", result: "submitted", error: null }, reward: 0.5, done: true }
      })
      assert.deepEqual(
        yield* client.ask({ type: "state" }),
        state({ episode_id: "e-1", step_count: 4, done: true, task_id: "t1" })
      )
      assert.deepEqual(yield* client.ask({ type: "coworkers" }), { type: "coworkers", data: { turns: [] } })
      const kept = {
        type: "record",
        data: {
          task_id: "t1",
          episode_id: "e-1",
          reward: 0.5,
          metadata: {
            total: 9007199254740993n,
            answer: "Seven — 7.",
            // printf '%s' '{"coworkers":{"ada":"knows"},"id":"t1","instruction":"Add.","persona":{"description":null},"setup":1}' | sha256sum
            task_hash: "7e221ed0d4b61289bb5452779f00b3f142de6a0bea3ab49f0de544b95ed63d9f",
            split: "train",
            success: true,
            harm: false,
            ended: "submit"
          },
          diagnostics: { steps: 4, tool_errors: 1 },
          timings: { episode_s: 1.5, reset_s: 0 }
        }
      }
      yield* TestClock.adjust("1 minute")
      assert.deepEqual(yield* client.ask(record), kept)
      assert.deepEqual(yield* client.ask(record), kept)
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("answers what is wrong with an error frame, and goes on", () =>
    Effect.gen(function* () {
      const replies = yield* played([
        { type: "dance" },
        "{",
        Buffer.from([0xff]),
        [1],
        { type: 7 },
        { type: "state", data: 1 },
        { type: "reset" },
        reset("t1", { episode_id: 5 }),
        reset("t1", { max_seconds: 0 }),
        reset("t1", { max_seconds: "5" }),
        reset("t9"),
        step("add"),
        { type: "coworkers" },
        { type: "coworker_reply", data: { coworker: "ada", text: "" } },
        record,
        reset("t1"),
        { type: "step", data: { type: "dance", tool_name: "add", arguments: {}, metadata: { episode_id: "e-1" } } },
        { type: "step", data: { type: "call_tool", arguments: {}, metadata: { episode_id: "e-1" } } },
        step("add", [1]),
        { type: "step", data: { type: "call_tool", tool_name: "add", arguments: {} } },
        step("add", { by: 1 }, "e-2"),
        { type: "coworker_reply", data: { coworker: "ada" } },
        { type: "record" },
        { type: "record", data: { episode_id: "e-2" } },
        record,
        step("add", { by: 1 }),
        step("submit"),
        step("add", { by: 1 }),
        record
      ])
      assert.deepEqual(codes(replies), [
        "UNKNOWN_TYPE",
        ...new Array(9).fill("VALIDATION_ERROR"),
        "UNKNOWN_TASK",
        ...new Array(4).fill("NO_EPISODE"),
        "observation",
        ...new Array(4).fill("VALIDATION_ERROR"),
        "EPISODE_MISMATCH",
        "VALIDATION_ERROR",
        "VALIDATION_ERROR",
        "EPISODE_MISMATCH",
        "NOT_DONE",
        "observation",
        "observation",
        "EPISODE_OVER",
        "record"
      ])
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("tells the policy of a wrong call in the observation, and counts it", () =>
    Effect.gen(function* () {
      const replies = yield* played([
        reset("t1"),
        step("fly"),
        step("add"),
        step("add", { by: 1.5, extra: 1 }),
        step("add", { by: "x".repeat(100_000) }),
        step("add", Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`k${at}`, 0]))),
        step("add", { by: nested(5000) }),
        step("submit"),
        record
      ])
      const errors = replies.slice(1, 7).map((reply) => at(reply, "data", "observation", "error"))
      assert.deepEqual(
        errors.map((error) => at(error, "type")),
        ["unknown_tool", ...Array.from(errors.slice(1), () => "invalid_arguments")]
      )
      assert.match(String(at(errors[0], "message")), /"fly"; there are add, refuse, .*submit\.$/)
      assert.match(String(at(errors[1], "message")), /^by: is missing$/)
      assert.match(String(at(errors[2], "message")), /extra: .*; by: /)
      assert.match(String(at(errors[3], "message")), /^by: [^;]{296}…; by: [^;]{296}…$/)
      assert.match(String(at(errors[4], "message")), /^k0: .*; k9: [^;]*; and 991 more$/)
      assert.match(String(at(errors[5], "message")), /nested too deeply/)
      assert.deepEqual(at(replies[8], "data", "diagnostics"), { steps: 7, tool_errors: 6 })
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("ends an episode at its last step, and at its last second", () =>
    Effect.gen(function* () {
      const { url } = yield* EnvServer
      const client = yield* connect(url)
      yield* Effect.forEach([reset("t2"), step("add", { by: 6 })], client.ask)
      const last = yield* client.ask(step("refuse"))
      assert.deepEqual(
        [at(last, "data", "done"), at(last, "data", "reward"), at(last, "data", "observation", "error", "type")],
        [true, 0.5, "refused"]
      )
      const ended = at(yield* client.ask(record), "data", "metadata")
      assert.deepEqual([at(ended, "ended"), at(ended, "harm"), at(ended, "task_hash")], ["max_steps", true, "given"])

      // Noticed between steps: the next one is told, those after it were warned.
      yield* Effect.forEach([reset("t1", { max_seconds: 5 }), step("add", { by: 1 })], client.ask)
      yield* TestClock.adjust("4999 millis")
      assert.isFalse(at(yield* client.ask({ type: "state" }), "data", "done"))
      yield* TestClock.adjust("2 millis")
      assert.isTrue(at(yield* client.ask({ type: "state" }), "data", "done"))
      const late = yield* client.ask(step("add", { by: 2 }))
      assert.deepEqual(
        [at(late, "data", "done"), at(late, "data", "observation", "error", "type")],
        [true, "time_limit"]
      )
      assert.deepEqual(codes([yield* client.ask(step("submit"))]), ["EPISODE_OVER"])
      const timed = at(yield* client.ask(record), "data")
      assert.deepEqual(
        [at(timed, "metadata", "ended"), at(timed, "metadata", "total"), at(timed, "timings", "episode_s")],
        ["max_seconds", 1, 5]
      )
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("cuts a tool short when the time is up", () =>
    Effect.gen(function* () {
      const hanging = yield* Deferred.make<void>()
      const { url } = yield* make(lab({ hang: Deferred.succeed(hanging, undefined) }))
      const client = yield* connect(url)
      yield* client.ask(reset("t1", { max_seconds: 5 }))
      client.socket.send(Json.stringify(step("hang")))
      client.socket.send(Json.stringify(record))
      yield* Deferred.await(hanging)
      yield* TestClock.adjust("5 seconds")
      const cut = yield* client.next
      assert.deepEqual([at(cut, "data", "done"), at(cut, "data", "observation", "error", "type")], [true, "time_limit"])
      assert.strictEqual(at(yield* client.next, "data", "metadata", "ended"), "max_seconds")
    })
  )

  it.scoped("leaves a rollout void that cannot be graded, and says why", () =>
    Effect.gen(function* () {
      for (const [by, reason] of [
        [13, "13 cannot be graded"],
        [14, "the reward NaN is not finite"]
      ] as const) {
        const replies = yield* Effect.scoped(played([reset("t1"), step("add", { by }), step("submit"), record]))
        assert.deepEqual(
          [at(replies[2], "data", "reward"), at(replies[2], "data", "done"), at(replies[3], "data", "reward")],
          [null, true, null]
        )
        assert.strictEqual(at(replies[3], "data", "metadata", "void_reason"), reason)
      }
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("survives a bug in the world, and logs it", () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logger = Logger.make(({ annotations, cause, message }) => {
        logged.push(`${[...annotations].join()} ${Json.stringify(String(message))} ${Cause.pretty(cause)}`)
      })
      const frames = [reset("t1"), step("break"), step("interrupt"), step("add", { by: 1 }), step("submit")]
      const replies = yield* played(frames).pipe(
        Effect.provide(layer(lab())),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger))
      )
      const failed = "INTERNAL_ERROR"
      assert.deepEqual(codes(replies), ["observation", failed, failed, "observation", "observation"])
      assert.strictEqual(logged.length, 2)
      assert.match(logged.join(), /lab \/ 1.* Error: a bug/)
    })
  )

  it.scoped("draws the same from Random in each episode of a task, and something else in another's", () =>
    Effect.gen(function* () {
      const replies = yield* played(["t1", "t1", "t2"].flatMap((id) => [reset(id), step("draw")]))
      const [one, again, other] = [1, 3, 5].map((index) => at(replies[index], "data", "observation", "result"))
      assert.isNumber(one)
      assert.strictEqual(one, again)
      assert.notStrictEqual(one, other)
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("leases to one client at a time, and is free as soon as that one is gone", () =>
    Effect.gen(function* () {
      const { leased, url } = yield* EnvServer
      const health = Effect.map(http(`${url}/health`), ({ body }) => body)
      assert.deepEqual(yield* health, { status: "healthy", leased: false })
      for (const leave of ["close", "terminate", "breach"] as const) {
        const first = yield* connect(url)
        assert.deepEqual(yield* health, { status: "healthy", leased: true })
        const second = yield* connect(url)
        assert.deepEqual(at(yield* second.next, "data", "code"), "CAPACITY_REACHED")
        assert.strictEqual(yield* second.closed, 1000)
        assert.isTrue(yield* leased)
        assert.strictEqual((yield* first.ask({ type: "state" })).type, "state")
        if (leave === "close") first.socket.close()
        else if (leave === "terminate") first.socket.terminate()
        else first.socket.send(Buffer.from([0xff]), { binary: false })
        assert.strictEqual(yield* first.closed, { close: 1005, terminate: 1006, breach: 1007 }[leave])
        // A cut connection is news to the server only once the system has told it.
        if (leave === "terminate") yield* Effect.repeat(health, { until: (body) => at(body, "leased") === false })
        assert.deepEqual(yield* health, { status: "healthy", leased: false })
      }
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("gives back what an episode held, before the next client's begins", () =>
    Effect.gen(function* () {
      const events: Array<string> = []
      const hanging = yield* Deferred.make<void>()
      const closing = yield* Deferred.make<void>()
      const goOn = yield* Deferred.make<void>()
      const { leased, url } = yield* make(
        lab({
          begun: Effect.sync(() => events.push("begun")),
          hang: Deferred.succeed(hanging, undefined),
          gone: Deferred.succeed(closing, undefined).pipe(
            Effect.zipRight(Deferred.await(goOn)),
            Effect.zipRight(Effect.sync(() => events.push("gone")))
          )
        })
      )
      const first = yield* connect(url)
      yield* first.ask(reset("t1"))
      first.socket.send(Json.stringify(step("hang")))
      yield* Deferred.await(hanging)
      first.socket.terminate()
      yield* Deferred.await(closing)
      assert.isFalse(yield* leased)
      const second = yield* connect(url)
      second.socket.send(Json.stringify(reset("t2")))
      // By the time that this is answered, the reset has come in as well.
      assert.isTrue(at((yield* http(`${url}/health`)).body, "leased"))
      yield* Deferred.succeed(goOn, undefined)
      assert.strictEqual(at(yield* second.next, "data", "observation", "task_id"), "t2")
      assert.deepEqual(events, ["begun", "gone", "begun"])
    })
  )

  it.scoped("closes its sockets with 1001 and stops when its scope closes", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const gone = yield* Deferred.make<void>()
      const { url } = yield* Scope.extend(make(lab({ gone: Deferred.succeed(gone, undefined) })), scope)
      const client = yield* connect(url)
      yield* client.ask(reset("t1"))
      yield* Scope.close(scope, Exit.void)
      yield* Deferred.await(gone)
      assert.strictEqual(yield* client.closed, 1001)
      assert.strictEqual((yield* Effect.flip(connect(url))).status, 0)
    })
  )

  it.scoped("waits for what cannot be interrupted as long as its grace is, then ends and names it", () =>
    Effect.gen(function* () {
      const logged: Array<string> = []
      const logger = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ annotations, message }) => {
          logged.push(`${[...annotations].join()} ${String(message)}`)
        })
      )
      for (const [grace, gives, left] of [
        [undefined, {}, /lab \/ 1 The world did not end within 5s: the tool "hang" is left running\./],
        ["1 minute", {}, /within 1m: the tool "hang"/],
        [undefined, { gone: Effect.never }, /within 5s: the release of an episode's state is left/]
      ] as const) {
        const hanging = yield* Deferred.make<void>()
        const goOn = yield* Deferred.make<void>()
        const serving = yield* Deferred.make<string>()
        const isStuck = !("gone" in gives)
        const hang = Effect.uninterruptible(
          Effect.zipRight(Deferred.succeed(hanging, undefined), isStuck ? Deferred.await(goOn) : Effect.void)
        )
        // No sleeps but that of the grace.
        const options = { pingInterval: 0, ...(grace === undefined ? {} : { shutdownGrace: grace }) }
        // Ended by an interruption, as by a signal.
        const server = yield* make(lab({ hang, ...gives }), options).pipe(
          Effect.tap(({ url }) => Deferred.succeed(serving, url)),
          Effect.zipRight(Effect.never),
          Effect.scoped,
          Effect.provide(logger),
          Effect.fork
        )
        const client = yield* connect(yield* Deferred.await(serving))
        yield* client.ask(reset("t1"))
        client.socket.send(Json.stringify(step("hang")))
        yield* Deferred.await(hanging)
        yield* Fiber.interruptFork(server)
        assert.strictEqual(yield* client.closed, 1001)
        yield* Effect.repeat(TestClock.sleeps(), { until: (sleeps) => Chunk.size(sleeps) > 0 })
        yield* TestClock.adjust(grace === undefined ? "4999 millis" : "59999 millis")
        assert.isTrue(Option.isNone(yield* Fiber.poll(server)))
        assert.deepEqual(logged, [])
        yield* TestClock.adjust("1 millis")
        assert.isTrue(Exit.isInterrupted(yield* Fiber.await(server)))
        assert.strictEqual(logged.length, 1)
        assert.match(logged.pop() ?? "", left)
        yield* Deferred.succeed(goOn, undefined)
      }
    })
  )

  it.scoped("lets 16 frames wait while it answers one, and closes a client that sends more, or does not read", () =>
    Effect.gen(function* () {
      const hanging = yield* Deferred.make<void>()
      const calls = yield* Queue.unbounded<void>()
      const world = lab({ hang: Deferred.succeed(hanging, undefined) })
      const flood = World.tool({
        name: "flood",
        description: "Answers with more than the system takes from us.",
        parameters: World.noParameters,
        handle: () => Effect.as(Queue.offer(calls, undefined), "x".repeat(2 ** 25))
      })
      const { leased, url } = yield* make({ ...world, tools: [...world.tools, flood] })
      const free = Effect.repeat(http(`${url}/health`), { until: ({ body }) => at(body, "leased") === false })
      const sends = (client: Client, frame: Json.Json, times: number) =>
        Effect.sync(() => {
          for (let sent = 0; sent < times; sent++) client.socket.send(Json.stringify(frame))
        })

      const patient = yield* connect(url)
      yield* patient.ask(reset("t1", { max_seconds: 5 }))
      yield* sends(patient, step("hang"), 1)
      yield* Deferred.await(hanging)
      yield* sends(patient, { type: "state" }, 16)
      // What comes behind them is still seen.
      const ponged = yield* Effect.fork(Effect.promise(() => once(patient.socket, "pong")))
      patient.socket.ping()
      yield* Fiber.join(ponged)
      yield* TestClock.adjust("5 seconds")
      const answers = yield* Effect.replicateEffect(patient.next, 17)
      assert.deepEqual(codes(answers), ["observation", ...Array.from({ length: 16 }, () => "state")])

      yield* patient.ask(reset("t1"))
      yield* sends(patient, step("hang"), 1)
      yield* sends(patient, { type: "state" }, 17)
      assert.strictEqual(yield* patient.closed, 1008)
      assert.isFalse(yield* leased)

      const deaf = yield* connect(url)
      yield* deaf.ask(reset("t1"))
      deaf.socket.pause()
      yield* sends(deaf, step("flood"), 1)
      yield* Queue.take(calls)
      yield* sends(deaf, step("flood"), 17)
      yield* free
      assert.strictEqual(yield* Queue.size(calls), 0)
    })
  )

  it.scoped("is not kept from stopping by clients that do not answer its close, or leave a connection half open", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { url } = yield* Scope.extend(make(lab()), scope)
      const refused = yield* Effect.acquireRelease(
        Effect.sync(() => Net.connect({ port: Number(new URL(url).port), allowHalfOpen: true })),
        (socket) => Effect.sync(() => socket.destroy())
      )
      refused.write("GET /nowhere HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
      const [answer] = yield* Effect.promise(() => once(refused, "data"))
      assert.match(String(answer), /^HTTP\/1.1 404 /)
      const client = yield* connect(url)
      client.socket.pause()
      yield* Scope.close(scope, Exit.void)
      client.socket.resume()
      assert.strictEqual(yield* client.closed, 1001)
    })
  )

  it.scoped("pings its client, and is free again where one leaves a ping unanswered", () =>
    Effect.gen(function* () {
      const { leased, url } = yield* EnvServer
      const client = yield* connect(url)
      yield* client.ask({ type: "state" })
      for (let times = 0; times < 3; times++) {
        const pinged = yield* Effect.fork(Effect.promise(() => once(client.socket, "ping")))
        yield* TestClock.adjust("20 seconds")
        yield* Fiber.join(pinged)
        // By its answer the pong before it has been read.
        yield* client.ask({ type: "state" })
      }
      client.socket.pause()
      yield* TestClock.adjust("39 seconds")
      assert.isTrue(yield* leased)
      yield* TestClock.adjust("1 second")
      client.socket.resume()
      assert.strictEqual(yield* client.closed, 1011)
      assert.isFalse(yield* leased)
      yield* Effect.flatMap(connect(url), ({ ask }) => ask({ type: "state" }))
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped.each([0, Infinity])("sends no pings where their interval is %d", (pingInterval) =>
    Effect.gen(function* () {
      const { url } = yield* make(lab(), { pingInterval })
      const client = yield* connect(url)
      yield* client.ask({ type: "state" })
      let pings = 0
      client.socket.on("ping", () => pings++)
      yield* TestClock.adjust("1 day")
      yield* client.ask({ type: "state" })
      assert.strictEqual(pings, 0)
    })
  )

  it.scoped("lists its tasks and tools", () =>
    Effect.gen(function* () {
      const { url } = yield* EnvServer
      const post = (path: string, body: Json.Json | string) =>
        http(`${url}${path}`, { method: "POST", body: typeof body === "string" ? body : Json.stringify(body) })
      assert.deepEqual((yield* http(`${url}/list_environments`)).body, ["lab / 1"])
      const train = yield* post("/lab%20%2F%201/tasks", { split: "train" })
      assert.deepEqual(train, yield* post("/lab%20%2f%201/tasks", {}))
      assert.deepEqual(train, {
        status: 200,
        body: {
          tasks: [
            {
              id: "t1",
              task_hash: "7e221ed0d4b61289bb5452779f00b3f142de6a0bea3ab49f0de544b95ed63d9f",
              instruction: "Add.",
              persona: { description: null },
              coworkers: { ada: "knows" }
            },
            { id: "t2", task_hash: "given", instruction: "Add.", max_steps: 2 }
          ]
        }
      })
      const test = yield* post("/lab%20%2F%201/tasks", { split: "test" })
      assert.deepEqual(at(test.body, "tasks"), [
        // Of {"id":"t3","instruction":"Add.","setup":{"a":[18446744073709551616],"b":1}}
        { id: "t3", task_hash: "71348d5d60900cbf2a656307f61e35610d7771cee7fb53d122dd79ab2cc1e953", instruction: "Add." }
      ])
      for (const [path, body, status] of [
        ["/lab%20%2F%201/tasks", { split: "toString" }, 404],
        ["/lab%20%2F%201/tasks", { split: 1 }, 422],
        ["/lab%20%2F%201/tasks", "{", 422],
        ["/lab%20%2F%201/tasks", "x".repeat(2_000_000), 413],
        ["/other/tasks", {}, 404],
        ["/%ff/tasks", {}, 404],
        ["/health", {}, 404]
      ] as const) {
        assert.strictEqual((yield* post(path, body)).status, status, `${path} ${Json.stringify(body).slice(0, 40)}`)
      }

      const list = { jsonrpc: "2.0", id: 1, method: "tools/list" }
      const names = (body: Json.Json) => {
        const tools = at(body, "result", "tools")
        return Array.isArray(tools) ? tools.map((tool: Json.Json) => at(tool, "name")) : []
      }
      const { body: all } = yield* post("/mcp", list)
      assert.deepEqual([at(all, "jsonrpc"), at(all, "id")], ["2.0", 1])
      assert.deepEqual(names(all), ["add", "refuse", "break", "interrupt", "draw", "hang", "ask", "submit"])
      assert.deepEqual(names((yield* post("/mcp?surface=api", list)).body), ["add", "draw", "hang", "ask", "submit"])
      const tools = at(all, "result", "tools")
      assert.deepEqual(Array.isArray(tools) ? tools[0] : undefined, {
        name: "add",
        description: "Adds.",
        inputSchema: {
          type: "object",
          required: ["by"],
          properties: { by: { type: "integer" } },
          additionalProperties: false
        }
      })
      for (const [path, body, code] of [
        ["/mcp", "{", -32700],
        ["/mcp", [], -32600],
        ["/mcp", { ...list, method: "tools/call" }, -32601],
        ["/mcp?surface=sea", list, -32602]
      ] as const) {
        assert.strictEqual(at((yield* post(path, body)).body, "error", "code"), code)
      }
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("asks for its token, and is found under its prefix only", () =>
    Effect.gen(function* () {
      const { url } = yield* EnvServer
      assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/envs\/lab$/)
      const status = (path: string, token?: string) =>
        Effect.map(http(`${url}${path}`, token === undefined ? {} : { token }), ({ status }) => status)
      assert.strictEqual(yield* status("/health"), 200)
      assert.strictEqual(yield* status("/list_environments"), 401)
      assert.strictEqual(yield* status("/list_environments", "wrong"), 401)
      assert.strictEqual(yield* status("/list_environments", "s3cret"), 200)
      assert.strictEqual(yield* status("/../../health", "s3cret"), 404)
      const handshake = (at: string, authorization?: string) =>
        Effect.scoped(connect(at, authorization === undefined ? {} : { authorization })).pipe(
          Effect.as(101),
          Effect.catchTag("Refused", ({ status }) => Effect.succeed(status))
        )
      assert.strictEqual(yield* handshake(url), 401)
      assert.strictEqual(yield* handshake(url, "Bearer wrong"), 401)
      assert.strictEqual(yield* handshake(url.replace("/envs/lab", ""), "Bearer s3cret"), 404)
      assert.strictEqual(yield* handshake(url, "bearer s3cret"), 101)
    }).pipe(
      Effect.provide(layerConfig(lab())),
      Effect.withConfigProvider(
        ConfigProvider.fromMap(
          new Map([
            ["MIROIR_ENV_PREFIX", "envs/lab/"],
            ["MIROIR_TOKEN", "s3cret"]
          ])
        )
      )
    )
  )

  it.scoped.each([
    ["/", ""],
    ["büro/a b", "/b%C3%BCro/a%20b"],
    ["/a%20b?c#d/", "/a%20b%3Fc%23d"],
    ["/a/../b/./", "/b"]
  ] as const)("is found under the prefix %s as clients write it", ([prefix, path]) =>
    Effect.gen(function* () {
      const { url } = yield* make(lab(), { prefix })
      assert.match(url, /^http:\/\/127\.0\.0\.1:\d+/)
      assert.strictEqual(new URL(url).href.replace(/\/$/, ""), url)
      assert.strictEqual(url.replace(/^.*:\d+/, ""), path)
      assert.strictEqual((yield* http(`${url}/health`)).status, 200)
      assert.deepEqual(codes([yield* (yield* connect(url)).ask({ type: "state" })]), ["state"])
    })
  )

  it.scoped("is found by a request that names it whole", () =>
    Effect.gen(function* () {
      const { port } = new URL((yield* EnvServer).url)
      const socket = yield* Effect.acquireRelease(
        Effect.sync(() => Net.connect(Number(port), "127.0.0.1")),
        (socket) => Effect.sync(() => socket.destroy())
      )
      socket.write("GET http://env.example/health?x HTTP/1.1\r\nHost: env.example\r\n\r\n")
      const [answer] = yield* Effect.promise(() => once(socket, "data"))
      assert.match(String(answer), /^HTTP\/1\.1 200 /)
    }).pipe(Effect.provide(layer(lab())))
  )

  it.scoped("says what it cannot serve, and where it cannot listen", () =>
    Effect.gen(function* () {
      const task = { id: "t", instruction: "" }
      const tool = <A, I>(name: string, parameters: Schema.Schema<A, I>) =>
        World.tool({ name, description: "", parameters, handle: (_, _state: Lab) => Effect.succeed(null) })
      const world = lab()
      for (const [broken, reason] of [
        [{ ...world, name: "" }, /no name/],
        [{ ...world, name: ".." }, /no path/],
        [{ ...world, tasks: { train: [{ ...task, id: "" }] } }, /split train has no id/],
        [{ ...world, tools: [tool("", World.noParameters)] }, /tools has no name/],
        [{ ...world, tasks: { train: [task], test: [task] } }, /id t$/],
        [{ ...world, tasks: { train: [{ ...task, max_steps: 0 }] } }, /max_steps/],
        [{ ...world, tools: [tool("submit", World.noParameters)] }, /submit/],
        [{ ...world, tools: [tool("a", World.noParameters), tool("a", World.noParameters)] }, /name a$/]
      ] as const) {
        const error = yield* Effect.flip(make(broken))
        assert.strictEqual(error._tag, "InvalidWorld")
        assert.match(error._tag === "InvalidWorld" ? error.reason : "", reason)
      }
      const unlisted = tool("a", Schema.Struct({ n: Schema.BigIntFromSelf }))
      assert.match((yield* Effect.flip(make({ ...world, tools: [unlisted] }))).message, /the tool a: .*JSON Schema/)
      const { url } = yield* make(world, { token: Redacted.make("t") })
      const taken = yield* Effect.flip(make(world, { port: Number(new URL(url).port) }))
      assert.strictEqual(taken._tag, "ListenFailed")
      assert.match(taken.message, /EADDRINUSE/)
    })
  )
})
