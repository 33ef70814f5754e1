/** Runs over real sockets: what a policy and a pool of containers can do to them. */
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as Coworker from "@miroir-effect/core/Coworker"
import * as Json from "@miroir-effect/core/Json"
import {
  ContextFull,
  CoworkerFailed,
  PolicyFailed,
  PolicyRefused,
  PolicyRejected
} from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import type * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as StubCoworker from "@miroir-effect/testing/StubCoworker"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as WorkList from "../src/internal/workList.js"
import { temporaryFolder } from "./support/files.js"
import {
  collected,
  env,
  failures,
  looks,
  message,
  type Next,
  only,
  type Plan,
  recordsIn,
  running,
  runningOn,
  says,
  services,
  tags,
  task,
  tasks,
  withPolicy
} from "./support/rollouts.js"

const container = Effect.suspend(() => ScriptedContainer.make(env()))

const spoken = (content: string): Policy.Turn => ({ message: { role: "assistant", content } })

/** One rollout on a container of its own: the conversation as the policy met it last, and what came of it. */
const rolled = (next: Next, plan: Plan = {}, script: ScriptedContainer.Script = env()) =>
  Effect.gen(function* () {
    const container = yield* ScriptedContainer.make(script)
    let met: Policy.Moment["messages"] = []
    const events = yield* collected(running([container], plan)).pipe(
      withPolicy((moment) => {
        met = moment.messages
        return next(moment)
      })
    )
    const [saved] = only(events, "Saved")
    if (saved === undefined) return assert.fail(`nothing was saved: ${tags(events)}`)
    const steps = (yield* container.seen).frames.filter(({ type }) => type === "step")
    return {
      container,
      events,
      met,
      saved,
      steps: steps.map(({ data }) => data),
      record: saved.finished.record.value.rollout
    }
  })

