/** Calibration: from trace files to classes, their file, and the tasks to keep. */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as EpisodeRecord from "@miroir-effect/core/EpisodeRecord"
import type { Json, JsonObject } from "@miroir-effect/core/Json"
import type { Outcome } from "@miroir-effect/core/Outcome"
import * as Tally from "@miroir-effect/core/Tally"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Stream from "effect/Stream"
import * as Binary from "../src/internal/binary.js"
import { byCodePoints, orderByCodePoints } from "../src/internal/codePoints.js"
import { changed, files, lines, systemError, temporaryFolder, written } from "./support/files.js"

const vectors = (name: string) => readFileSync(new URL(`./vectors/${name}.json`, import.meta.url), "utf8")

const calibrations: ReadonlyArray<{
  readonly name: string
  readonly traces: ReadonlyArray<ReadonlyArray<JsonObject>>
  readonly model: string
  readonly k: number | null
  readonly calibration?: JsonObject
  readonly rates?: Record<string, ReadonlyArray<string>>
  readonly error?: string
}> = JSON.parse(vectors("calibrations"))

const filters: ReadonlyArray<{
  readonly name: string
  readonly tasks: ReadonlyArray<{ readonly id: string; readonly task_hash: string }>
  readonly calibration: JsonObject | string
  readonly keep: ReadonlyArray<string> | null
  readonly kept?: ReadonlyArray<string>
  readonly error?: string
}> = JSON.parse(vectors("filters"))

const tags: Record<string, string> = {
  "k below 1": "InvalidK",
  "two versions of a task": "TaskVersionConflict",
  "no task has a class": "NoClassableTask",
  keep: "UnknownClass",
  stale: "StaleCalibration",
  "none kept": "NoTaskKept",
  "not a calibration": "CalibrationFileError"
}

const record = (task_id: string, reward: number | null, success: Json = reward === 1, task_hash = "h"): JsonObject => ({
  task_id,
  reward,
  metadata: { task_hash, success }
})

const calibrated = (records: ReadonlyArray<JsonObject>, k?: number) =>
  Effect.gen(function* () {
    const traces = yield* written("t.jsonl", lines(records))
    return yield* (yield* Calibration.Calibration).calibrate({ traces, model: "m", k })
  })

const outcome = (taskId: string, reward: number | null, rest: Partial<Outcome> = {}): Outcome => ({
  taskId,
  taskHash: "h",
  reward,
  success: reward === 1,
  harm: false,
  ...rest
})

