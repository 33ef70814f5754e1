/** A pipeline on stubs alone: no network, no time, and no files but those that a run keeps its place by. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Coworker from "@miroir-effect/core/Coworker"
import { EpisodeRecord } from "@miroir-effect/core/EpisodeRecord"
import * as Leasing from "@miroir-effect/core/Leasing"
import { ConnectionLost, CoworkerFailed, EnvError, InvalidUrls, PolicyFailed } from "@miroir-effect/core/MiroirError"
import * as Policy from "@miroir-effect/core/Policy"
import * as Protocol from "@miroir-effect/core/Protocol"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Session from "@miroir-effect/core/Session"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Tally from "@miroir-effect/core/Tally"
import * as Traces from "@miroir-effect/core/Traces"
import * as Transport from "@miroir-effect/core/Transport"
import * as StubCalibration from "@miroir-effect/testing/StubCalibration"
import * as StubCatalog from "@miroir-effect/testing/StubCatalog"
import * as StubCoworker from "@miroir-effect/testing/StubCoworker"
import * as StubLeasing from "@miroir-effect/testing/StubLeasing"
import * as StubPolicy from "@miroir-effect/testing/StubPolicy"
import * as StubRollout from "@miroir-effect/testing/StubRollout"
import * as StubSession from "@miroir-effect/testing/StubSession"
import * as StubSessionExchange from "@miroir-effect/testing/StubSessionExchange"
import * as StubTraces from "@miroir-effect/testing/StubTraces"
import * as StubTransport from "@miroir-effect/testing/StubTransport"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"

const url = "http://stub.invalid"
const task = { id: "t1", task_hash: "h1", instruction: "go", coworkers: ["ana"] }
const graded = { task_id: "t1", reward: 1, metadata: { task_hash: "h1", success: true } }
const base = { href: url, userinfo: Option.none() }
const plan = { tasks: [task], urls: [url], traces: "f" }
const turn = { coworker: "ana", messages: [{ role: "user", content: "Is it signed?" }] }

/** The defect that an effect dies of. */
const death = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<string, never, R> =>
  Effect.map(Effect.exit(effect), (exit) =>
    Exit.isFailure(exit) ? Option.match(Cause.dieOption(exit.cause), { onNone: () => "", onSome: String }) : ""
  )