describe("an episode", () => {
  it.scopedLive("sends the env what it can take, and answers each call by its id", () =>
    Effect.gen(function* () {
      const calls: ReadonlyArray<readonly [id: string | null, name: string, args: Json.Json]> = [
        ["a", "look", "[1]"],
        ["b", "look", "{"],
        ["c", "look", ""],
        ["d", "look", '{"n":12345678901234567890}'],
        ["e", "jump", "{}"],
        [null, "look", "{}"],
        ["a", "look", { as: "an object" }],
        ["f", "submit", "{}"],
        ["g", "look", "{}"]
      ]
      const came: Policy.AssistantMessage = {
        role: "assistant",
        content: null,
        reasoning: "kept",
        tool_calls: calls.map(([id, name, args]) => ({
          ...(id === null ? {} : { id }),
          type: "function",
          function: { name, arguments: args }
        }))
      }
      const choice = { index: 0, message: came, logprobs: { content: [] } }
      const { record, saved, steps } = yield* rolled(says({ message: came, choice, usage: { total_tokens: 7 } }))
      assert.strictEqual(saved.stop, "done")
      assert.deepStrictEqual(
        steps.map((step) => Json.isObject(step) && step.arguments),
        [{}, { n: 12345678901234567890n }, {}, { as: "an object" }, {}]
      )
      const [prompt, first, ...answers] = saved.messages
      assert.strictEqual(prompt?.role, "user")
      assert.strictEqual(first, came)
      const ids = answers.map(({ tool_call_id }) => tool_call_id)
      assert.strictEqual(new Set(ids).size, calls.length)
      assert.deepStrictEqual([ids[0], ids[1], ids[7], ids[8]], ["a", "b", "f", "g"])
      const said = answers.map(({ content }) => String(content))
      const expected = [
        "no JSON object",
        "no JSON object",
        '{"ok":true}',
        '{"ok":true}',
        'There is no tool \\"jump\\". The tools are: look, submit.',
        '{"ok":true}',
        '{"ok":true}',
        '{"ok":true}',
        "The episode is over"
      ]
      for (const [index, part] of expected.entries()) assert.include(said[index], part)
      assert.deepInclude(record, {
        model: "m",
        settings: {},
        rollout: 0,
        attempt: 1,
        stop: "done",
        messages: saved.messages,
        choices: [choice],
        usage: [{ total_tokens: 7 }]
      })
    })
  )

  it.scopedLive("gives the policy its messages back as they came, arguments that are no JSON aside", () =>
    Effect.gen(function* () {
      const broken = message(["look", "{"], ["look", "{}"])
      const { met, saved } = yield* rolled(says({ message: { ...broken.message, reasoning_content: "hm" } }))
      assert.deepStrictEqual(met[1], { ...message(["look", "{}"], ["look", "{}"]).message, reasoning_content: "hm" })
      assert.deepStrictEqual(saved.messages[1], { ...broken.message, reasoning_content: "hm" })
      assert.deepStrictEqual(
        met.slice(2).map(({ role, tool_call_id }) => [role, tool_call_id]),
        [
          ["tool", "call_0"],
          ["tool", "call_1"]
        ]
      )
    })
  )

  const ends: ReadonlyArray<readonly [stop: Rollout.Stop, next: Next, plan: Plan, steps: number]> = [
    ["budget", says(...Array(9).fill(message(["look", "{"], ["jump", "{}"], ["look", "{}"]))), { maxSteps: 5 }, 2],
    ["budget", looks, { maxSteps: 9, tasks: [{ ...task, max_steps: 1 }] }, 2],
    ["budget", looks, { tasks: [{ ...task, max_steps: 0 }] }, 1],
    ["done", looks, { maxSteps: 1, tasks: [{ ...task, max_steps: 2 }] }, 2],
    ["no_tool_call", says(message(["look", "{}"]), spoken("I am done.")), {}, 2],
    ["no_tool_call", says(spoken(" "), spoken("")), {}, 1],
    ["context_full", () => new ContextFull({ model: "m", reason: "too long" }), {}, 1],
    ["refused", () => new PolicyRefused({ model: "m", reason: "no" }), {}, 1]
  ]
  it.scopedLive.each(ends)("is graded where it ends with %s", ([stop, next, plan, steps]) =>
    Effect.gen(function* () {
      const { record, saved, steps: made } = yield* rolled(next, plan)
      assert.strictEqual(saved.stop, stop)
      assert.deepInclude(record, { stop })
      assert.strictEqual(saved.finished.reward, 1)
      assert.lengthOf(made, steps)
    })
  )

  const stillborn: ReadonlyArray<readonly [told: string, answer: Json.JsonObject, reward: number | null]> = [
    ["a reward", { reward: 0.25, done: 1 }, 0.25],
    ["none", { done: true }, null]
  ]
  it.scopedLive.each(stillborn)(
    "that is over with its reset, as an OpenEnv server's may be, has no turn of the policy: it tells %s",
    ([_, data, reward]) =>
      Effect.gen(function* () {
        const observation = { metadata: { success: true } }
        const action = { title: "Move", properties: { side: { type: "string" } } }
        const script = env({
          fault: ({ type }) =>
            type === "reset"
              ? { send: { type: "observation", data: { observation, ...data } } }
              : type === "state"
                ? { send: { type: "state", data: { episode_id: "e" } } }
                : undefined
        })
        const { container, record, saved } = yield* rolled(
          () => Effect.dieMessage("asked"),
          {},
          { ...script, opened: { episode_id: "e" }, http: { "GET /schema": { body: { action } } } }
        )
        assert.deepInclude(record, { stop: "done", choices: [], usage: [], steps: [] })
        assert.deepStrictEqual(
          saved.messages.map(({ role }) => role),
          ["user"]
        )
        assert.strictEqual(saved.finished.reward, reward)
        assert.deepInclude(saved.finished.metadata, { success: true, truncated: false, task_hash: "h1" })
        const { frames } = yield* container.seen
        assert.deepStrictEqual(
          frames.map(({ type }) => type),
          ["reset"]
        )
      })
  )

  it.scopedLive("asks again for an empty message, once, and keeps it apart from the conversation", () =>
    Effect.gen(function* () {
      let asked = 0
      const usage = { total_tokens: 3 }
      const empty = { ...spoken(" "), usage }
      const next: Next = (moment) => (asked++ % 2 === 0 ? Effect.succeed(empty) : looks(moment))
      const { record, saved } = yield* rolled(next)
      assert.deepStrictEqual([saved.stop, asked], ["done", 4])
      assert.lengthOf(saved.messages, 5)
      const kept = { choice: { message: empty.message }, usage }
      assert.deepInclude(record, {
        empty: [
          { before: 1, ...kept },
          { before: 3, ...kept }
        ]
      })
      const always = yield* rolled(() => Effect.succeed(empty))
      assert.deepStrictEqual([always.saved.stop, always.saved.messages.length], ["no_tool_call", 2])
    })
  )

  it.scopedLive("shows the policy an observation however deep it is", () =>
    Effect.gen(function* () {
      const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`
      const { saved } = yield* rolled(looks, {}, env({ observation: deep }))
      assert.isTrue(saved.messages[2]?.content === deep)
    })
  )
})

it.scopedLive("a record that tells neither task nor version gets both, so that it is counted", () =>
  Effect.gen(function* () {
    const container = yield* ScriptedContainer.make(
      env({
        fault: ({ type }) =>
          type === "record" ? { raw: '{"data":{"reward":1.0,"metadata":{"success":true,"n":1}}}' } : undefined
      })
    )
    const traces = yield* temporaryFolder
    const [, ...rest] = yield* collected(running([container], { traces }))
    const [saved] = only(rest, "Saved")
    assert.deepStrictEqual(saved?.finished.metadata, { success: true, n: 1, task_hash: "h1" })
    assert.deepStrictEqual(yield* recordsIn(traces), ["t1/0: 1"])
    assert.deepInclude((yield* collected(running([container], { traces })))[0], { total: 1, kept: 1 })
    const calibration = yield* Calibration.Calibration
    assert.strictEqual((yield* Effect.flip(calibration.calibrate({ traces, model: "m" })))._tag, "NoClassableTask")
  }).pipe(withPolicy(looks), Effect.provide(Layer.provideMerge(Calibration.layer, services(looks))))
)

it.effect("a plan may have any number of rounds, and a round any number of places: one round is in memory", () =>
  Effect.gen(function* () {
    const asked: Array<number> = []
    const { awaitNone, next } = yield* WorkList.make({
      jobs: 3e15,
      round: (index) => {
        asked.push(index)
        return index % 2 === 0 ? [] : Array.from({ length: 2000 }, (_, place) => `${index}/${place}`)
      }
    })
    const done: Array<string> = []
    const once = (place: string) =>
      Effect.as(
        Effect.sync(() => done.push(place)),
        done.length === 1 ? Option.some("again") : Option.none<string>()
      )
    yield* Effect.repeatN(next(once), 2000)
    assert.deepStrictEqual([...done.slice(0, 2), ...done.slice(-2)], ["1/0", "1/1", "1/1999", "again"])
    assert.deepStrictEqual(asked, [0, 1])
    yield* next(once)
    assert.deepStrictEqual(done.at(-1), "3/0")
    assert.isTrue(Option.isNone(yield* Effect.timeoutOption(awaitNone, 0)))
  })
)

describe("a broken episode", () => {
  const failing = (fault: (frame: ScriptedContainer.Frame) => ScriptedContainer.Reply | undefined) => env({ fault })
  const at =
    (type: string, reply: ScriptedContainer.Reply) =>
    (frame: ScriptedContainer.Frame): ScriptedContainer.Reply | undefined =>
      frame.type === type ? reply : undefined
  const error = { send: { type: "error", data: { code: "NO_SUCH_TASK", message: "gone" } } }
  const faults: ReadonlyArray<readonly [code: string, script: ScriptedContainer.Script, next: Next]> = [
    ["NO_SUCH_TASK", failing(at("reset", error)), looks],
    ["NO_SUCH_TASK", failing(at("step", error)), looks],
    ["CONNECTION_LOST", failing(at("step", { drop: true })), looks],
    ["CONNECTION_LOST", failing(at("record", { close: 1012 })), looks],
    ["UNEXPECTED_REPLY", failing(at("step", { raw: "no JSON" })), looks],
    [
      "UNEXPECTED_REPLY",
      failing(at("record", { send: { data: { task_id: "t2", reward: 1, metadata: { task_hash: "h1" } } } })),
      looks
    ],
    ["NOT_GRADED", failing(at("step", { send: { data: { observation: {}, done: false } } })), says(spoken("no"))],
    [
      "POLICY_FAILED",
      env(),
      (moment) => (moment.messages.length === 1 ? looks(moment) : new PolicyFailed({ model: "m", reason: "away" }))
    ]
  ]
  it.scopedLive.each(faults)("%s is done again on a new lease, and then told in a file", ([code, script, next]) =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(script)
      const traces = yield* temporaryFolder
      const events = yield* collected(running([container], { traces }))
      const ends = only(events, "Broke", "Failed")
      assert.deepStrictEqual(
        ends.map(({ _tag, attempt, error }) => [_tag, attempt, error.code]),
        [
          ["Broke", 1, code],
          ["Broke", 2, code],
          ["Failed", 3, code]
        ]
      )
      assert.strictEqual((yield* container.seen).sessions, 3)
      assert.deepStrictEqual(yield* recordsIn(traces), [])
      const [line, ...more] = yield* failures(traces)
      assert.deepStrictEqual(more, [])
      const { url } = container
      const told = { task_id: "t1", task_hash: "h1", rollout: 0, attempts: 3, containers: [url, url, url], code }
      assert.deepInclude(line, { ...told, message: ends[2]?.error.message })
      assert.strictEqual(tags(events).at(-1), "Released")
    }).pipe(withPolicy(next))
  )

  it.scopedLive("leaves no trace where it is whole the next time, and no step is sent twice within one", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(
        env({ fault: ({ index, session }) => (index === 2 && session < 2 ? { drop: true } : undefined) })
      )
      const traces = yield* temporaryFolder
      const events = yield* collected(running([container], { traces, rollouts: 2 }))
      assert.deepStrictEqual(
        only(events, "Broke", "Saved").map(({ _tag, attempt, rollout }) => [_tag, rollout, attempt]),
        [
          ["Broke", 0, 1],
          // The next of its round are done before it is begun again; here the round was one.
          ["Broke", 0, 2],
          ["Saved", 0, 3],
          ["Saved", 1, 1]
        ]
      )
      assert.deepStrictEqual(yield* recordsIn(traces), ["t1/0: 1", "t1/1: 1"])
      assert.deepStrictEqual(yield* failures(traces), [])
      const { frames } = yield* container.seen
      for (const session of [0, 1]) {
        assert.lengthOf(
          frames.filter((frame) => frame.session === session),
          3
        )
      }
    }).pipe(withPolicy(looks))
  )

  it.scopedLive("is begun again behind the round that is under way", () =>
    Effect.gen(function* () {
      let broken = false
      const container = yield* ScriptedContainer.make(
        env({
          fault: ({ type }) => {
            if (type !== "record" || broken) return undefined
            broken = true
            return { drop: true }
          }
        })
      )
      const events = yield* collected(running([container], { tasks: tasks(2), rollouts: 2 }))
      assert.deepStrictEqual(
        only(events, "Started").map(({ attempt, rollout, task }) => `${task.id}/${rollout}: ${attempt}`),
        ["t1/0: 1", "t2/0: 1", "t1/0: 2", "t1/1: 1", "t2/1: 1"]
      )
    }).pipe(withPolicy(looks))
  )

  it.scopedLive("a coworker's failure breaks it too; else coworkers are answered after each step", () =>
    Effect.gen(function* () {
      const turn = { coworker: "ana", messages: [{ role: "user", content: "Is it signed?" }] }
      const container = yield* ScriptedContainer.make(
        env({
          fault: ({ type }) => {
            if (type === "coworkers") return { send: { type, data: { turns: [turn] } } }
            return type === "coworker_reply" ? { send: { type, data: { status: 200 } } } : undefined
          }
        })
      )
      let asked = 0
      const away = new CoworkerFailed({ url: "http://c", model: "c", reason: "status", status: 500, detail: "no" })
      const coworker = StubCoworker.canned(() => (asked++ === 1 ? away : "Yes."))
      const events = yield* collected(running([container], { tasks: [{ ...task, coworkers: ["ana"] }] })).pipe(
        Effect.provide(Rollout.layerWithCoworker.pipe(Layer.provide([services(looks), coworker])))
      )
      assert.deepStrictEqual(tags(only(events, "Started", "Broke", "Saved")), ["Started", "Broke", "Started", "Saved"])
      const { frames } = yield* container.seen
      assert.deepStrictEqual(
        frames.filter(({ session }) => session === 1).map(({ type }) => type),
        ["reset", "step", "coworkers", "coworker_reply", "step", "coworkers", "coworker_reply", "record"]
      )
    }).pipe(Effect.provide(services(looks)))
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
      const events = yield* collected(running([good, absent], { rollouts: 3, leaseTimeout: "1 second" })).pipe(
        withPolicy(next),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger))
      )
      assert.deepStrictEqual(tags(events), [
        "Began",
        "Leased",
        ...Array(3).fill(["Started", "Spoke", "Stepped", "Spoke", "Stepped", "Saved"]).flat(),
        "Released"
      ])
      const nobody = yield* ScriptedContainer.make({ health: { body: { status: "healthy", leased: true } } })
      const failure = yield* Effect.flip(collected(running([nobody], { leaseTimeout: "10 millis" }))).pipe(
        withPolicy(looks)
      )
      assert.strictEqual(failure._tag, "NoFreeContainer")
    })
  )

  it.scopedLive("plays each place once, round by round, on as many containers as there are workers", () =>
    Effect.gen(function* () {
      const containers = yield* Effect.replicateEffect(container, 3)
      const plans: ReadonlyArray<readonly [plan: Plan, leases: number]> = [
        [{ tasks: tasks(4), rollouts: 3 }, 3],
        [{ tasks: tasks(2), rollouts: 2, concurrency: 0 }, 1],
        [{ tasks: tasks(2), rollouts: 2, concurrency: 1.5 }, 1],
        [{ tasks: [...tasks(2), task], rollouts: 1, concurrency: 5 }, 2],
        [{ tasks: [] }, 0],
        [{ rollouts: 0 }, 0]
      ]
      for (const [plan, leases] of plans) {
        const events = yield* collected(running(containers, plan)).pipe(withPolicy(looks))
        const places = new Set(plan.tasks ?? [task]).size * (plan.rollouts ?? 1)
        const started = only(events, "Started").map(({ rollout, task: { id } }) => `${rollout} ${id}`)
        const total = new Set((plan.tasks ?? [task]).map(({ id }) => id)).size * (plan.rollouts ?? 1)
        assert.lengthOf(only(events, "Saved"), total)
        assert.isAtMost(total, places)
        assert.deepStrictEqual(started, [...new Set(started)].sort())
        assert.lengthOf(only(events, "Leased"), leases)
        assert.deepInclude(events[0], { _tag: "Began", total, kept: 0, void: 0, successes: 0 })
      }
    })
  )

  it.scopedLive("ends at once where no repeat mends what the policy meets, and gives up what else goes on", () =>
    Effect.gen(function* () {
      const containers = yield* Effect.replicateEffect(container, 2)
      const begun = yield* Deferred.make<void>()
      const rejected = new PolicyRejected({ model: "m", status: 401, reason: "wrong key", advice: "Give another." })
      const next: Next = ({ task }) =>
        task.id === "t1"
          ? Effect.zipRight(Deferred.await(begun), rejected)
          : Effect.zipRight(Deferred.succeed(begun, undefined), Effect.never)
      const traces = yield* temporaryFolder
      const failure = yield* Effect.flip(collected(running(containers, { tasks: tasks(2), traces }))).pipe(
        withPolicy(next)
      )
      assert.strictEqual(failure, rejected)
      yield* Effect.forEach(containers, (container) => container.awaitNoSockets)
      assert.deepStrictEqual(yield* recordsIn(traces), [])
      assert.deepStrictEqual(yield* failures(traces), [])
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("ends at once where no repeat mends what the coworkers' model meets", () =>
    Effect.gen(function* () {
      const turn = { coworker: "ana", messages: [{ role: "user", content: "Is it signed?" }] }
      const container = yield* ScriptedContainer.make(
        env({ fault: ({ type }) => (type === "coworkers" ? { send: { type, data: { turns: [turn] } } } : undefined) })
      )
      const endpoint = yield* ChatEndpoint.make({ answers: [], apiKey: "right" })
      const coworker = Layer.provide(Coworker.layer({ baseUrl: endpoint.url, model: "c" }), NodeHttp.layer)
      const traces = yield* temporaryFolder
      const failure = yield* Effect.flip(
        collected(running([container], { tasks: [{ ...task, coworkers: ["ana"] }], traces }))
      ).pipe(Effect.provide(Rollout.layerWithCoworker.pipe(Layer.provide([services(looks), coworker]))))
      assert.deepInclude(failure, { _tag: "CoworkerFailed", status: 401 })
      assert.match(failure.message, /: 401: .*\. Check its API key \(MIROIR_COWORKER_API_KEY\)\.$/)
      assert.lengthOf(yield* endpoint.requests, 1)
      assert.deepStrictEqual(yield* failures(traces), [])
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("ends with the first rollout that is given up where the model has never answered", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(env())
      const traces = yield* temporaryFolder
      const failure = yield* Effect.flip(collected(running([container], { rollouts: 50, traces })))
      assert.strictEqual(failure._tag, "PolicyFailed")
      assert.lengthOf(yield* failures(traces), 1)
    }).pipe(withPolicy(() => new PolicyFailed({ model: "m", reason: "away" })))
  )

  it.scopedLive("takes no record of another version of a task than the plan's", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(env())
      const failure = yield* Effect.flip(
        collected(running([container], { tasks: [{ ...task, task_hash: "other" }] }))
      ).pipe(withPolicy(looks))
      assert.deepInclude(failure, { _tag: "TaskChanged", hashes: ["other", "h1"], url: container.url })
      const twice = yield* Effect.flip(
        collected(running([container], { tasks: [task, { ...task, task_hash: "other" }] }))
      ).pipe(withPolicy(looks))
      assert.deepInclude(twice, { _tag: "TaskChanged", hashes: ["h1", "other"] })
    })
  )

  /** Plays the first round, and the others once something has happened. */
  const waitsFor =
    (happened: Deferred.Deferred<void>): Next =>
    (moment) =>
      moment.rollout === 0 ? looks(moment) : Effect.zipRight(Deferred.await(happened), looks(moment))

  it.scopedLive("gets through all containers' going and coming back, and one that refuses for a while", () =>
    Effect.gen(function* () {
      const [one, other] = [yield* container, yield* container]
      const traces = yield* temporaryFolder
      const gone = yield* Deferred.make<void>()
      const goes = Effect.gen(function* () {
        yield* Effect.zipRight(one.stop, other.stop)
        yield* Deferred.succeed(gone, undefined)
        yield* Effect.sleep("100 millis")
        yield* one.update({ ws: { status: 403 } })
        yield* one.start
        yield* Effect.sleep("100 millis")
        yield* one.update({ ws: { accept: true } })
        yield* other.start
      })
      let saved = 0
      const events = yield* running([one, other], { tasks: tasks(4), rollouts: 4, traces }).pipe(
        Stream.tap((event) => (event._tag === "Saved" && ++saved === 3 ? Effect.forkDaemon(goes) : Effect.void)),
        collected,
        withPolicy(waitsFor(gone))
      )
      assert.lengthOf(only(events, "Saved"), 16)
      assert.lengthOf(new Set(yield* recordsIn(traces)), 16)
      assert.isAbove(only(events, "Broke").length, 0)
      assert.lengthOf(only(events, "Failed"), 0)
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("follows a URL file that changes", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const [old, fresh] = [yield* container, yield* container]
      const urlFile = `${yield* temporaryFolder}/urls`
      yield* fs.writeFileString(urlFile, `${old.url}\n`)
      const gone = yield* Deferred.make<void>()
      const goes = Effect.gen(function* () {
        // What cannot be read while it is being written is no reason to end.
        yield* fs.writeFileString(urlFile, "not yet")
        yield* old.stop
        yield* Deferred.succeed(gone, undefined)
        yield* Effect.sleep("50 millis")
        yield* fs.writeFileString(urlFile, `${fresh.url}\n`)
      })
      const events = yield* runningOn({ urlFile }, { rollouts: 4 }).pipe(
        Stream.tap((event) => (event._tag === "Saved" && event.rollout === 0 ? goes : Effect.void)),
        collected,
        withPolicy(waitsFor(gone))
      )
      assert.lengthOf(only(events, "Saved"), 4)
      assert.deepStrictEqual(
        only(events, "Leased").map(({ url }) => url),
        [old.url, fresh.url]
      )
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("waits for who listens between episodes, not within one", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(env())
      const waiting = yield* Deferred.make<void>()
      const events = yield* running([container], { rollouts: 6, maxSteps: 1000 }).pipe(
        Stream.tap((event) => (event._tag === "Began" ? Deferred.await(waiting) : Effect.void)),
        collected,
        Effect.fork
      )
      const resets = Effect.map(container.seen, ({ frames }) => frames.filter(({ type }) => type === "reset").length)
      // Each episode has some 600 events, of which 1000 may be unread: two are played to their end, and then none begins.
      yield* container.awaitSeen(({ frames }) => frames.filter(({ type }) => type === "record").length === 2)
      yield* Effect.sleep("100 millis")
      assert.strictEqual(yield* resets, 2)
      yield* Deferred.succeed(waiting, undefined)
      assert.lengthOf(only(yield* Fiber.join(events), "Saved"), 6)
    }).pipe(withPolicy(says(...Array(200).fill(message(["look", "{}"], ["look", "{}"])))))
  )

  const ends: ReadonlyArray<readonly [string, Next, number?]> = [
    ["whose policy fails", () => new PolicyFailed({ model: "m", reason: "no" })],
    ["whose policy dies", () => Effect.die("bug")],
    ["whose policy throws", () => assert.fail("bug")],
    ["whose policy is interrupted", () => Effect.interrupt],
    ["that nobody listens to any more", looks, 4]
  ]
  for (const [name, next, take = 1000] of ends) {
    it.scopedLive(`${name} gives its container and its folder back`, () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const container = yield* ScriptedContainer.make(env())
        const traces = yield* temporaryFolder
        const { value: before } = yield* Metric.value(Telemetry.leasesHeld)
        yield* Effect.exit(Stream.runDrain(Stream.take(running([container], { rollouts: 4, traces }), take)))
        yield* container.awaitNoSockets
        const { closes, sessions } = yield* container.seen
        assert.isAbove(sessions, 0)
        assert.isTrue(closes.every(({ code }) => code === 1000))
        assert.strictEqual((yield* Metric.value(Telemetry.leasesHeld)).value, before)
        assert.deepStrictEqual(
          (yield* fs.readDirectory(traces)).filter((name) => name.includes("lock")),
          []
        )
      }).pipe(withPolicy(next))
    )
  }
})
