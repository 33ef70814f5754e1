/** Runs on a TestClock: how long an attempt may take, and how a model that is away is waited for. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Traces from "@miroir-effect/core/Traces"
import * as StubCatalog from "@miroir-effect/testing/StubCatalog"
import * as StubLeasing from "@miroir-effect/testing/StubLeasing"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as ModelGate from "../src/internal/modelGate.js"
import { temporaryFolder } from "./support/files.js"
import { collected, failures, type Next, only, type Plan, runningOn } from "./support/rollouts.js"

const stub = {
  reset: () => null,
  step: () => ({ done: true }),
  record: () => ({ task_id: "t1", reward: 1, metadata: { task_hash: "h1" } })
}

describe("an attempt is given up", () => {
  const bounds: ReadonlyArray<readonly [plan: Plan, seconds: number]> = [
    [{}, 3600],
    [{ maxSeconds: 10 }, 70]
  ]
  it.scoped.each(bounds)("%o: after a while", ([plan, seconds]) =>
    Effect.gen(function* () {
      const pool = yield* StubLeasing.make([stub])
      const called = [yield* Deferred.make<void>(), yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const next: Next = ({ attempt }) =>
        Effect.zipRight(Deferred.succeed(called[attempt - 1] ?? assert.fail("too many"), undefined), Effect.never)
      const traces = yield* temporaryFolder
      const services = Layer.mergeAll(
        pool.layer,
        StubCatalog.of({ tools: { api: [] } }),
        Traces.layer,
        Layer.succeed(Policy.Policy, { model: "m", settings: {}, next })
      )
      const run = yield* collected(runningOn({ urls: pool.urls }, { traces, ...plan })).pipe(
        Effect.provide(Layer.provide(Rollout.layer, services)),
        Effect.fork
      )
      for (const begun of called) {
        yield* Deferred.await(begun)
        yield* TestClock.adjust(Duration.seconds(seconds - 1))
        assert.isTrue((yield* Fiber.poll(run))._tag === "None")
        yield* TestClock.adjust(Duration.seconds(1))
      }
      const events = yield* Fiber.join(run)
      const ends = only(events, "Broke", "Failed").map(({ error }) => error)
      assert.deepStrictEqual(
        ends.map((error) => error._tag === "EpisodeTimeout" && error.seconds),
        [seconds, seconds, seconds]
      )
      assert.deepInclude((yield* failures(traces))[0], { code: "EPISODE_TIMEOUT", attempts: 3 })
      assert.deepStrictEqual(yield* pool.held, [])
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

it.scoped("what is measured does not follow a time of day that is set back", () =>
  Effect.gen(function* () {
    const clock = yield* Effect.clock
    let now = Date.UTC(2026, 10, 30)
    const hourBack = (): number => (now -= 3_600_000)
    const setBack: Clock.Clock = Object.create(clock, {
      unsafeCurrentTimeMillis: { value: hourBack },
      currentTimeMillis: { value: Effect.sync(hourBack) }
    })
    const pool = yield* StubLeasing.make([stub])
    const services = Layer.mergeAll(
      pool.layer,
      StubCatalog.of({ tools: { api: [{ name: "look" }] } }),
      Traces.layer,
      Policy.scripted("m", () => [{ tool: "look", args: {} }])
    )
    const traces = yield* temporaryFolder
    const events = yield* collected(runningOn({ urls: pool.urls }, { traces })).pipe(
      Effect.provide(Layer.provide(Rollout.layer, services)),
      Effect.withClock(setBack)
    )
    assert.deepStrictEqual(
      only(events, "Spoke", "Stepped").map(({ seconds }) => seconds),
      [0, 0]
    )
    assert.deepInclude(only(events, "Saved")[0]?.finished.record.value.rollout, { seconds: 0, steps: [0] })

    const gate = yield* ModelGate.make({ pause: "1 second", longestPause: "4 seconds", patience: "12 seconds" })
    yield* gate.answered
    yield* Effect.withClock(gate.silent, setBack)
    const next = yield* Effect.fork(Effect.withClock(gate.through(Effect.void), setBack))
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(next)
  }).pipe(Effect.provide(NodeContext.layer))
)

describe("while a model is away", () => {
  const gate = ModelGate.make({ pause: "1 second", longestPause: "4 seconds", patience: "12 seconds" })

  it.effect("one episode at a time begins, after pauses that grow; all do once it answers, or is not waited for", () =>
    Effect.gen(function* () {
      const { answered, silent, through } = yield* gate
      /** Which of those that wait begins is nobody's concern: when each began, and how to end it. */
      const began: Array<number> = []
      const ends: Array<(how: Effect.Effect<void>) => Effect.Effect<void>> = []
      const episode = Effect.gen(function* () {
        began.push((yield* Clock.currentTimeMillis) / 1000)
        const over = yield* Deferred.make<void>()
        ends.push((how) => Effect.zipRight(how, Deferred.succeed(over, undefined)))
        yield* Deferred.await(over)
      })
      const begin = (count: number) => Effect.replicateEffect(Effect.fork(through(episode)), count)
      const end = (how: Effect.Effect<void>) => ends.shift()?.(how) ?? assert.fail("none has begun")
      const after = (wait: Duration.DurationInput, ...seconds: ReadonlyArray<number>) =>
        Effect.map(TestClock.adjust(wait), () => assert.deepStrictEqual(began.splice(0), seconds))

      // What was never there is not waited for.
      yield* silent
      yield* begin(2)
      yield* after(0, 0, 0)
      yield* answered
      yield* end(silent)
      yield* end(silent)
      const [one] = yield* begin(1)
      yield* after(999)
      yield* after(1, 1)
      yield* begin(2)
      yield* after("10 minutes")
      // One that ends in another way lets the next one try.
      yield* Fiber.interrupt(one ?? assert.fail("none"))
      yield* after(0, 601)
      yield* answered
      yield* after(0, 601)

      yield* silent
      ends.length = 0
      yield* begin(6)
      yield* after("1 second", 602)
      for (const [pause, at] of [
        [2, 604],
        [4, 608],
        [4, 612],
        [4, 616]
      ] as const) {
        yield* end(silent)
        yield* after(Duration.seconds(pause), at)
      }
      yield* end(silent)
      yield* after(0, 616)
    })
  )
})