it.scoped("rolls out, saves and tallies on stubs alone", () =>
  Effect.gen(function* () {
    const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
    const pool = yield* StubLeasing.make([
      {
        reset: ({ taskId }) => ({ task: taskId }),
        step: ({ args, toolName }) => ({ observation: { toolName, args }, done: toolName === "submit" }),
        coworkers: () => [turn],
        coworkerReply: () => 200,
        record: () => graded
      }
    ])
    const services = Layer.mergeAll(
      pool.layer,
      StubCatalog.of({ tools: { api: [{ name: "sign" }] } }),
      StubTraces.memory,
      StubCoworker.canned(({ length }) => `Yes, ${length}.`),
      Policy.scripted("m", ({ messages }) => [
        { tool: messages.length < 2 ? "sign" : "submit", args: { n: 2n ** 60n } }
      ])
    )
    yield* Effect.gen(function* () {
      const { run } = yield* Rollout.Rollout
      const events = yield* Stream.runCollect(run({ tasks: [task], urls: pool.urls, rollouts: 2, traces: folder }))
      assert.deepStrictEqual(
        Chunk.toReadonlyArray(events).map(({ _tag }) => _tag),
        [
          "Began",
          "Leased",
          ...Array(2).fill(["Started", "Spoke", "Stepped", "Spoke", "Stepped", "Saved"]).flat(),
          "Released"
        ]
      )
      const traces = yield* Traces.Traces
      const tally = yield* traces.tally(folder)
      assert.deepStrictEqual(
        Array.from(tally.tasks, ([id, { graded, successes, taskHashes }]) => ({ id, graded, successes, taskHashes })),
        [{ id: "t1", graded: 2, successes: 2, taskHashes: ["h1"] }]
      )
    }).pipe(Effect.provide(Layer.provideMerge(Rollout.layerWithCoworker, services)))

    yield* pool.awaitNoneHeld
    const [stub] = yield* pool.sessions
    const calls = stub === undefined ? [] : yield* stub.calls
    assert.deepStrictEqual(
      calls.slice(0, 8).map(({ type }) => type),
      ["reset", "step", "coworkers", "coworker_reply", "step", "coworkers", "coworker_reply", "record"]
    )
    assert.deepStrictEqual(calls[3]?.data, { coworker: "ana", text: "Yes, 1." })
    assert.include(
      JSON.stringify(calls[1]?.data, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
      `${2n ** 60n}`
    )
  }).pipe(Effect.provide(NodeContext.layer))
)

describe("what a test did not give dies with its name", () => {
  const session = StubSession.of({ url: "http://given.invalid" })
  const calibrating = <A, E>(use: (calibration: Context.Tag.Service<Calibration.Calibration>) => Effect.Effect<A, E>) =>
    Effect.flatMap(Calibration.Calibration, use)
  const called = (
    effect: Effect.Effect<
      unknown,
      unknown,
      | Calibration.Calibration
      | Catalog.Catalog
      | Coworker.Coworker
      | Leasing.Leasing
      | Policy.Policy
      | Rollout.Rollout
      | Session.Session
      | SessionExchange.SessionExchange
      | Traces.Traces
      | Transport.Transport
      | Scope.Scope
    >
  ) => effect
  const cases: ReadonlyArray<readonly [string, ReturnType<typeof called>]> = [
    ["Session.episodeId", session.episodeId],
    ["Session.reset", session.reset("t")],
    ["Session.step", session.step("t")],
    ["Session.coworkers", session.coworkers],
    ["Session.coworkerReply", session.coworkerReply("c", "t")],
    ["Session.state", Effect.flatMap(Session.Session, ({ state }) => state)],
    ["Session.finish", session.finish],
    ["Session.broken", session.broken],
    ["Transport.open", Effect.flatMap(Transport.Transport, ({ open }) => open(base, Option.none()))],
    ["SessionExchange.open", Effect.flatMap(SessionExchange.SessionExchange, ({ open }) => open(base, Option.none()))],
    ["Leasing.stats", Effect.flatMap(Leasing.Leasing, ({ stats }) => stats)],
    ["Calibration.calibrate", calibrating(({ calibrate }) => calibrate({ traces: "f", model: "m" }))],
    [
      "Calibration.write",
      calibrating(({ write }) => write("f", { model: "m", k: 1, tasks: new Map(), tellsSuccess: true }))
    ],
    ["Calibration.read", calibrating(({ read }) => read("f"))],
    ["Calibration.select", calibrating(({ select }) => select([task], "f"))],
    ["Rollout.run", Effect.flatMap(Rollout.Rollout, ({ run }) => Stream.runDrain(run(plan)))],
    ["Rollout.preview", Effect.flatMap(Rollout.Rollout, ({ preview }) => preview(plan))],
    ["Leasing.lease", Effect.flatMap(Leasing.Leasing, ({ lease }) => lease({ urls: [], waitBusy: true }))],
    ["Coworker.complete", Effect.flatMap(Coworker.Coworker, ({ complete }) => complete([]))],
    ["Coworker.answerCoworkers", Effect.flatMap(Coworker.Coworker, ({ answerCoworkers }) => answerCoworkers(session))],
    ["Catalog.answering", Effect.flatMap(Catalog.Catalog, ({ answering }) => answering([]))],
    ["Catalog.dialect", Effect.flatMap(Catalog.Catalog, ({ dialect }) => dialect(url))],
    ["Catalog.tasks", Effect.flatMap(Catalog.Catalog, ({ tasks }) => tasks(url))],
    ["Catalog.tools", Effect.flatMap(Catalog.Catalog, ({ tools }) => tools(url))],
    ["Catalog.health", Effect.flatMap(Catalog.Catalog, ({ health }) => health(url))],
    [
      "Traces.save",
      Effect.gen(function* () {
        const record = yield* EpisodeRecord.fromValue(graded)
        yield* (yield* Traces.Traces).save("f", record)
      })
    ],
    ["Traces.read", Effect.flatMap(Traces.Traces, ({ read }) => Stream.runDrain(read("f")))],
    ["Traces.tally", Effect.flatMap(Traces.Traces, ({ tally }) => tally("f"))],
    [
      "Policy.next",
      Effect.flatMap(Policy.Policy, ({ next }) => next({ task, rollout: 0, attempt: 1, messages: [], tools: [] }))
    ]
  ]
  it.scoped.each(cases)("%s", ([name, effect]) =>
    Effect.gen(function* () {
      const dying = Layer.mergeAll(
        StubTransport.layer(),
        StubSessionExchange.layer(),
        StubSession.layer(),
        StubLeasing.layer(),
        StubCoworker.layer(),
        StubCatalog.layer(),
        StubTraces.layer(),
        StubPolicy.layer(),
        StubRollout.layer(),
        StubCalibration.layer()
      )
      assert.include(yield* death(Effect.provide(effect, dying)), `${name} was called, but`)
    })
  )
})

describe("sessions", () => {
  it.scoped("a scripted env is as strict as a real one", () =>
    Effect.gen(function* () {
      const refused = new EnvError({ url, code: "UNKNOWN_TASK", reason: "no t0" })
      const { calls, session } = yield* StubSession.make({
        reset: [refused, "first"],
        step: [{ reward: 0.5 }, Effect.succeed({ observation: { error: { message: "crashed" } } })],
        coworkerReply: [null],
        record: [graded]
      })
      assert.strictEqual((yield* Effect.flip(session.step("look"))).code, "NO_EPISODE")
      assert.strictEqual(yield* Effect.flip(session.reset("t0")), refused)
      assert.strictEqual(yield* session.reset("t1", { maxSeconds: 5, coworkers: true }), "first")
      assert.strictEqual((yield* Effect.flip(session.step("look", "[]"))).code, "INVALID_ARGUMENTS")
      assert.deepStrictEqual(yield* session.step("look"), { observation: null, reward: 0.5, done: false })
      assert.match((yield* Effect.flip(session.finish)).message, /did not end: crashed/)
      assert.deepStrictEqual(yield* session.coworkerReply("ana", "hi"), Option.some(null))
      const episodeId = Option.getOrNull(yield* session.episodeId)
      assert.deepStrictEqual(yield* session.state, { episode_id: episodeId, step_count: 2, done: false })
      assert.match(yield* death(session.step("look")), /Session\.step was called more often than the 2 times/)
      assert.match(yield* death(session.coworkers), /Session\.coworkers was called, but/)
      assert.deepStrictEqual(
        (yield* calls).map(({ type }) => type),
        ["reset", "reset", "step", "state", "step", "coworker_reply", "state", "step", "coworkers"]
      )
      assert.deepStrictEqual((yield* calls)[1]?.data, {
        task_id: "t1",
        episode_id: episodeId,
        max_seconds: 5,
        coworkers: true
      })
    })
  )

  it.scoped(
    "it is lost where a real one is: by its env, by an interruption, with its scope; an unreadable reply breaks it",
    () =>
      Effect.gen(function* () {
        const lost = new ConnectionLost({ url, reason: "cut", closeCode: 1006 })
        const byEnv = yield* StubSession.make({ reset: [lost, "more"] })
        assert.strictEqual(yield* Effect.flip(byEnv.session.reset("t1")), lost)
        assert.strictEqual(yield* Effect.flip(byEnv.session.reset("t1")), lost)
        assert.deepStrictEqual(yield* byEnv.session.broken, Option.some(lost))
        assert.strictEqual((yield* byEnv.calls).length, 1)

        const sent = yield* Deferred.make<void>()
        const late = yield* StubSession.make({
          reset: () => Effect.zipRight(Deferred.succeed(sent, undefined), Effect.never)
        })
        const asking = yield* Effect.fork(late.session.reset("t1"))
        yield* Deferred.await(sent)
        const queued = yield* Effect.fork(late.session.coworkers)
        yield* Effect.yieldNow()
        assert.deepStrictEqual(yield* late.session.broken, Option.none())
        yield* Fiber.interrupt(asking)
        assert.strictEqual((yield* Effect.flip(Fiber.join(queued))).code, "CONNECTION_LOST")
        assert.strictEqual((yield* late.calls).length, 1)

        const odd = yield* StubSession.make({ reset: [1], step: [{ done: true }], record: [{ reward: "much" }] })
        yield* odd.session.reset("t1")
        yield* odd.session.step("submit")
        assert.strictEqual((yield* Effect.flip(odd.session.finish)).code, "UNEXPECTED_REPLY")
        assert.strictEqual((yield* Effect.flip(odd.session.state)).code, "UNEXPECTED_REPLY")

        const scope = yield* Scope.make()
        const ended = yield* Scope.extend(StubSession.make({}), scope)
        yield* ended.session.state
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* Effect.flip(ended.session.state)).code, "CONNECTION_LOST")
      })
  )
})