describe("calibrate", () => {
  for (const { calibration, error, k, model, name, rates, traces } of calibrations) {
    it.scoped(`vector: ${name}`, () =>
      Effect.gen(function* () {
        const service = yield* Calibration.Calibration
        const fs = yield* FileSystem.FileSystem
        const folder = yield* temporaryFolder
        yield* Effect.forEach(traces, (records, index) =>
          fs.writeFileString(`${folder}/${index}.jsonl`, lines(records))
        )
        const options = { traces: folder, model, k: k ?? undefined }
        if (error !== undefined) {
          const failure = yield* Effect.flip(service.calibrate(options))
          assert.strictEqual(failure._tag, tags[error])
          assert.notInclude(failure.message, "\n")
          return
        }
        const result = yield* service.calibrate(options)
        yield* service.write(`${folder}/new/folder/out.json`, result)
        const file = yield* fs.readFileString(`${folder}/new/folder/out.json`)
        assert.deepStrictEqual(JSON.parse(file), calibration)
        for (const row of CalibrationReport.table(result).split("\n").slice(1)) {
          const [id = "", ...cells] = row.split(/ {2,}/)
          assert.deepStrictEqual(cells.slice(3), rates?.[id])
        }
      }).pipe(Effect.provide(files))
    )
  }

  it.scoped("keeps ids that are no good as keys of an object, in code point order", () =>
    Effect.gen(function* () {
      const ids = [
        "10",
        "9",
        "__proto__",
        "constructor",
        "a",
        "\u{1F600}",
        "～",
        "toString",
        "",
        "\ud83d",
        "\ud83d\u0041"
      ]
      const result = yield* calibrated(ids.flatMap((id) => [record(id, 1), record(id, 0)]))
      const sorted = [
        "",
        "10",
        "9",
        "__proto__",
        "a",
        "constructor",
        "toString",
        "\ud83d",
        "\ud83d\u0041",
        "～",
        "\u{1F600}"
      ]
      assert.deepStrictEqual(Array.from(result.tasks.keys()), sorted)
      const text = Calibration.encode(result)
      assert.match(text, /^[ -~\n]*$/)
      const written = Array.from(text.matchAll(/^ {4}("[^\n]*"): \{$/gm), ([, id = ""]) => JSON.parse(id))
      assert.deepStrictEqual(written, sorted)
    }).pipe(Effect.provide(files))
  )

  it("orders ids by code points, whatever they are made of", () => {
    const ids = FastCheck.oneof(
      FastCheck.tuple(
        FastCheck.constantFrom("", "office-", "é"),
        FastCheck.array(FastCheck.stringMatching(/^[0-9a-c\u00ff]{0,4}$/))
      ).map(([start, ends]) => ends.map((end) => start + end)),
      FastCheck.array(FastCheck.string({ unit: "binary", maxLength: 3 })),
      FastCheck.array(FastCheck.stringMatching(/^(x{60}|y{70})?[ab]{0,2}$/))
    )
    FastCheck.assert(
      FastCheck.property(ids, (ids) => {
        assert.deepStrictEqual(
          Array.from(orderByCodePoints(ids), (at) => ids[at]),
          ids.toSorted(byCodePoints)
        )
      }),
      { numRuns: 1000 }
    )
  })

  it.scoped("gives success and harm Python's truth, and counts them only where there is a reward", () =>
    Effect.gen(function* () {
      const truths: ReadonlyArray<Json> = [true, 1, -0.5, "no", [0], { a: null }, false, null, 0, "", [], {}]
      const { tasks } = yield* calibrated(
        truths.map((truth) => ({ task_id: "t", reward: 1, metadata: { task_hash: "h", success: truth, harm: truth } }))
      )
      assert.strictEqual(tasks.get("t")?.["pass@1"], 0.5)
      assert.strictEqual(tasks.get("t")?.harm_rate, 0.5)
      const voids = yield* calibrated([
        record("t", 1),
        record("t", 0, false),
        { task_id: "t", reward: null, metadata: { task_hash: "h", success: true, harm: true } }
      ])
      const task = voids.tasks.get("t")
      assert.deepStrictEqual([task?.void, task?.["pass@1"], task?.harm_rate], [1, 0.5, 0])
    }).pipe(Effect.provide(files))
  )

  it.scoped("refuses a k that is no whole number of at least 1, before it reads", () =>
    Effect.gen(function* () {
      const service = yield* Calibration.Calibration
      for (const k of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
        const failure = yield* Effect.flip(service.calibrate({ traces: "/nowhere", model: "m", k }))
        assert.strictEqual(failure._tag, "InvalidK")
      }
    }).pipe(Effect.provide(files))
  )

  it.scoped("names a task's two versions, void records included, whatever their order", () =>
    Effect.gen(function* () {
      const records = ["h3", "h1", "h2"].map((hash) => record("t", null, null, hash))
      for (const some of [records, records.toReversed(), [...records.slice(1), ...records.slice(0, 1)]]) {
        const failure = yield* Effect.flip(calibrated([record("a", 1), ...some]))
        assert.deepInclude(failure, { _tag: "TaskVersionConflict", taskId: "t", hashes: ["h1", "h2"] })
      }
    }).pipe(Effect.provide(files))
  )
})

describe("tally", () => {
  const reward = FastCheck.oneof(
    FastCheck.constantFrom(null, 0, 1, 0.5, 0.1, -0, 5e-324, -1e308, 1.7e308, 2 ** -481, 2 ** 451, 1e-162),
    FastCheck.double({ min: 0, max: 1, noNaN: true }),
    FastCheck.double({ noNaN: true, noDefaultInfinity: true })
  )
  const outcomes = FastCheck.array(
    FastCheck.record({
      taskId: FastCheck.constantFrom("a", "b", "__proto__"),
      taskHash: FastCheck.constant("h"),
      reward,
      success: FastCheck.constantFrom(true, false, null),
      harm: FastCheck.boolean()
    }),
    { minLength: 4, maxLength: 30 }
  )
  const text = (tally: Tally.Tally) =>
    Either.match(Calibration.fromTally(tally, { model: "m" }), {
      onLeft: (error) => error.message,
      onRight: (result) => `${result.tellsSuccess} ${Calibration.encode(result)}`
    })

  it("combines to the same file in any order and grouping", () => {
    FastCheck.assert(
      FastCheck.property(
        outcomes,
        FastCheck.array(FastCheck.nat(29), { maxLength: 4 }),
        FastCheck.infiniteStream(FastCheck.nat()),
        (all, cuts, order) => {
          const whole = text(Tally.fromOutcomes(all))
          const shuffled = all
            .map((one) => ({ one, key: order.next().value }))
            .sort((a, b) => a.key - b.key)
            .map(({ one }) => one)
          const ends = [...cuts, all.length].sort((a, b) => a - b)
          const pieces = ends.map((end, index) => Tally.fromOutcomes(shuffled.slice(ends[index - 1] ?? 0, end)))
          assert.strictEqual(text(pieces.reduce(Tally.combine, Tally.empty)), whole)
          assert.strictEqual(text(pieces.reduceRight((one, other) => Tally.combine(other, one), Tally.empty)), whole)
        }
      ),
      { numRuns: 500 }
    )
  })

  it("leaves what it combines as it was", () => {
    const one = Tally.fromOutcomes([outcome("t", 1), outcome("t", 0.1)])
    const before = text(one)
    const both = Tally.combine(one, one)
    Tally.combine(both, one)
    assert.strictEqual(text(one), before)
    assert.strictEqual(both.tasks.get("t")?.graded, 4)
  })

  it("has the exact mean and variance, rounded", () => {
    const figures = (rewards: ReadonlyArray<number>) => {
      const tally = Tally.fromOutcomes(rewards.map((reward) => outcome("t", reward)))
      const task = Either.getOrThrow(Calibration.fromTally(tally, { model: "m" })).tasks.get("t")
      return [task?.reward_mean, task?.reward_variance]
    }
    // Python's statistics.fmean and the variance of fractions.
    for (const [rewards, mean, variance] of [
      [[0.1, 0.2, 0.3], 0.19999999999999998, 0.006666666666666665],
      [[1e8 + 0.1, 1e8 + 0.2, 1e8 + 0.4], 100000000.23333333, 0.015555556681421093],
      [[1e16, 1, -1e16, 1], 0.5, 5e31],
      [[5e-324, 0], 0, 0],
      [[1e-170, 3e-170], 2e-170, 0],
      [[1.5e308, 1.7e308], 1.6e308, Number.POSITIVE_INFINITY],
      [[2 ** 460, 2 ** 461], 3 * 2 ** 459, 2 ** 918]
    ] as const) {
      assert.deepStrictEqual(figures(rewards), [mean, variance])
    }
    const whole = FastCheck.oneof(FastCheck.bigInt(0n, 9n), FastCheck.bigInt(-(2n ** 53n), 2n ** 53n))
    // Far from 0 and close together, nearly all of the sums cancels.
    const close = FastCheck.bigInt(0n, 1000n).map((more) => 2n ** 52n + more)
    const same = FastCheck.tuple(whole, whole).chain((values) => FastCheck.array(FastCheck.constantFrom(...values)))
    FastCheck.assert(
      FastCheck.property(
        FastCheck.oneof(FastCheck.array(whole), FastCheck.array(close), same),
        FastCheck.integer({ min: -420, max: 300 }),
        (rewards, exponent) => {
          FastCheck.pre(new Set(rewards).size > 1)
          const n = BigInt(rewards.length)
          const total = rewards.reduce((sum, reward) => sum + reward, 0n)
          const squares = rewards.reduce((sum, reward) => sum + reward * reward, 0n)
          assert.deepStrictEqual(figures(rewards.map((reward) => Number(reward) * 2 ** exponent)), [
            Binary.nearest(total, 1n, exponent) / rewards.length,
            Binary.nearest(n * squares - total * total, n * n, 2 * exponent)
          ])
        }
      ),
      { numRuns: 2000 }
    )
  })

  it("leaves to exact numbers what two doubles do not tell", () => {
    const half = 2 ** -53
    for (const [low, sum] of [
      [half, Number.NaN],
      [half * (1 - 2 ** -20), Number.NaN],
      [half * (1 - 2 ** -10), 1],
      [half * 1.5, 1 + 2 * half],
      [-half / 2, Number.NaN],
      [-half / 4, 1]
    ] as const) {
      assert.deepStrictEqual(Binary.certain(1, low), sum)
      assert.deepStrictEqual(Binary.quotient(3, 3 * low, 3), sum)
    }
  })

  it.effect("takes records and outcomes; of a record without what it needs it gives the number", () =>
    Effect.gen(function* () {
      const make = (value: Json) => Either.getOrThrow(EpisodeRecord.EpisodeRecord.fromValue(value))
      const records = [record("t", 1), record("t", 0), { ...record("t", null), reward: 2n ** 60n }]
      const tallied = yield* Stream.run(
        Stream.concat(Stream.fromIterable(records.map(make)), Stream.make(outcome("t", 1))),
        Calibration.tally
      )
      assert.deepInclude(tallied.tasks.get("t"), { graded: 4, successes: 2, highestReward: 2 ** 60 })
      const failure = yield* Stream.run(
        Stream.fromIterable([record("t", 1), { reward: 1, metadata: {} }].map(make)),
        Calibration.tally
      ).pipe(Effect.flip)
      assert.strictEqual(failure.message, "Record 2: it has no task_id.")
    })
  )
})

describe("calibration file", () => {
  it("is Python's json.dumps to the byte", () => {
    const figures = { "pass@k": null, "pass^k": null, harm_rate: 0 }
    const text = Calibration.encode({
      model: "acme/ö \u{1F600}",
      k: 8,
      tellsSuccess: true,
      tasks: new Map([
        [
          "10",
          {
            task_hash: "h",
            class: "learnable",
            rollouts: 8,
            void: 0,
            "pass@1": 0.125,
            "pass@k": 1,
            "pass^k": 3.4798490543072624e-14,
            reward_mean: 1e-5,
            reward_variance: 1e16,
            harm_rate: 0
          }
        ],
        [
          "__proto__",
          {
            ...figures,
            task_hash: 'h"\\\n\u007f',
            class: null,
            rollouts: 1,
            void: 2,
            "pass@1": 1,
            reward_mean: -2.5,
            reward_variance: 0,
            harm_rate: 1
          }
        ],
        [
          "～",
          {
            ...figures,
            task_hash: "h",
            class: "solved",
            rollouts: 2,
            void: 0,
            "pass@1": 1,
            reward_mean: Number.POSITIVE_INFINITY,
            reward_variance: Number.NaN
          }
        ]
      ])
    })
    assert.strictEqual(text, vectors("calibration-file"))
  })

  it.scoped("is written whole or not at all, and leaves nothing beside it", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      const result = yield* calibrated([record("t", 1), record("t", 0)])
      const service = yield* Calibration.Calibration
      yield* fs.writeFileString(`${folder}/c.json`, "old")
      yield* service.write(`${folder}/c.json`, result)
      assert.strictEqual(yield* fs.readFileString(`${folder}/c.json`), Calibration.encode(result))

      // A folder is in the way of the last step.
      yield* fs.makeDirectory(`${folder}/d.json/x`, { recursive: true })
      const failure = yield* Effect.flip(service.write(`${folder}/d.json`, result))
      assert.strictEqual(failure._tag, "CalibrationFileError")
      assert.strictEqual(failure.message, `Calibration file ${folder}/d.json: it is a folder.`)
      yield* fs.writeFileString(`${folder}/file`, "")
      assert.strictEqual(
        (yield* Effect.flip(service.write(`${folder}/file/c.json`, result)))._tag,
        "CalibrationFileError"
      )
      // All of which can be known before.
      yield* service.writable(`${folder}/c.json`)
      assert.deepStrictEqual(yield* Effect.flip(service.writable(`${folder}/d.json`)), failure)
      assert.match(
        (yield* Effect.flip(service.writable(`${folder}/file/c.json`))).message,
        /^Calibration file .*\/file\/c\.json: it is there already, and no folder\.$/
      )
      yield* service.writable(`${folder}/new/e.json`)
      assert.deepStrictEqual(yield* fs.readDirectory(`${folder}/new`), [])
      assert.strictEqual(yield* fs.readFileString(`${folder}/c.json`), Calibration.encode(result))
      assert.deepStrictEqual((yield* fs.readDirectory(folder)).sort(), ["c.json", "d.json", "file", "new"])
    }).pipe(Effect.provide(files))
  )

  it.scoped("goes where a link leads, and into what is no file, without replacing either", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const service = yield* Calibration.Calibration
      const folder = yield* temporaryFolder
      const result = yield* calibrated([record("t", 1), record("t", 0)])
      yield* fs.makeDirectory(`${folder}/real`)
      yield* fs.writeFileString(`${folder}/real/c.json`, "before")
      yield* fs.symlink("real/c.json", `${folder}/link.json`)
      yield* service.write(`${folder}/link.json`, result)
      assert.strictEqual(yield* fs.readLink(`${folder}/link.json`), "real/c.json")
      assert.strictEqual(yield* fs.readFileString(`${folder}/real/c.json`), Calibration.encode(result))

      const pipe = `${folder}/pipe`
      execFileSync("mkfifo", [pipe])
      const writing = Effect.zipRight(service.writable(pipe), service.write(pipe, result))
      const [read] = yield* Effect.all([fs.readFileString(pipe), writing], { concurrency: 2 })
      assert.strictEqual(read, Calibration.encode(result))
      assert.strictEqual((yield* fs.stat(pipe)).type, "FIFO")
      assert.deepStrictEqual((yield* fs.readDirectory(folder)).sort(), ["link.json", "pipe", "real"])
    }).pipe(Effect.provide(files))
  )

  it.scoped("is not there where its writing failed half way", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      const result = yield* calibrated([record("t", 1), record("t", 0)]).pipe(Effect.provide(files))
      const failing = changed(fs, (file) => ({ sync: Effect.zipRight(file.sync, systemError) }))
      const service = yield* Effect.provideService(Calibration.make, FileSystem.FileSystem, failing)
      const exit = yield* Effect.exit(service.write(`${folder}/c.json`, result))
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
    }).pipe(Effect.provide(files))
  )
})

