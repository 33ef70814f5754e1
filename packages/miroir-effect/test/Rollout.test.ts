/** `miroir-effect rollout`, as a process of its own, on real containers and endpoints. */
import { access, mkdir, readdir, readFile, writeFile } from "node:fs/promises"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constFalse, constTrue } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Miroir from "miroir-effect/Miroir"
import { held, type Instead, office, type Played } from "./office.js"
import { run, start, type Variables } from "./program.js"

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const text = (file: string) => Effect.promise(() => readFile(file, "utf8"))

const json = (file: string) => Effect.map(text(file), (content) => JSON.parse(content))

const appears = (file: string) =>
  Effect.repeat(
    Effect.promise(() => access(file).then(constTrue, constFalse)),
    { until: (there) => there, schedule: Schedule.spaced("5 millis") }
  )

layer(Layer.merge(NodeFileSystem.layer, Miroir.layer()), { excludeTestServices: true })("rollout", (it) => {
  it.scoped("plays, saves, calibrates and says what fell short; goes on from there, on what can be learned", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const { allFree, args } = yield* office(3)
      const calibrating = ["--rollouts", "4", "--calibrate", "out/c.json"]
      const first = yield* run(folder, [...args, "--split", "test", ...calibrating])
      assert.strictEqual(first.code, 0, first.stderr)
      yield* allFree
      const calibration = yield* json(`${folder}/out/c.json`)
      const ids = Object.keys(calibration.tasks)
      assert.lengthOf(ids, 4)
      assert.lengthOf(yield* held(`${folder}/traces`), 16)
      const voids = ids.reduce((sum, id) => sum + calibration.tasks[id].void, 0)
      assert.include(first.stdout, `${16 - voids} of 16 rollouts graded, `)
      assert.include(first.stdout, "written to out/c.json")
      assert.match(first.stderr, /^16 of 16 rollouts: \d+ succeeded, \d+ void, 0 failed\.$/m)

      // Only what is left is done, and nobody plays a rollout twice.
      const learnable = ids.filter((id) => calibration.tasks[id].class === "learnable")
      assert.isNotEmpty(learnable)
      const more = ["--split", "test", "--calibration", "out/c.json", "--keep", "learnable", "--rollouts", "6"]
      const dry = yield* run(folder, [...args, ...more, "--dry-run", "--json"])
      assert.deepInclude(JSON.parse(dry.stdout), { rollouts: 6 * learnable.length, left: 2 * learnable.length })
      assert.lengthOf(yield* held(`${folder}/traces`), 16)
      const second = yield* run(folder, [...args, ...more, "--json"])
      assert.strictEqual(second.code, 0, second.stderr)
      const report = JSON.parse(second.stdout)
      assert.deepInclude(report, { model: "m", rollouts: 6 * learnable.length, failed: 0 })
      assert.strictEqual(report.graded + report.void, 6 * learnable.length)
      const places = yield* held(`${folder}/traces`)
      assert.lengthOf(places, 16 + 2 * learnable.length)
      assert.lengthOf(new Set(places), places.length)

      // Another run is not mixed with it.
      const other = yield* run(folder, [...args, ...more, "--temperature", "0.5", "--max-steps", "7"])
      assert.deepInclude(other, { code: 1, stdout: "" })
      assert.match(
        other.stderr,
        /^error: The run in traces is another one: .*temperature was .* and is 0\.5.*--fresh\)\.$/m
      )
      assert.match(other.stderr, /max.?steps was 50 and is 7/i)
      const fresh = yield* run(folder, [...args, "--split", "test", "--rollouts", "1", "--fresh"])
      assert.strictEqual(fresh.code, 0, fresh.stderr)
      assert.lengthOf(yield* held(`${folder}/traces`), 4)
      const [time] = yield* Effect.promise(() => readdir(`${folder}/traces/superseded`))
      assert.deepStrictEqual(yield* held(`${folder}/traces/superseded/${time}`), places)
    })
  )

  it.scoped("a run that has saved nothing is taken for another; a calibration keeps of the tasks that it knows", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const { args } = yield* office(2, {
        policy: ({ body }) =>
          Json.isObject(body) && body.model === "typo" ? { status: 404, body: { error: "no such model" } } : undefined
      })
      const one = [...args.map((arg) => (arg === "m" ? "typo" : arg)), "--task", "send-minutes", "--rollouts", "3"]
      const typo = yield* run(folder, one)
      assert.strictEqual(typo.code, 1)
      assert.notInclude(typo.stderr, "goes on from there")
      const some = [...args, "--task", "send-minutes", "--task", "file-invoice", "--rollouts", "3"]
      const mended = yield* run(folder, [...some, "--calibrate", "c.json"])
      assert.strictEqual(mended.code, 0, mended.stderr)
      const dry = yield* run(folder, [...args, "--calibration", "c.json", "--keep", "solved", "--dry-run", "--json"])
      assert.strictEqual(dry.code, 0, dry.stderr)
      assert.include(dry.stderr, "warning: Left out 10 tasks that c.json does not know.")
      const kept: ReadonlyArray<{ task_id: string }> = JSON.parse(dry.stdout).tasks
      assert.includeMembers(
        ["send-minutes", "file-invoice"],
        Array.from(kept, ({ task_id }) => task_id)
      )
      // Another model's name on the same traces is doubted.
      const other = yield* run(folder, ["calibrate", "traces", "--model", "n"])
      assert.include(other.stderr, "warning: traces begins with a rollout of m, not of n; all of it is calibrated\n")
    })
  )

  it.scoped("calibrates without the records of other models, and counts them", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const { args } = yield* office(1)
      const one = [
        ...args,
        "--task",
        "file-invoice",
        "--task",
        "clear-draft",
        "--rollouts",
        "2",
        "--calibrate",
        "c.json"
      ]
      assert.strictEqual((yield* run(folder, one)).code, 0)
      const before = yield* text(`${folder}/c.json`)
      const [name] = (yield* Effect.promise(() => readdir(`${folder}/traces`))).filter((name) =>
        name.endsWith(".jsonl")
      )
      const lines = yield* text(`${folder}/traces/${name}`)
      yield* Effect.promise(() =>
        writeFile(
          `${folder}/traces/others.jsonl`,
          lines.replaceAll('"rollout": {"model": "m"', '"rollout": {"model": "n"')
        )
      )
      const again = yield* run(folder, one)
      assert.include(again.stderr, "warning: Left out 4 records of other models.")
      assert.strictEqual(yield* text(`${folder}/c.json`), before)
    })
  )

  it.scoped("killed at any moment and started again, it loses nothing that was saved, and does nothing twice", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const { allFree, args } = yield* office(3)
      // So many that none of the ten comes to the end before it is killed.
      const all = [...args, "--rollouts", "12", "--log-level", "debug"]
      yield* run(folder, [...all, "--traces", "undisturbed", "--calibrate", "undisturbed.json"])
      const saved = new Set<string>()
      for (let kill = 0; kill < 10; kill++) {
        const before = (yield* held(`${folder}/traces`)).length
        const program = yield* start(folder, all)
        // At once, or when a few more are saved: each time elsewhere.
        yield* program.says(kill === 0 ? /./ : new RegExp(`(?:is saved in[^]*){${1 + (kill % 4)}}`))
        yield* Effect.sleep((kill * 37) % 90)
        program.child.kill("SIGKILL")
        const { stderr } = yield* program.ended
        for (const [, number, id] of stderr.matchAll(/^debug: Rollout (\d+) of (\S+) is saved in/gm)) {
          const place = `${id} ${Number(number) - 1}`
          assert.isFalse(saved.has(place), `${place} was done again`)
          saved.add(place)
        }
        const places = yield* held(`${folder}/traces`)
        assert.isAtLeast(places.length, before)
        assert.includeMembers(Array.from(places), Array.from(saved))
        yield* allFree
      }
      const last = yield* run(folder, [...all, "--calibrate", "c.json"])
      assert.strictEqual(last.code, 0, last.stderr)
      const places = yield* held(`${folder}/traces`)
      assert.lengthOf(places, 144)
      assert.lengthOf(new Set(places), 144)
      assert.strictEqual(yield* text(`${folder}/c.json`), yield* text(`${folder}/undisturbed.json`))
    })
  )

  /** Where a run stands when the signal comes, and what keeps it there until `go`. */
  const phases: ReadonlyArray<{
    readonly name: string
    readonly policy?: ChatEndpoint.ChatAnswer
    readonly coworker?: ChatEndpoint.ChatAnswer
    readonly leased?: boolean
    readonly until: (office: Played, folder: string) => Effect.Effect<unknown>
  }> = [
    { name: "waiting for a container", leased: true, until: (_, folder) => appears(`${folder}/traces/run.lock`) },
    { name: "asking the model", policy: { hang: true }, until: ({ policy }) => policy.awaitRequests(1) },
    { name: "pausing before it asks again", policy: { status: 500 }, until: ({ policy }) => policy.awaitRequests(2) },
    { name: "asking for a coworker", coworker: { hang: true }, until: ({ coworker }) => coworker.awaitRequests(1) }
  ]
  for (const { coworker, leased = false, name, policy, until } of phases) {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143]
    ] as const) {
      it.scoped(`${signal} while it is ${name}: ends, leases nothing, says how to go on, and can`, () =>
        Effect.gen(function* () {
          const folder = yield* temporary
          let stands = true
          const while_ =
            (answer?: ChatEndpoint.ChatAnswer): Instead =>
            () =>
              stands ? answer : undefined
          const played = yield* office(1, { policy: while_(policy), coworker: while_(coworker) })
          const args = [...played.args, "--task", "travel-budget", "--rollouts", "2"]
          const scope = yield* Scope.make()
          if (leased) {
            const { lease } = yield* Leasing.Leasing
            yield* Scope.extend(lease({ urls: played.urls, waitBusy: false }), scope)
          }
          const { child, ended } = yield* start(folder, args)
          yield* until(played, folder)
          child.kill(signal)
          const stopped = yield* Effect.timeout(ended, "5 seconds")
          assert.deepInclude(stopped, { code, stdout: "" })
          assert.include(stopped.stderr, "What is saved is in traces; the same command goes on from there.\n")
          assert.deepStrictEqual(yield* held(`${folder}/traces`), [])
          yield* Scope.close(scope, Exit.void)
          yield* played.allFree
          stands = false
          const resumed = yield* run(folder, args)
          assert.strictEqual(resumed.code, 0, resumed.stderr)
          assert.deepStrictEqual(yield* held(`${folder}/traces`), ["travel-budget 0", "travel-budget 1"])
        })
      )
    }
  }

  it.scoped("a model that refuses the key ends the run at once, saying what to change; the key is in no output", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const { allFree, args, policy } = yield* office(2, {
        policy: ({ headers }) =>
          headers.authorization === "Bearer right-key-0123"
            ? undefined
            : { status: 401, body: { error: { message: `Incorrect API key: ${headers.authorization}` } } }
      })
      const one = [...args, "--task", "file-invoice", "--rollouts", "1"]
      const refused = yield* run(folder, [...one, "--log-level", "debug"], { MIROIR_POLICY_API_KEY: "wrong-key-0123" })
      assert.deepInclude(refused, { code: 1, stdout: "" })
      assert.match(refused.stderr, /^error: .*401.*MIROIR_POLICY_API_KEY.*$/m)
      assert.notInclude(refused.stderr, "wrong-key-0123")
      assert.lengthOf(yield* policy.requests, 1)
      yield* allFree
      const accepted = yield* run(folder, [...one, "--log-level", "debug"], { MIROIR_POLICY_API_KEY: "right-key-0123" })
      assert.strictEqual(accepted.code, 0, accepted.stderr)
      for (const name of yield* Effect.promise(() => readdir(`${folder}/traces`))) {
        assert.notInclude(yield* text(`${folder}/traces/${name}`), "key-0123")
      }
    })
  )

  it.scoped(
    "what is wrong with the settings is told at once, by the name that it was given by, before anything is played",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        const { args, policy, urls } = yield* office(1)
        yield* Effect.promise(() => mkdir(`${folder}/c`))
        yield* Effect.promise(() => writeFile(`${folder}/t.jsonl`, '{"id": "t", "prompt": "Look."}\n'))
        const base = ["--base-url", policy.url]
        const wrong: ReadonlyArray<
          readonly [code: number, said: RegExp, more: ReadonlyArray<string>, variables?: Variables]
        > = [
          [2, /^error: --extra-body cannot have stream, since/, [...base, "--extra-body", '{"stream":true}']],
          [2, /^error: --base-url: "localhost:8000\/v1" is no base URL/, ["--base-url", "localhost:8000/v1"]],
          [
            2,
            /^error: MIROIR_POLICY_API_KEY has characters that a header cannot hold/,
            base,
            { MIROIR_POLICY_API_KEY: "k\r" }
          ],
          [1, /^error: http:\S+ is no OpenEnv server: .* leave --seeds away\.\n$/, [...base, "--seeds", "0..9"]],
          [
            2,
            /^error: --calibrate: \.\/t\.jsonl is one of the files that are read/,
            [...base, "--tasks", "t.jsonl", "--calibrate", "./t.jsonl"]
          ],
          [2, /^error: MIROIR_LEASE_TIMEOUT: Expected a duration/, base, { MIROIR_LEASE_TIMEOUT: "soon" }],
          [1, /^error: Calibration file c: it is a folder\.$/m, [...base, "--calibrate", "c"]],
          ...["run.json", "failures.ndjson", "x.jsonl.gz"].map(
            (name) =>
              [
                2,
                /^error: --calibrate: .* is a name that the run's own files have/,
                [...base, "--calibrate", `./traces/${name}`]
              ] as const
          )
        ]
        for (const [code, said, more, variables] of wrong) {
          const refused = yield* run(folder, ["rollout", "--model", "m", ...urls, ...more], variables)
          assert.deepInclude(refused, { code, stdout: "" })
          assert.match(refused.stderr, said)
        }
        assert.deepStrictEqual(yield* Effect.promise(() => readdir(folder)), ["c", "t.jsonl"])
        assert.isEmpty(yield* policy.requests)

        // Where it is known only at the end, what was played is told all the same.
        const once = ["--task", "file-invoice", "--rollouts", "1", "--calibrate", "c/c.json", "--json"]
        const single = yield* run(folder, [...args, ...once])
        assert.strictEqual(single.code, 1)
        assert.deepInclude(JSON.parse(single.stdout), { rollouts: 1, calibration: null })
        assert.match(single.stderr, /^error: None of 1 task has 2 graded rollouts/m)
        // And any number of rollouts is a plan.
        const many = yield* run(folder, [
          ...args,
          "--task",
          "file-invoice",
          "--rollouts",
          "1000000000000",
          "--dry-run",
          "--json"
        ])
        assert.deepInclude(JSON.parse(many.stdout), { rollouts: 1e12, kept: 1, left: 1e12 - 1 })
      })
  )

  it.scoped("rollouts that are given up are told, and tried again by the same command", () =>
    Effect.gen(function* () {
      const folder = yield* temporary
      let broken = true
      const task = { id: "t", task_hash: "h", prompt: "Look." }
      yield* Effect.promise(() => writeFile(`${folder}/tasks.jsonl`, JSON.stringify(task)))
      const container = yield* ScriptedContainer.make({
        tools: { api: [{ name: "look" }] },
        replies: ({ type }) =>
          type === "record"
            ? { send: { type, data: { task_id: "t", reward: 1, metadata: { task_hash: "h", success: true } } } }
            : type === "step" && broken
              ? { send: { type: "error", data: { code: "OUT_OF_ORDER", message: "the lift is stuck" } } }
              : // A Miroir env's reset may say so too, which means nothing there.
                { raw: '{"data":{"observation":{},"done":true}}' }
      })
      const endpoint = yield* ChatEndpoint.make({ answers: () => ({ calls: [{ tool: "look" }] }) })
      const args = [
        "rollout",
        "--model",
        "m",
        "--base-url",
        endpoint.url,
        "--tasks",
        "tasks.jsonl",
        "--rollouts",
        "2",
        container.url
      ]
      const failed = yield* run(folder, args)
      assert.strictEqual(failed.code, 1)
      assert.match(failed.stdout, /^t +0 +0 +2$/m)
      assert.match(
        failed.stderr,
        /^error: 2 rollouts given up; failures\.ndjson in traces says why; the same command tries again\.$/m
      )
      const failures = (yield* text(`${folder}/traces/failures.ndjson`)).trimEnd().split("\n")
      assert.lengthOf(failures, 2)
      assert.deepInclude(JSON.parse(failures[0] ?? ""), { task_id: "t", code: "OUT_OF_ORDER" })
      broken = false
      assert.strictEqual((yield* run(folder, args)).code, 0)
      assert.lengthOf(yield* held(`${folder}/traces`), 2)
    })
  )
})