describe("leasing", () => {
  it.scoped("a container is one lease's at a time; waiters are served in order, or fail in time", () =>
    Effect.gen(function* () {
      const pool = yield* StubLeasing.make([{ reset: [1] }, { url: "http://second.invalid/", reset: [2] }])
      yield* Effect.gen(function* () {
        const { lease, stats } = yield* Leasing.Leasing
        const elsewhere = "http://elsewhere.invalid"
        const first = yield* Scope.make()
        const session = yield* Scope.extend(lease({ urls: [elsewhere, ...pool.urls], waitBusy: false }), first)
        const second = yield* Scope.make()
        yield* Scope.extend(lease({ urlFile: "urls.txt", waitBusy: false }), second)
        assert.deepStrictEqual(yield* pool.held, ["http://stub-0.invalid", "http://second.invalid"])
        assert.strictEqual(yield* session.reset("t1"), 1)

        const full = yield* Effect.flip(lease({ urls: [...pool.urls, elsewhere], waitBusy: false }))
        assert.deepInclude({ ...full }, { total: 3, leased: 2, unhealthy: 1, unhealthyUrls: [elsewhere] })
        assert.strictEqual((yield* Effect.flip(lease({ urls: [elsewhere], waitBusy: true }))).code, "NO_FREE_CONTAINER")
        assert.strictEqual((yield* Effect.flip(lease({ urls: [], waitBusy: true }))).code, "INVALID_URLS")
        assert.strictEqual((yield* Effect.flip(lease({ urls: ["http:x"], waitBusy: true }))).code, "INVALID_URLS")

        const order: Array<string> = []
        const waiter = (name: string, timeout: "1 second" | "1 hour") =>
          lease({ urls: pool.urls, waitBusy: true, timeout }).pipe(
            Effect.andThen(({ reset }) => reset("t1")),
            Effect.tap(() => Effect.sync(() => order.push(name))),
            Effect.andThen(Effect.yieldNow()),
            Effect.scoped,
            Effect.fork
          )
        const given = yield* waiter("interrupted", "1 hour")
        const hasty = yield* waiter("hasty", "1 second")
        const one = yield* waiter("one", "1 hour")
        const two = yield* waiter("two", "1 hour")
        const still = { opening: 0, probing: 0, probes: 0 }
        yield* TestClock.adjust("500 millis")
        assert.deepStrictEqual(yield* stats, {
          ...still,
          held: 2,
          waiting: 4,
          handOvers: 0,
          oldestWait: Option.some(Duration.millis(500))
        })
        yield* TestClock.adjust("1500 millis")
        yield* Fiber.interrupt(given)
        assert.deepInclude(yield* stats, { held: 2, waiting: 2, oldestWait: Option.some(Duration.seconds(2)) })
        assert.strictEqual((yield* Effect.flip(Fiber.join(hasty))).code, "NO_FREE_CONTAINER")
        yield* Scope.close(first, Exit.void)
        yield* Fiber.join(two)
        yield* Fiber.join(one)
        assert.deepStrictEqual(order, ["one", "two"])
        assert.deepStrictEqual(yield* pool.held, ["http://second.invalid"])
        const after = { ...still, held: 1, waiting: 0, handOvers: 2, oldestWait: Option.none() }
        assert.deepStrictEqual(yield* stats, after)
        assert.strictEqual((yield* Effect.flip(session.reset("t1"))).code, "CONNECTION_LOST")
        yield* Scope.close(second, Exit.void)
        yield* pool.awaitNoneHeld
        assert.strictEqual((yield* pool.sessions).length, 4)
      }).pipe(Effect.provide(pool.layer))
    })
  )
})