describe("select", () => {
  for (const { calibration, error, keep, kept, name, tasks } of filters) {
    it.scoped(`vector: ${name}`, () =>
      Effect.gen(function* () {
        const service = yield* Calibration.Calibration
        const file = yield* written(
          "c.json",
          typeof calibration === "string" ? calibration : JSON.stringify(calibration)
        )
        const select = service.select(tasks, file, keep ?? undefined)
        if (error === undefined) {
          const chosen = yield* select
          assert.deepStrictEqual(
            chosen.map(({ id }) => id),
            kept
          )
          for (const task of chosen) assert.include(tasks, task)
        } else {
          assert.strictEqual((yield* Effect.flip(select))._tag, tags[error])
        }
      }).pipe(Effect.provide(files))
    )
  }

  const task = (id: string, task_hash = "h") => ({ id, task_hash })

  it.scoped("takes any file that has what it needs, and no other", () =>
    Effect.gen(function* () {
      const service = yield* Calibration.Calibration
      const selected = (text: string) =>
        Effect.flatMap(written("c.json", text), (file) => Effect.either(service.select([task("__proto__")], file)))
      const entry = '{"task_hash": "h", "class": "learnable", "reward_mean": NaN}'
      assert.deepStrictEqual(yield* selected(`{"tasks": {"__proto__": ${entry}}}`), Either.right([task("__proto__")]))
      for (const [text, tag] of [
        ['{"tasks": {"__proto__": {"task_hash": "h", "class": "brand_new"}}}', "NoTaskKept"],
        ['{"tasks": {"__proto__": {"task_hash": "h", "class": "learnable"}, "x": 1}}', "CalibrationFileError"],
        ['{"tasks": {"__proto__": {"task_hash": "h"}}}', "CalibrationFileError"],
        ['{"tasks": []}', "CalibrationFileError"],
        ["[]", "CalibrationFileError"],
        ["", "CalibrationFileError"],
        ['{"tasks": {}}', "StaleCalibration"]
      ] as const) {
        const result = yield* selected(text)
        assert.isTrue(Either.isLeft(result) && result.left._tag === tag, text)
      }
      const failure = yield* Effect.flip(service.select([task("a")], "/nowhere/c.json"))
      assert.strictEqual(failure.message, "Calibration file /nowhere/c.json: there is no such file or folder.")
    }).pipe(Effect.provide(files))
  )

  it.scoped("names what is stale, up to five of each, and counts what is there when nothing is kept", () =>
    Effect.gen(function* () {
      const { select } = yield* Calibration.Calibration
      const known = new Map(["a", "b", "c"].map((id) => [id, { task_hash: "old", class: "solved" }]))
      const many = Array.from({ length: 7 }, (_, index) => task(`new-${index}`))
      const stale = yield* Effect.flip(select([...many, task("a"), task("b")], { tasks: known }))
      assert.include(stale.message, "no entry for new-0, new-1, new-2, new-3, new-4 and 2 more")
      assert.include(stale.message, "another version of a, b")
      const none = yield* Effect.flip(select([task("a", "old"), task("b", "old")], { tasks: known }))
      assert.deepInclude(none, { counts: { solved: 2, learnable: 0, out_of_reach: 0, none: 0 } })
      const unknown = yield* Effect.flip(select([task("a", "old")], { tasks: known }, ["solved", "easy"]))
      assert.deepInclude(unknown, { _tag: "UnknownClass", unknown: ["easy"] })
    }).pipe(Effect.provide(files))
  )
})

