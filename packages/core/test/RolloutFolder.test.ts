/** The folder of a run: what it is gone on with from, what is refused, and who may use it. */
import { spawnSync } from "node:child_process"
import { hostname } from "node:os"
import { gzipSync } from "node:zlib"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import type * as Json from "@miroir-effect/core/Json"
import { PolicyFailed } from "@miroir-effect/core/MiroirError"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as RunLock from "../src/internal/runLock.js"
import { files, temporaryFolder, warningsOf } from "./support/files.js"
import {
  collected,
  env,
  failures,
  looks,
  type Next,
  only,
  type Plan,
  recordsIn,
  running,
  services,
  tags,
  task,
  tasks,
  withPolicy
} from "./support/rollouts.js"

type Grade = NonNullable<Parameters<typeof env>[0]>["grade"]

const served = (grade?: Grade) => ScriptedContainer.make(env(grade === undefined ? {} : { grade }))

/** All files below a folder with what is in them, the lock aside. */
const contents = (folder: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const found: Record<string, string> = {}
    for (const name of (yield* fs.readDirectory(folder, { recursive: true })).sort()) {
      const { type } = yield* fs.stat(`${folder}/${name}`)
      if (type === "File") found[name] = Buffer.from(yield* fs.readFile(`${folder}/${name}`)).toString("latin1")
    }
    return found
  })