it.effect("canned texts, catalogs and traces fail as the real ones", () =>
  Effect.gen(function* () {
    const { complete } = yield* Coworker.Coworker
    assert.strictEqual(yield* complete([]), "one")
    assert.strictEqual((yield* Effect.flip(complete([]))).reason, "empty")
    assert.match(yield* death(complete([])), /more often than the 2 times/)

    const { answering, health, tasks, tools } = yield* Catalog.Catalog
    assert.strictEqual(yield* answering(["http://a", "http://b"]), "http://a")
    assert.strictEqual((yield* Effect.flip(answering([]))).code, "INVALID_URLS")
    assert.deepStrictEqual(yield* tasks(url), [task])
    for (const split of ["test", "constructor"]) {
      assert.strictEqual((yield* Effect.flip(tasks(url, split))).code, "HTTP_404")
    }
    assert.deepStrictEqual([yield* tools(url), yield* tools(url, "code")], [[{ name: "all" }], []])
    assert.strictEqual((yield* Effect.flip(tools(url, "mcp"))).code, "TOOLS")
    assert.strictEqual((yield* health(url)).health, "leased")

    const traces = yield* Traces.Traces
    const bad = yield* EpisodeRecord.fromValue({ reward: null, metadata: {} })
    const file = yield* traces.save("a/", yield* EpisodeRecord.fromValue(graded))
    yield* traces.save("a", bad)
    const read = yield* Stream.runCollect(traces.read([file]))
    assert.deepStrictEqual(Chunk.toReadonlyArray(Chunk.map(read, ({ value }) => value)), [graded, bad.value])
    const malformed = yield* Effect.flip(traces.tally("a"))
    assert.deepInclude({ ...malformed }, { file, line: 2 })
    assert.strictEqual((yield* Effect.flip(Stream.runDrain(traces.read("b")))).code, "TRACES")

    const { model, next } = yield* Policy.Policy
    const moment = { task, rollout: 0, attempt: 1, messages: [], tools: [] }
    assert.deepStrictEqual([model, yield* next(moment)], ["m", { message: { role: "assistant", content: "hm" } }])
    assert.strictEqual((yield* Effect.flip(next(moment)))._tag, "PolicyFailed")
  }).pipe(
    Effect.provide([
      StubCoworker.canned(["one", new CoworkerFailed({ url, model: "m", reason: "empty", detail: "it said nothing" })]),
      StubCatalog.of({ tasks: { train: [task] }, tools: { "": [{ name: "all" }], code: [] }, health: "leased" }),
      StubTraces.memory,
      StubPolicy.canned([{ role: "assistant", content: "hm" }, new PolicyFailed({ model: "m", reason: "down" })], "m")
    ])
  )
)

