/** Runs over real sockets: what a policy and a pool of containers can do to them. */
import { assert, describe, it } from "@effect/vitest"
import { PolicyFailed } from "@miroir-effect/core/MiroirError"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as StubCatalog from "@miroir-effect/testing/StubCatalog"
import * as StubTraces from "@miroir-effect/testing/StubTraces"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Stream from "effect/Stream"
import { leasing } from "./layers.js"

const task = { id: "t1", task_hash: "h", instruction: "do it" }

/** Submitting ends the episode; what the step gives otherwise is `observation`. */
const env = (observation = '{"ok":true}'): ScriptedContainer.Script => ({
  capacity: 1,
  replies: ({ text, type }) =>
    type === "record"
      ? { send: { type, data: { reward: 1, metadata: { success: true } } } }
      : { raw: `{"data":{"observation":${observation},"done":${text.includes('"submit"')}}}` }
})

const message = (...calls: ReadonlyArray<readonly [tool: string, args: string]>): Policy.AssistantMessage => ({
  role: "assistant",
  content: null,
  tool_calls: calls.map(([name, args], index) => ({
    id: `call_${index}`,
    type: "function",
    function: { name, arguments: args }
  }))
})

type Next = Policy.Policy["Type"]["next"]

/** Looks once, then submits. */
const looks: Next = ({ messages }) => Effect.succeed(message([messages.length === 1 ? "look" : "submit", "{}"]))

const running = (containers: ReadonlyArray<ScriptedContainer.ScriptedContainer>, plan: Partial<Rollout.Plan>) =>
  Stream.unwrap(
    Effect.map(Rollout.Rollout, ({ run }) =>
      run({ tasks: [task], rollouts: 1, urls: containers.map(({ url }) => url), traces: "traces", ...plan })
    )
  )

const withPolicy =
  (next: Next) =>
  <A, E, R>(self: Effect.Effect<A, E, R | Rollout.Rollout>) => {
    const short = { timeout: Duration.millis(100), firstRound: Duration.millis(100), roundPause: Duration.millis(10) }
    const services = [
      leasing(short),
      StubCatalog.of({ tools: { api: [{ name: "look" }] } }),
      StubTraces.memory,
      Layer.succeed(Policy.Policy, { model: "m", next })
    ] as const
    return Effect.provide(self, Layer.provide(Rollout.layer, services))
  }

const tags = (events: Chunk.Chunk<Rollout.Event>) => Chunk.toReadonlyArray(events).map(({ _tag }) => _tag)

describe("a rollout", () => {
  it.scopedLive("answers arguments that are no JSON object itself, at the cost of a call", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(env())
      const answers: Array<unknown> = []
      const next: Next = ({ messages }) => {
        answers.push(...messages.slice(1).filter(({ role }) => role === "tool"))
        return Effect.succeed(message(["look", "[1]"], ["look", "{"], ["look", ""], ["look", "{}"]))
      }
      const events = yield* Stream.runCollect(running([container], { maxSteps: 3 })).pipe(withPolicy(next))
      const saved = Chunk.toReadonlyArray(events).find((event) => event._tag === "Saved")
      assert.strictEqual(saved?.stop, "budget")
      yield* Stream.runDrain(running([container], { maxSteps: 4 })).pipe(withPolicy(next))
      yield* Stream.runDrain(running([container], { maxSteps: 5 })).pipe(withPolicy(next))
      const wrong = (why: string) =>
        `{"error":{"message":"The arguments for the tool look are no JSON object: ${why}."}}`
      const said = [wrong("it is another JSON value"), wrong("it is no JSON"), '{"ok":true}', '{"ok":true}']
      assert.deepStrictEqual(
        answers,
        said.map((content, index) => ({ role: "tool", tool_call_id: `call_${index}`, content }))
      )
      const steps = (yield* container.seen).frames.filter(({ type }) => type === "step")
      assert.notInclude(steps.map(({ text }) => text).join(), "[1]")
    })
  )

  it.scopedLive("shows the policy an observation however deep it is", () =>
    Effect.gen(function* () {
      const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`
      const container = yield* ScriptedContainer.make(env(deep))
      const next: Next = (moment) => {
        if (moment.messages.length > 1) assert.isTrue(moment.messages.at(-1)?.content === deep)
        return looks(moment)
      }
      assert.include(tags(yield* Stream.runCollect(running([container], {})).pipe(withPolicy(next))), "Saved")
    })
  )
})

describe("a run", () => {
  it.scopedLive("goes on with the containers that there are, and waits for no other once its work is done", () =>
    Effect.gen(function* () {
      const warned = yield* Deferred.make<void>()
      const logger = Logger.make(({ message }) => {
        if (`${message}`.includes("Going on")) Deferred.unsafeDone(warned, Exit.void)
      })
      const good = yield* ScriptedContainer.make(env())
      const absent = yield* ScriptedContainer.make({ absent: true })
      // The other worker has had its time for a lease before this one's episode goes on.
      const next: Next = (moment) => Effect.zipRight(Deferred.await(warned), looks(moment))
      const events = yield* Stream.runCollect(running([good, absent], { rollouts: 3 })).pipe(
        withPolicy(next),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger))
      )
      assert.deepStrictEqual(tags(events), ["Leased", ...Array(3).fill(["Started", "Saved"]).flat()])
      const nobody = yield* ScriptedContainer.make({ health: { body: { status: "healthy", leased: true } } })
      const failure = yield* Effect.flip(Stream.runDrain(running([nobody], {})).pipe(withPolicy(looks)))
      assert.strictEqual(failure._tag, "NoFreeContainer")
    })
  )

  it.scopedLive("has a worker at least, and none for no work", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(env())
      const runs: ReadonlyArray<readonly [Partial<Rollout.Plan>, number]> = [
        [{ concurrency: 0 }, 1],
        [{ concurrency: 5, rollouts: 10 }, 10],
        [{ tasks: [] }, 0],
        [{ rollouts: 0 }, 0]
      ]
      for (const [plan, saved] of runs) {
        const events = yield* Stream.runCollect(running([container], plan)).pipe(withPolicy(looks))
        assert.lengthOf(
          tags(events).filter((tag) => tag === "Saved"),
          saved
        )
      }
    })
  )

  const ends: ReadonlyArray<readonly [string, Next, number?]> = [
    ["whose policy fails", () => new PolicyFailed({ model: "m", reason: "no" })],
    ["whose policy dies", () => Effect.die("bug")],
    ["whose policy throws", () => assert.fail("bug")],
    ["whose policy is interrupted", () => Effect.interrupt],
    ["that nobody listens to any more", looks, 2]
  ]
  for (const [name, next, take = 1000] of ends) {
    it.scopedLive(`${name} gives its container back`, () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make(env())
        const { value: before } = yield* Metric.value(Telemetry.leasesHeld)
        yield* Effect.exit(
          Stream.runDrain(Stream.take(running([container], { rollouts: 4 }), take)).pipe(withPolicy(next))
        )
        yield* container.awaitNoSockets
        const { closes, sessions } = yield* container.seen
        assert.isAbove(sessions, 0)
        assert.isTrue(closes.every(({ code }) => code === 1000))
        assert.strictEqual((yield* Metric.value(Telemetry.leasesHeld)).value, before)
      })
    )
  }
})