const supersededIn = (folder: string) =>
  Effect.map(contents(folder), (found) =>
    Object.keys(found)
      .filter((name) => name.startsWith("superseded/"))
      .map((name) => name.replace(/^superseded\/[^/]+\//, "").replace(/^\d{8}T.*?(?=\.jsonl)/, "trace"))
  )

const places = (taskCount: number, rollouts: number, reward: number | null = 1): ReadonlyArray<string> =>
  tasks(taskCount)
    .flatMap(({ id }) => Array.from({ length: rollouts }, (_, rollout) => `${id}/${rollout}: ${reward}`))
    .sort()

describe("a run is gone on with", () => {
  it.scopedLive("where it was cut short, on the day that it began", () =>
    Effect.gen(function* () {
      const container = yield* served()
      const traces = yield* temporaryFolder
      const days: Array<string> = []
      const plan: Plan = { tasks: tasks(3), rollouts: 3, traces, today: "2026-11-30" }
      let kept = 0
      for (const take of [7, 12, 29, 1000]) {
        const events = yield* collected(Stream.take(running([container], plan), take)).pipe(
          withPolicy((moment) => {
            days.push(String(moment.messages[0]?.content))
            return looks(moment)
          })
        )
        const today = "2026-11-30"
        assert.deepInclude(events[0], { _tag: "Began", total: 9, kept, successes: kept, void: 0, day: today })
        const inFolder = yield* recordsIn(traces)
        // What was reported as saved is there; the last of it may not have been reported any more.
        kept += only(events, "Saved").length
        assert.include([kept, kept + 1], inFolder.length)
        kept = inFolder.length
      }
      assert.deepStrictEqual(yield* recordsIn(traces), places(3, 3))
      const again = yield* collected(running([container], { ...plan, today: "2027-01-01" })).pipe(withPolicy(looks))
      assert.deepStrictEqual(tags(again), ["Began"])
      const more = yield* collected(
        running([container], { ...plan, tasks: tasks(4), rollouts: 4, today: "2027-01-01" })
      ).pipe(
        withPolicy((moment) => {
          days.push(String(moment.messages[0]?.content))
          return looks(moment)
        })
      )
      assert.lengthOf(only(more, "Saved"), 7)
      assert.deepStrictEqual(yield* recordsIn(traces), places(4, 4))
      assert.isTrue(days.every((prompt) => prompt.includes("Today is 2026-11-30")))
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("with failures begun again, whose lines make room", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const container = yield* served()
      const traces = yield* temporaryFolder
      const plan = { tasks: tasks(2), rollouts: 2, traces }
      const fails: Next = (moment) =>
        moment.task.id === "t2" ? new PolicyFailed({ model: "m", reason: "away" }) : looks(moment)
      yield* collected(running([container], plan)).pipe(withPolicy(fails))
      assert.lengthOf(yield* failures(traces), 2)
      assert.deepStrictEqual(yield* recordsIn(traces), places(1, 2))
      yield* collected(running([container], { ...plan, rollouts: 1 })).pipe(withPolicy(looks))
      // The second one was not asked for, and so is still a failure. What a killed process was writing makes room, too.
      yield* fs.writeFileString(`${traces}/failures.ndjson`, '{"task_id": "t', { flag: "a" })
      yield* collected(running([container], { ...plan, rollouts: 1 })).pipe(withPolicy(looks))
      const left = yield* failures(traces)
      assert.lengthOf(left, 1)
      assert.deepInclude(left[0], { task_id: "t2", rollout: 1 })
      yield* collected(running([container], plan)).pipe(withPolicy(looks))
      assert.deepStrictEqual(yield* failures(traces), [])
      assert.deepStrictEqual(yield* recordsIn(traces), places(2, 2))
      assert.deepStrictEqual(yield* supersededIn(traces), Array(3).fill("failures.ndjson"))
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("with void rollouts kept, or done again where that is asked for", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      let reward: number | null = null
      const container = yield* served((id) => (id === "t1" ? reward : 1))
      const traces = yield* temporaryFolder
      const plan = { tasks: tasks(2), rollouts: 2, traces }
      yield* collected(running([container], plan))
      // Files that somebody has compressed are like the others, one of them with nothing but void rollouts.
      const [name = ""] = (yield* fs.readDirectory(traces)).filter((name) => name.endsWith(".jsonl"))
      const [first = "", ...others] = (yield* fs.readFileString(`${traces}/${name}`)).trim().split("\n")
      yield* fs.writeFile(`${traces}/one.jsonl.gz`, gzipSync(`${first}\n`))
      yield* fs.writeFile(`${traces}/rest.jsonl.gz`, gzipSync(others.map((line) => `${line}\n`).join("")))
      yield* fs.remove(`${traces}/${name}`)
      reward = 0
      const [began, ...rest] = yield* collected(running([container], plan))
      assert.deepInclude(began, { total: 4, kept: 4, void: 2, successes: 2 })
      assert.deepStrictEqual(rest, [])
      const { preview } = yield* Rollout.Rollout
      const before = yield* contents(traces)
      const seen = yield* preview({ ...plan, urls: [container.url], retryVoid: true })
      assert.deepInclude(seen, { total: 4, kept: 2, void: 0, successes: 2 })
      assert.deepStrictEqual(
        seen.tasks.map(({ graded, left, void: isVoid }) => [graded, isVoid, left]),
        [
          [0, 2, 2],
          [2, 0, 0]
        ]
      )
      assert.deepStrictEqual(yield* contents(traces), before)
      const again = yield* collected(running([container], { ...plan, retryVoid: true }))
      assert.deepInclude(again[0], { total: 4, kept: 2, void: 0 })
      assert.lengthOf(only(again, "Saved"), 2)
      assert.deepStrictEqual(yield* recordsIn(traces), [...places(1, 2, 0), ...places(2, 2).slice(2)])
      assert.deepStrictEqual(yield* supersededIn(traces), ["one.jsonl.gz", "rest.jsonl.gz"])
      const [time = ""] = yield* fs.readDirectory(`${traces}/superseded`)
      assert.deepStrictEqual(yield* recordsIn(`${traces}/superseded/${time}`), places(1, 2, null))
      // This process' own file was taken from under it, twice; what it saves now is there all the same.
      reward = null
      yield* collected(running([container], { ...plan, rollouts: 3 }))
      yield* collected(running([container], { ...plan, rollouts: 3, retryVoid: true }))
      yield* collected(running([container], { ...plan, rollouts: 4 }))
      assert.lengthOf(yield* recordsIn(traces), 8)
      const calibration = yield* Calibration.Calibration
      const { tasks: calibrated } = yield* calibration.calibrate({ traces, model: "m" })
      assert.deepStrictEqual(
        [...calibrated.values()].map(({ rollouts, void: isVoid }) => [rollouts, isVoid]),
        [
          [2, 2],
          [4, 0]
        ]
      )
    }).pipe(withPolicy(looks), Effect.provide(Layer.provideMerge(Calibration.layer, services(looks))))
  )

  it.scopedLive(
    "with a torn line skipped, a rollout that is there twice counted once, and strangers' records left",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const container = yield* served()
        const traces = yield* temporaryFolder
        yield* collected(running([container], { traces, rollouts: 2 }))
        const [name = ""] = (yield* fs.readDirectory(traces)).filter((name) => name.endsWith(".jsonl"))
        const text = yield* fs.readFileString(`${traces}/${name}`)
        const [line = ""] = text.split("\n")
        yield* fs.writeFileString(`${traces}/killed.jsonl`, `${line}\n${line.slice(0, 300)}`)
        const stranger = { task_id: "t1", reward: 1, metadata: { task_hash: "h1" } }
        // Nor is one of a place that there is not.
        const nowhere = line.replace('"rollout": 0,', '"rollout": -1,')
        assert.notStrictEqual(nowhere, line)
        yield* fs.writeFileString(`${traces}/stranger.jsonl`, `${JSON.stringify(stranger)}\n${nowhere}\n`)
        const { value, warnings } = yield* warningsOf(collected(running([container], { traces, rollouts: 3 })))
        assert.deepInclude(value[0], { total: 3, kept: 2 })
        assert.strictEqual((yield* fs.readFileString(`${traces}/killed.jsonl`)).length, line.length + 301)
        const said = warnings.join("\n")
        assert.match(said, /killed.jsonl, line 2: skipped/)
        assert.match(said, /1 record of rollouts that it holds already: counted once here/)
        assert.match(said, /2 records that this run did not save/)
      }).pipe(withPolicy(looks), Effect.provide(services(looks)))
  )
})

describe("what is another run is refused by name, and nothing changed", () => {
  const was = { model: "m", settings: { temperature: 1 } }
  const cases: ReadonlyArray<
    readonly [difference: string, plan: Plan, policy?: NonNullable<Parameters<typeof withPolicy>[1]>]
  > = [
    ['model was "m" and is "other"', {}, { ...was, model: "other" }],
    ["sampling.temperature was 1 and is 0.5", {}, { ...was, settings: { temperature: 0.5 } }],
    ['sampling.stop was none and is ["x"]', {}, { ...was, settings: { temperature: 1, stop: ["x"] } }],
    ['surface was "api" and is "mcp"', { surface: "mcp" }],
    ["maxSteps was 50 and is 9", { maxSteps: 9 }],
    ["maxSeconds was none and is 5", { maxSeconds: 5 }],
    ["tools.jump was none and is", {}, { ...was, tools: ["jump", "look", "submit"] }],
    ["tools.look was", {}, { ...was, tools: ["submit"] }],
    ['settings.reward was none and is "last"', { settings: { reward: "last" } }],
    ["task t1 was h1 and is h9", { tasks: [{ ...task, task_hash: "h9" }] }]
  ]
  it.scopedLive.each(cases)("%s", ([difference, plan, policy = was]) =>
    Effect.gen(function* () {
      const container = yield* served()
      const traces = yield* temporaryFolder
      yield* collected(running([container], { traces })).pipe(withPolicy(looks, was))
      const before = yield* contents(traces)
      const other = withPolicy(looks, policy)
      const previewed = Effect.flatMap(Rollout.Rollout, ({ preview }) =>
        preview({ tasks: [task], ...plan, traces, urls: [container.url] })
      )
      const refusals = [
        Effect.asVoid(collected(running([container], { ...plan, traces }))),
        Effect.asVoid(previewed)
      ].map((refused) => Effect.flip(refused))
      for (const error of yield* other(Effect.all(refusals))) {
        assert.strictEqual(error._tag, "RunMismatch")
        assert.include(error.message, difference)
      }
      assert.deepStrictEqual(yield* contents(traces), before)
      const fresh = yield* collected(running([container], { ...plan, rollouts: 0, traces, fresh: true })).pipe(other)
      const [began] = only(fresh, "Began")
      assert.deepInclude(began, { kept: 0 })
      assert.deepStrictEqual(yield* supersededIn(traces), ["trace.jsonl", "run.json"])
    }).pipe(Effect.provide(services(looks)))
  )

  it.scopedLive("traces of no run, and a run.json that is none", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const container = yield* served()
      const traces = yield* temporaryFolder
      yield* fs.writeFileString(`${traces}/notes.txt`, "mine")
      yield* fs.writeFileString(`${traces}/old.jsonl`, "")
      const refused = Effect.flip(collected(running([container], { traces })))
      assert.match((yield* refused).message, /it holds traces of no run/)
      yield* fs.writeFileString(`${traces}/run.json`, "{}")
      assert.match((yield* refused).message, /run\.json: it does not say/)
      yield* fs.writeFileString(`${traces}/run.json`, '{"version":2,"day":"2026-11-30","settings":{}}')
      assert.match((yield* refused).message, /run\.json: it is of a later miroir-effect/)
      const events = yield* collected(running([container], { traces, fresh: true }))
      const [began] = only(events, "Began")
      assert.deepStrictEqual(yield* fs.readDirectory(`${began?.superseded}`), ["old.jsonl", "run.json"])
      assert.strictEqual(yield* fs.readFileString(`${traces}/notes.txt`), "mine")
      assert.deepStrictEqual(yield* recordsIn(traces), places(1, 1))
      // In the same process, whose own file has been moved.
      const again = yield* collected(running([container], { traces, fresh: true, rollouts: 2 }))
      assert.deepStrictEqual(yield* recordsIn(traces), places(1, 2))
      assert.deepStrictEqual(yield* recordsIn(`${only(again, "Began")[0]?.superseded}`), places(1, 1))
    }).pipe(withPolicy(looks), Effect.provide(services(looks)))
  )

  it.scopedLive("a beginning anew that a process died in is ended by the next one", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const container = yield* served()
      const traces = yield* temporaryFolder
      yield* collected(running([container], { traces, rollouts: 2 }))
      const names = (yield* fs.readDirectory(traces)).sort()
      yield* fs.makeDirectory(`${traces}/superseded/T`, { recursive: true })
      yield* fs.writeFileString(`${traces}/.superseding.json`, '{"to":"T"}')
      yield* fs.rename(`${traces}/run.json`, `${traces}/superseded/T/run.json`)
      const events = yield* collected(running([container], { traces, maxSteps: 7 }))
      assert.deepInclude(events[0], { total: 1, kept: 0 })
      assert.deepStrictEqual((yield* fs.readDirectory(`${traces}/superseded/T`)).sort(), names)
      assert.deepStrictEqual(yield* recordsIn(`${traces}/superseded/T`), places(1, 2))
      assert.deepStrictEqual(yield* recordsIn(traces), places(1, 1))
    }).pipe(withPolicy(looks), Effect.provide(services(looks)))
  )
})