describe("exchanges", () => {
  const state = { request: Protocol.state, decode: ({ data }: Protocol.Reply) => Protocol.decodeState(data) }

  it.scoped.each([
    [
      "frames",
      SessionExchange.layer.pipe(
        Layer.provide(
          StubTransport.canned(({ text, url }) =>
            text === Protocol.state.text
              ? `{"type":"state","data":{"at":"${url}"}}`
              : new ConnectionLost({ url, reason: "cut" })
          )
        )
      )
    ],
    [
      "data",
      StubSessionExchange.canned(({ type, url }) =>
        type === "state" ? { at: url } : new ConnectionLost({ url, reason: "cut" })
      )
    ]
  ] as const)("are answered with canned %s, and lost where those say so, or with the scope", ([, layer]) =>
    Effect.gen(function* () {
      const { open } = yield* SessionExchange.SessionExchange
      const exchange = yield* open(base, Option.none())
      assert.deepStrictEqual(yield* exchange.ask(state), { at: url })
      const lost = yield* Effect.flip(exchange.ask({ ...state, request: Protocol.coworkers }))
      assert.deepInclude({ ...lost }, { _tag: "ConnectionLost", reason: "cut" })
      assert.deepStrictEqual(yield* Effect.flip(exchange.ask(state)), lost)
      const closed = yield* Effect.scoped(open(base, Option.none()))
      assert.strictEqual((yield* Effect.flip(closed.ask(state))).code, "CONNECTION_LOST")
    }).pipe(Effect.provide(layer))
  )

  it.scoped("say what a test gave no answer for", () =>
    Effect.gen(function* () {
      const asked = Effect.flatMap(SessionExchange.SessionExchange, ({ open }) =>
        Effect.flatMap(open(base, Option.none()), ({ ask }) => Effect.zipRight(ask(state), ask(state)))
      )
      const onData = Effect.provide(asked, StubSessionExchange.canned([{}]))
      assert.match(yield* death(onData), /SessionExchange\.ask was called more often than the 1 times/)
      const onFrames = Effect.provide(
        asked,
        Layer.provide(SessionExchange.layer, StubTransport.canned(['{"type":"state","data":{}}']))
      )
      assert.match((yield* Effect.flip(onFrames)).message, /Connection\.send was called more often than the 1 times/)
    })
  )
})

