/** Runs among all kinds of faults, cut short and gone on with: each rollout is accounted for once, and nothing is made up. */
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import type * as Json from "@miroir-effect/core/Json"
import { ContextFull, PolicyFailed } from "@miroir-effect/core/MiroirError"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import { temporaryFolder } from "./support/files.js"
import {
  collected,
  env,
  failures,
  message,
  type Next,
  only,
  type Plan,
  recordsIn,
  running,
  services,
  tasks,
  withPolicy
} from "./support/rollouts.js"

/** Numbers from 0 to 1 (mulberry32). */
const randomOf = (seed: number) => {
  let state = seed
  return (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A rollout's reward is told by what its policy sends; every seventh is void. */
const rewardOf = (taskNumber: number, rollout: number): number | null => {
  const draw = (taskNumber * 3 + rollout * 5) % 7
  return draw === 0 ? null : draw % 2
}

const numberOf = (taskId: string): number => Number(taskId.slice(1))

const grade = (taskId: string, steps: ReadonlyArray<Json.JsonObject>): number | null => {
  const [first] = steps
  const args = first?.arguments
  return rewardOf(
    numberOf(taskId),
    typeof args === "object" && args !== null && "rollout" in args ? Number(args.rollout) : 0
  )
}

const plays: Next = ({ messages, rollout }) =>
  Effect.succeed(message([messages.length === 1 ? "look" : "submit", JSON.stringify({ rollout })]))

const expected = (taskCount: number, rollouts: number): ReadonlyArray<string> =>
  tasks(taskCount)
    .flatMap(({ id }) =>
      Array.from({ length: rollouts }, (_, rollout) => `${id}/${rollout}: ${rewardOf(numberOf(id), rollout)}`)
    )
    .sort()

const quiet = Logger.replace(Logger.defaultLogger, Logger.none)

const calibrated = (traces: string) =>
  Effect.map(
    Effect.flatMap(Calibration.Calibration, ({ calibrate }) => calibrate({ traces, model: "m" })),
    (result) => ({ ...result, tasks: [...result.tasks] })
  )

const faultOf =
  (random: () => number, often: number) =>
  ({ type }: ScriptedContainer.Frame): ScriptedContainer.Reply | undefined => {
    const draw = random() / often
    if (draw > 1) return undefined
    if (draw < 0.3) return { drop: true }
    if (draw < 0.4) return { close: 1012, reason: "restart" }
    if (draw < 0.5) return { raw: "<html>" }
    return { send: { type: "error", data: { code: "INTERNAL_ERROR", message: `no ${type} today` } } }
  }

describe("whatever happens", () => {
  it.scopedLive("12 tasks, 8 times each on 16 containers: each is graded, void or failed, and only once", () =>
    Effect.gen(function* () {
      const random = randomOf(7)
      const containers = yield* Effect.replicateEffect(
        Effect.suspend(() => ScriptedContainer.make(env({ grade, fault: faultOf(random, 0.02) }))),
        16
      )
      /** Of a task nothing ever comes; else a message is one of many that models give. */
      const next: Next = (moment) => {
        if (moment.task.id === "t12") return new PolicyFailed({ model: "m", reason: "choices are empty" })
        const draw = moment.messages.length === 1 ? 1 : random()
        if (draw < 0.02) return new PolicyFailed({ model: "m", reason: "cut" })
        if (draw < 0.06) return new ContextFull({ model: "m", reason: "too long" })
        if (draw < 0.1) return Effect.succeed({ message: { role: "assistant", content: null } })
        if (draw < 0.14) return Effect.succeed({ message: { role: "assistant", content: "I am done." } })
        if (draw < 0.18) return Effect.succeed(message(["look", "{"], ["jump", "{}"], ["look", "{}"]))
        if (draw < 0.22) return Effect.succeed(message(["submit", "{}"], ["look", "{}"]))
        return plays(moment)
      }
      const traces = yield* temporaryFolder
      const events = yield* collected(running(containers, { tasks: tasks(12), rollouts: 8, traces })).pipe(
        withPolicy(next)
      )
      const records = yield* recordsIn(traces)
      const failed = (yield* failures(traces)).map((failure) =>
        typeof failure === "object" && failure !== null && "task_id" in failure
          ? `${failure.task_id}/${failure.rollout}`
          : assert.fail("a line is none")
      )
      const saved = only(events, "Saved").map(({ rollout, task }) => `${task.id}/${rollout}`)
      assert.deepStrictEqual(
        [...saved, ...failed].sort(),
        expected(12, 8)
          .map((line) => line.replace(/:.*/, ""))
          .sort()
      )
      assert.deepStrictEqual(
        records,
        expected(12, 8).filter((line) => saved.includes(line.replace(/:.*/, "")))
      )
      assert.deepStrictEqual(
        only(events, "Failed")
          .map(({ rollout, task }) => `${task.id}/${rollout}`)
          .sort(),
        failed.sort()
      )
      assert.includeMembers(
        failed,
        Array.from({ length: 8 }, (_, rollout) => `t12/${rollout}`)
      )
      yield* Effect.forEach(containers, ({ awaitNoSockets }) => awaitNoSockets)
    }).pipe(Effect.provide([services(plays), quiet]))
  )

  it.scopedLive(
    "a run that is cut short at any moment and gone on with comes to what an undisturbed one does",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const plan: Plan = { tasks: tasks(4), rollouts: 4 }
        const calm = yield* temporaryFolder
        const good = yield* ScriptedContainer.make(env({ grade }))
        yield* collected(running([good], { ...plan, traces: calm })).pipe(withPolicy(plays))
        assert.deepStrictEqual(yield* recordsIn(calm), expected(4, 4))
        const undisturbed = yield* calibrated(calm)

        const once = (seed: number) =>
          Effect.gen(function* () {
            const random = randomOf(seed)
            const containers = yield* Effect.replicateEffect(
              Effect.suspend(() => ScriptedContainer.make(env({ grade, fault: faultOf(random, 0.08) }))),
              3
            )
            const next: Next = (moment) =>
              random() < 0.05 ? new PolicyFailed({ model: "m", reason: "cut" }) : plays(moment)
            const traces = yield* temporaryFolder
            const reported = new Set<string>()
            for (let segment = 0; ; segment++) {
              const take = 1 + Math.floor(random() * 120)
              const events = yield* collected(Stream.take(running(containers, { ...plan, traces }), take)).pipe(
                withPolicy(next)
              )
              for (const { rollout, task } of only(events, "Saved")) reported.add(`${task.id}/${rollout}`)
              const records = yield* recordsIn(traces)
              const places = records.map((line) => line.replace(/:.*/, ""))
              assert.strictEqual(new Set(places).size, places.length)
              assert.includeMembers(places, [...reported])
              if (places.length === 16) break
              // What a process that is killed in the middle of a line leaves.
              const file = `${traces}/killed-${segment}.jsonl`
              if (random() < 0.3) yield* fs.writeFileString(file, '{"task_id": "t1", "reward": 1, "meta')
            }
            assert.deepStrictEqual(yield* recordsIn(traces), expected(4, 4))
            assert.deepStrictEqual(yield* calibrated(traces), undisturbed)
          }).pipe(Effect.scoped)

        for (const seed of FastCheck.sample(FastCheck.integer(), 8)) {
          yield* once(seed).pipe(
            Effect.tapErrorCause(() => Effect.sync(() => process.stderr.write(`The seed was ${seed}.\n`)))
          )
        }
      }).pipe(Effect.provide([services(plays), Layer.provide(Calibration.layer, services(plays)), quiet])),
    120_000
  )
})
