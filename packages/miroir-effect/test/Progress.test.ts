/** What a run of rollouts says of itself where nobody watches, and how its line fits. */
import { assert, describe, it } from "@effect/vitest"
import { EpisodeRecord } from "@miroir-effect/core/EpisodeRecord"
import type * as Leasing from "@miroir-effect/core/Leasing"
import { EnvError } from "@miroir-effect/core/MiroirError"
import type * as Rollout from "@miroir-effect/core/Rollout"
import type * as Session from "@miroir-effect/core/Session"
import * as Text from "@miroir-effect/core/Text"
import * as StubLeasing from "@miroir-effect/testing/StubLeasing"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { following, short, summaryOf } from "../src/internal/progress.js"
import { line } from "../src/internal/terminal.js"

const place = (rollout: number, attempt = 1) => ({
  task: { id: "t", task_hash: "h", instruction: "do" },
  rollout,
  attempt
})

const finished = (reward: number | null): Session.Finished => {
  const record = Either.getOrThrow(EpisodeRecord.fromValue({ reward, metadata: { success: reward === 1 } }))
  return { reward, success: record.success, metadata: record.metadata, record }
}

const stats: Leasing.Stats = {
  held: 2,
  opening: 0,
  waiting: 3,
  oldestWait: Option.none(),
  probing: 0,
  probes: 0,
  handOvers: 0
}

describe("a run of rollouts that nobody watches", () => {
  it.effect("says every ten seconds how far it is, says a failure that many meet once, and counts all", () =>
    Effect.gen(function* () {
      const said: Array<string> = []
      const recording = Logger.replace(
        Logger.defaultLogger,
        Logger.map(line, (text) => {
          said.push(text)
        })
      )
      const error = new EnvError({ url: "http://c", code: "STUCK", reason: "no" })
      const saved = (rollout: number, reward: number | null): Rollout.Event => ({
        _tag: "Saved",
        ...place(rollout),
        stop: "done",
        messages: [],
        finished: finished(reward),
        file: "f"
      })
      const after = (seconds: number, ...events: ReadonlyArray<Rollout.Event>) =>
        Stream.fromIterableEffect(Effect.as(Effect.sleep(Duration.seconds(seconds)), events))
      const events = Stream.concatAll(
        Chunk.make(
          after(0, {
            _tag: "Began",
            total: 10,
            kept: 2,
            void: 1,
            successes: 1,
            day: "2026-11-30",
            tasks: [{ task: place(0).task, graded: 1, successes: 1, void: 1, left: 0 }]
          }),
          after(1, { _tag: "Started", ...place(2), url: "c" }, { _tag: "Started", ...place(3), url: "d" }),
          after(1, { _tag: "Spoke", ...place(2), usage: { total_tokens: 1500 }, seconds: 1 }),
          // What is no number is not counted, and does no harm.
          after(0, {
            _tag: "Spoke",
            ...place(2),
            usage: { total_tokens: { valueOf: 1, toString: 1 }, prompt_tokens: [7] },
            seconds: 1
          }),
          after(2, { _tag: "Broke", ...place(3), error }, { _tag: "Started", ...place(3, 2), url: "d" }),
          after(3, saved(2, 1), { _tag: "Broke", ...place(3, 2), error }),
          after(5, { _tag: "Started", ...place(3, 3), url: "d" }, { _tag: "Failed", ...place(3, 3), error }),
          after(9, saved(4, null))
        )
      )
      const leasing = StubLeasing.layer({ stats: Effect.succeed(stats) })
      const running = yield* Effect.fork(Effect.provide(following(events), Layer.merge(leasing, recording)))
      yield* TestClock.adjust("21 seconds")
      const counts = yield* Fiber.join(running)
      assert.deepStrictEqual(said, [
        `warning: Rollout 4 of t broke and is done again: ${error.message} (This is said once; what else it breaks is counted.)`,
        "3 of 10 rollouts: 2 succeeded, 1 void, 0 failed; 0 in flight, 3 waiting for a container; model calls: 0 waiting, 0 backing off; 1.5k tokens; about 70 s left",
        "3 of 10 rollouts: 2 succeeded, 1 void, 1 failed; 0 in flight, 3 waiting for a container; model calls: 0 waiting, 0 backing off; 1.5k tokens; about 60 s left"
      ])
      assert.deepInclude(counts.tasks[0], { graded: 2, void: 2 })
      assert.strictEqual(summaryOf(counts), "4 of 10 rollouts: 2 succeeded, 2 void, 1 failed")
    })
  )

  it.effect("is waited for where it is stopped: what it writes is written before its files are closed", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const began = yield* Deferred.make<void>()
      const save = Effect.zipRight(
        Deferred.succeed(began, undefined),
        Effect.zipRight(
          Effect.sleep("1 second"),
          Effect.sync(() => order.push("saved"))
        )
      )
      const run = following(Stream.fromEffect(Effect.zipRight(Effect.uninterruptible(save), Effect.never)))
      const running = yield* Effect.addFinalizer(() => Effect.sync(() => order.push("closed"))).pipe(
        Effect.zipRight(run),
        Effect.scoped,
        Effect.provide(StubLeasing.layer({ stats: Effect.succeed(stats) })),
        Effect.fork
      )
      yield* Deferred.await(began)
      const stopping = yield* Effect.fork(Fiber.interrupt(running))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(order, ["saved", "closed"])
    })
  )

  it("has a line that fits, and that says at least how far it is", () => {
    const count = FastCheck.integer({ min: 0, max: 1e7 })
    const moment = FastCheck.record({
      total: count,
      done: count,
      successes: count,
      void: count,
      failed: count,
      tokens: FastCheck.integer({ min: 0, max: 1e12 }),
      inFlight: count,
      waiting: count,
      callsWaiting: count,
      callsBackingOff: count,
      left: FastCheck.option(FastCheck.integer({ min: 0, max: 1e9 }), { nil: undefined })
    })
    FastCheck.assert(
      FastCheck.property(moment, FastCheck.integer({ min: 20, max: 300 }), (now, columns) => {
        const text = short(now, columns)
        assert.strictEqual(Text.cut(text, columns), text)
        assert.match(text, new RegExp(`^${now.done}( of |/)${now.total}`))
      })
    )
  })
})