it.effect("canned rollouts are a stream of their events, up to one that fails", () =>
  Effect.gen(function* () {
    const { run } = yield* Rollout.Rollout
    const seen: Array<string> = []
    const ended = Stream.runForEach(run(plan), (event) => Effect.sync(() => seen.push(event._tag)))
    assert.strictEqual((yield* Effect.flip(ended)).code, "INVALID_URLS")
    assert.deepStrictEqual(seen, ["Leased", "Released"])
  }).pipe(
    Effect.provide(
      StubRollout.canned(({ urls = [] }) => [
        ...urls.map((url) => ({ _tag: "Leased", url }) as const),
        Effect.succeed({ _tag: "Released", url }),
        new InvalidUrls({}),
        { _tag: "Leased", url }
      ])
    )
  )
)

it.effect("calibrations in memory are real ones, of the traces that there are", () =>
  Effect.gen(function* () {
    const { calibrate, read, select, write } = yield* Calibration.Calibration
    const result = yield* calibrate({ traces: "traces", model: "m" })
    assert.deepInclude(result.tasks.get("t1"), { class: "learnable", "pass@1": 0.5 })
    yield* write("c.json", result)
    assert.deepStrictEqual(yield* read("c.json"), result)
    assert.deepStrictEqual(yield* select([task], "c.json"), [task])
    assert.strictEqual((yield* Effect.flip(select([task], result, ["solved"])))._tag, "NoTaskKept")
    assert.strictEqual((yield* Effect.flip(select([task], "d.json")))._tag, "CalibrationFileError")
    assert.strictEqual((yield* Effect.flip(select([task], "d.json", [])))._tag, "UnknownClass")
    assert.strictEqual((yield* Effect.flip(calibrate({ traces: "traces", model: "m", k: 0 })))._tag, "InvalidK")
  }).pipe(
    Effect.provide(
      Layer.provide(
        StubCalibration.memory,
        StubTraces.layer({
          tally: () =>
            Effect.succeed(
              Tally.fromOutcomes(
                [1, 0].map((reward) => ({ taskId: "t1", taskHash: "h1", reward, success: reward === 1, harm: false }))
              )
            )
        })
      )
    )
  )
)