describe("report", () => {
  it.scoped("is a table aligned by display width, without control characters, that fits", () =>
    Effect.gen(function* () {
      const ids = [
        "plain",
        "東京タスク",
        "é",
        "\u001b[31mred\u001b[0m\nline",
        "🙂🙂",
        "a-very-long-task-id-that-goes-on-and-on-and-on"
      ]
      const result = yield* calibrated(
        ids.flatMap((id) => [record(id, 0.575, true), record(id, 0.575, true), record(id, 0.575, true)])
      )
      const [headings = "", ...rows] = CalibrationReport.table(result).split("\n")
      assert.strictEqual(rows.length, ids.length)
      assert.match(headings, /^task +class +rollouts +void +pass@1 +pass@k +pass\^k +reward +var +harm$/)
      for (const row of rows) {
        assert.match(row, /solved +3 +0 +1\.00 +1\.00 +1\.00 +0\.57 +0\.00 +0\.00$/)
        assert.notMatch(row, /[\u0000-\u001f]/)
      }
      const wide = rows.find((row) => row.startsWith("東京"))
      // Five characters of two columns each.
      assert.strictEqual(wide?.indexOf("solved"), headings.indexOf("class") - 5)
      const narrow = CalibrationReport.table(result, { width: 90 }).split("\n")
      assert.deepStrictEqual(
        new Set(narrow.map((row) => row.replaceAll(/[東京タスク]|🙂/gu, "xx").length)),
        new Set([90])
      )
      assert.include(narrow.join("\n"), "a-very-long-task-id…"[0] ?? "")
      assert.isTrue(narrow.some((row) => /^a-very-\S*… /.test(row)))
    }).pipe(Effect.provide(files))
  )

  it.scoped("sums up, and warns in a line each of what is odd", () =>
    Effect.gen(function* () {
      const result = yield* calibrated([
        ...[1, 1, 1].map((reward) => record("solved", reward)),
        ...[0.5, 0.5].map((reward, index) => record("lucky", reward, index === 0)),
        ...[1, null, null].map((reward) => record("lone", reward)),
        record("void", null)
      ])
      assert.strictEqual(
        CalibrationReport.summary(result, { file: "out/c.json" }),
        [
          "m, k = 3: 4 tasks: 1 solved, 0 learnable, 1 out_of_reach, 2 without a class",
          "void: 3 of 9 rollouts (33.33%)",
          "written to out/c.json"
        ].join("\n")
      )
      assert.deepStrictEqual(CalibrationReport.warnings(result), [
        "1 task is out_of_reach with successes (lucky): all rewards are equal, but not all rollouts succeeded.",
        "k = 3 leaves 2 tasks without pass@k and pass^k (lone, lucky): the largest k that covers all is 1."
      ])
      const silent = yield* calibrated([record("t", 1, null), record("t", 1, null)])
      assert.deepStrictEqual(CalibrationReport.warnings(silent), [
        "No record tells metadata.success, so every rollout counts as failed."
      ])
    }).pipe(Effect.provide(files))
  )
})