describe("the lock", () => {
  const lockOf = (folder: string) => `${folder}/run.lock`

  const lockBy = (folder: string, holder: Json.JsonObject) =>
    Effect.flatMap(FileSystem.FileSystem, (fs) =>
      fs.writeFileString(
        lockOf(folder),
        JSON.stringify({
          host: hostname(),
          pid: process.pid,
          since: "2026-11-30T05:33:26Z",
          born: null,
          id: "it",
          ...holder
        })
      )
    )

  /** Of a process that has ended. */
  const gone = spawnSync(process.execPath, ["-e", ""]).pid

  it.scopedLive("keeps a second run out until the first is over", () =>
    Effect.gen(function* () {
      const container = yield* served()
      const traces = yield* temporaryFolder
      const second = Effect.flip(collected(running([container], { traces })))
      yield* running([container], { traces }).pipe(
        Stream.runForEach((event) =>
          Effect.gen(function* () {
            if (event._tag !== "Began") return
            const error = yield* second
            assert.strictEqual(error._tag, "RunLocked")
            assert.deepInclude(error, { folder: traces, host: hostname(), pid: process.pid })
            assert.include(error.message, `remove ${lockOf(traces)}`)
          })
        )
      )
      const events = yield* collected(running([container], { traces }))
      assert.deepInclude(events[0], { kept: 1 })
    }).pipe(withPolicy(looks), Effect.provide(services(looks)))
  )

  const holders: ReadonlyArray<readonly [what: string, holder: Json.JsonObject | string, isTaken: boolean]> = [
    ["of a process that is gone is taken over", { pid: gone }, true],
    ["of a process of another time, whose pid is another one's now, too", { born: "long ago" }, true],
    ["of a process that is there is not", {}, false],
    ["of another host is not", { pid: gone, host: "elsewhere" }, false],
    ["that says nothing is not", "", false]
  ]
  it.scoped.each(holders)("%s", ([, holder, isTaken]) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      if (typeof holder === "string") yield* fs.writeFileString(lockOf(folder), holder)
      else yield* lockBy(folder, holder)
      const before = yield* fs.readFileString(lockOf(folder))
      const held = yield* Effect.exit(Effect.scoped(RunLock.hold(folder)))
      assert.strictEqual(Exit.isSuccess(held), isTaken)
      const left = yield* contents(folder)
      assert.deepStrictEqual(left, isTaken ? {} : { "run.lock": before })
    }).pipe(Effect.provide(files))
  )

  it.scoped("that is a link which leads nowhere is told", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      yield* fs.symlink("nowhere", lockOf(folder))
      const failure = yield* Effect.flip(Effect.scoped(RunLock.hold(folder)))
      assert.strictEqual(failure.message, `${lockOf(folder)}: it is a link that leads nowhere: remove it.`)
    }).pipe(Effect.provide(files))
  )

  const claims: ReadonlyArray<readonly [what: string, claimed: boolean]> = [
    ["is taken over by one of many that try at once", false],
    ["is so too where a process died in taking it over", true]
  ]
  it.scopedLive.each(claims)("%s", ([, claimed]) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      for (let round = 0; round < 20; round++) {
        const folder = yield* temporaryFolder
        yield* lockBy(folder, { pid: gone, id: "first" })
        if (claimed) {
          yield* fs.writeFileString(
            `${folder}/.run.lock.after-first`,
            JSON.stringify({ host: hostname(), pid: gone, since: "then", born: null, id: "second" })
          )
        }
        const scope = yield* Scope.make()
        const takers = Array.from({ length: 8 }, (_, index) =>
          Effect.yieldNow().pipe(
            Effect.repeatN(index % 3),
            Effect.zipRight(Effect.either(Scope.extend(RunLock.hold(folder), scope)))
          )
        )
        const taken = yield* Effect.all(takers, { concurrency: "unbounded" })
        assert.lengthOf(taken.filter(Either.isRight), 1)
        for (const refused of taken.filter(Either.isLeft)) assert.strictEqual(refused.left._tag, "RunLocked")
        assert.deepStrictEqual(Object.keys(yield* contents(folder)), ["run.lock"])
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* contents(folder), {})
      }
    }).pipe(Effect.provide(files))
  )
})
