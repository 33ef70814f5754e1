/** Trace files: saving under concurrency and failure, and reading whatever there is. */
import { execFileSync } from "node:child_process"
import { constants, openSync } from "node:fs"
import { hostname } from "node:os"
import { gzipSync } from "node:zlib"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import { EpisodeRecord } from "@miroir-effect/core/EpisodeRecord"
import type { Json } from "@miroir-effect/core/Json"
import type { TraceError } from "@miroir-effect/core/MiroirError"
import * as Tally from "@miroir-effect/core/Tally"
import * as Traces from "@miroir-effect/core/Traces"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { changed, files, lines, systemError, temporaryFolder, warningsOf, written } from "./support/files.js"

const recordOf = (value: Json) => Either.getOrThrow(EpisodeRecord.fromValue(value))

const record = (task_id: string, reward: number | null = 1) => ({ task_id, reward, metadata: { task_hash: "h" } })

describe("save", () => {
  it.scoped("makes the folder, names the file after the process, and keeps every digit and key", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const traces = yield* Traces.Traces
      const folder = `${yield* temporaryFolder}/new/folder`
      const text = '{"reward": 1.0,\n "metadata":{"big":12345678901234567890,"é":"\\n🙂"}, "task_id":"t","nan":NaN}'
      const file = yield* traces.save(folder, Either.getOrThrow(EpisodeRecord.fromText(text)))
      assert.strictEqual(yield* traces.save(`${folder}/../folder`, recordOf({ reward: 2n ** 70n, metadata: {} })), file)
      const start = new Date(performance.timeOrigin).toISOString().slice(0, 19).replace(/[-:]/g, "")
      assert.strictEqual(file, `${folder}/${start}Z-${hostname().replace(/[^\w.-]/g, "_")}-${process.pid}.jsonl`)
      assert.strictEqual(
        yield* fs.readFileString(file),
        [
          '{"reward": 1.0, "metadata": {"big": 12345678901234567890, "\\u00e9": "\\n\\ud83d\\ude42"}, "task_id": "t", "nan": NaN}\n',
          '{"reward": 1180591620717411303424, "metadata": {}}\n'
        ].join("")
      )
      const [first] = yield* Stream.runCollect(traces.read(folder))
      assert.strictEqual(first?.metadata.big, 12345678901234567890n)
    }).pipe(Effect.provide(files))
  )

  it.scoped("never appends to a file that it has not made", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      const saved = Effect.flatMap(Traces.Traces, (traces) => traces.save(folder, recordOf(record("t"))))
      const names = yield* Effect.replicateEffect(saved.pipe(Effect.provide(Layer.fresh(Traces.layer))), 3)
      const [stem = ""] = names.map((name) => name.replace(/\.jsonl$/, ""))
      assert.deepStrictEqual(names, [`${stem}.jsonl`, `${stem}-1.jsonl`, `${stem}-2.jsonl`])
      for (const name of names) assert.strictEqual((yield* fs.readFileString(name)).split("\n").length, 2)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("writes whole lines when many save at once and some are interrupted", () =>
    Effect.gen(function* () {
      const traces = yield* Traces.Traces
      const folder = yield* temporaryFolder
      const filler = "é".repeat(50_000)
      const fibers = yield* Effect.forEach(
        Array.from({ length: 60 }, (_, index) => index),
        (index) => Effect.fork(traces.save(folder, recordOf({ ...record(`t-${index}`), filler })))
      )
      yield* Effect.yieldNow()
      const interrupted = fibers.filter((_, index) => index % 3 === 0)
      const exits = yield* Fiber.interruptAll(interrupted).pipe(Effect.zipRight(Effect.forEach(fibers, Fiber.await)))
      const read = yield* Stream.runCollect(traces.read(folder))
      const ids = Array.from(read, ({ value }) => value.task_id)
      assert.strictEqual(new Set(ids).size, ids.length)
      for (const [index, exit] of exits.entries()) {
        if (Exit.isSuccess(exit)) assert.include(ids, `t-${index}`)
        if (index % 3 !== 0) assert.isTrue(Exit.isSuccess(exit))
      }
      // All but those that were interrupted while they waited.
      assert.isAtLeast(ids.length, 40)
    }).pipe(Effect.provide(files))
  )

  it.scoped("does not let go of a save that is under way", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const begun = yield* Deferred.make<void>()
      const go = yield* Deferred.make<void>()
      const slow = changed(fs, (file) => ({
        writeAll: (bytes) =>
          file
            .writeAll(bytes.subarray(0, 10))
            .pipe(
              Effect.zipRight(Deferred.succeed(begun, undefined)),
              Effect.zipRight(Deferred.await(go)),
              Effect.zipRight(file.writeAll(bytes.subarray(10)))
            )
      }))
      const traces = yield* Effect.provideService(Traces.make, FileSystem.FileSystem, slow)
      const folder = yield* temporaryFolder
      const saving = yield* Effect.fork(traces.save(folder, recordOf(record("t"))))
      yield* Deferred.await(begun)
      const interrupting = yield* Effect.fork(Fiber.interrupt(saving))
      yield* Effect.yieldNow()
      yield* Deferred.succeed(go, undefined)
      yield* Fiber.join(interrupting)
      assert.strictEqual(Chunk.size(yield* Stream.runCollect(traces.read(folder))), 1)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("cuts back what a failed write left; where it cannot, it goes on in a new file", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      const fails = { write: false, truncate: false }
      const failing = changed(fs, (file) => ({
        writeAll: (bytes) =>
          fails.write ? Effect.zipRight(file.writeAll(bytes.subarray(0, 20)), systemError) : file.writeAll(bytes),
        truncate: (length) => (fails.truncate ? systemError : file.truncate(length))
      }))
      const traces = yield* Effect.provideService(Traces.make, FileSystem.FileSystem, failing)
      const save = (id: string) => traces.save(folder, recordOf(record(id)))

      fails.write = true
      const early = yield* Effect.flip(save("lost-first"))
      fails.write = false
      const file = yield* save("a")
      fails.write = true
      const failure = yield* Effect.flip(save("lost"))
      fails.write = false
      assert.strictEqual(yield* save("b"), file)
      for (const error of [early, failure]) {
        assert.strictEqual(error.message, `${file}: the record was not saved: no space left on device.`)
      }

      Object.assign(fails, { write: true, truncate: true })
      const { warnings } = yield* warningsOf(Effect.flip(save("lost again")))
      assert.match(warnings.join("\n"), /may end in a torn line/)
      Object.assign(fails, { write: false, truncate: false })
      const next = yield* save("c")
      assert.strictEqual(next, file.replace(/\.jsonl$/, "-1.jsonl"))

      const read = yield* warningsOf(Stream.runCollect(traces.read(folder)))
      assert.deepStrictEqual(
        Array.from(read.value, ({ value }) => value.task_id),
        ["c", "a", "b"]
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("fails where it cannot write, and closes its files with its scope", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      const scope = yield* Scope.make()
      const opened: Array<FileSystem.File> = []
      const watched = changed(fs, (file) => {
        opened.push(file)
        return {}
      })
      const traces = yield* Traces.make.pipe(Effect.provideService(FileSystem.FileSystem, watched), Scope.extend(scope))
      yield* traces.save(folder, recordOf(record("t")))
      yield* fs.writeFileString(`${folder}/file`, "")
      assert.strictEqual(
        (yield* Effect.flip(traces.save(`${folder}/file/x`, recordOf(record("t")))))._tag,
        "TraceError"
      )
      const [file] = opened
      assert.isDefined(file)
      if (file !== undefined) {
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(file.stat)))
        yield* Scope.close(scope, Exit.void)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(file.stat)))
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

/** What both ways of reading make of the same paths. */
const readBoth = (paths: string | ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const traces = yield* Traces.Traces
    const seen: Array<string> = []
    const read = yield* warningsOf(
      Effect.either(
        traces.read(paths).pipe(Stream.runForEach((one) => Effect.sync(() => seen.push(String(one.value.task_id)))))
      )
    )
    const tally = yield* warningsOf(Effect.either(traces.tally(paths)))
    assert.deepStrictEqual(tally.warnings, read.warnings)
    const error: TraceError | undefined = Either.isLeft(read.value) ? read.value.left : undefined
    assert.strictEqual(Either.isLeft(tally.value) ? tally.value.left.message : undefined, error?.message)
    if (Either.isRight(tally.value)) {
      assert.sameMembers(Array.from(tally.value.right.tasks.keys()), Array.from(new Set(seen)))
    }
    return { seen, warnings: read.warnings, error, tally: Either.getOrElse(tally.value, () => Tally.empty) }
  })

const line = (id: string, reward = "1.0") =>
  `{"task_id": "${id}", "reward": ${reward}, "metadata": {"task_hash": "h", "success": true}}`

describe("read and tally", () => {
  it.scoped("take files, gzip too, and folders' files in code point order, not those below, none twice", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      const names = [
        "b.jsonl",
        "a.jsonl.gz",
        "\u{1F600}.jsonl",
        "～.jsonl",
        "10.jsonl",
        "9.jsonl",
        "x.json",
        "y.jsonl.bak"
      ]
      for (const name of names) {
        const bytes = Buffer.from(`${line(name)}\n`)
        yield* fs.writeFile(`${folder}/${name}`, name.endsWith(".gz") ? gzipSync(bytes) : bytes)
      }
      yield* fs.makeDirectory(`${folder}/below`)
      yield* fs.writeFileString(`${folder}/below/z.jsonl`, `${line("z")}\n`)
      const sorted = ["10.jsonl", "9.jsonl", "a.jsonl.gz", "b.jsonl", "～.jsonl", "\u{1F600}.jsonl"]
      assert.deepStrictEqual((yield* readBoth(folder)).seen, sorted)
      const some = [`${folder}/x.json`, folder, `${folder}/below`, `${folder}/./x.json`]
      assert.deepStrictEqual((yield* readBoth(some)).seen, ["x.json", ...sorted, "z"])
      const { error, seen } = yield* readBoth([folder, `${folder}/missing.jsonl`])
      assert.deepStrictEqual(seen, [])
      assert.strictEqual(error?.message, `${folder}/missing.jsonl: there is no such file or folder.`)
    }).pipe(Effect.provide(files))
  )

  for (const [name, content, seen, warning, failure] of [
    ["an empty file", "", [], undefined, undefined],
    ["a BOM, CRs and blank lines", `\ufeff${line("a")}\r\n\r\n \t\n\n${line("b")}`, ["a", "b"], undefined, undefined],
    ["separators that are no line ends", `${line("a\u2028\u0085b")}\n`, ["a\u2028\u0085b"], undefined, undefined],
    ["a torn last line", `${line("a")}\n${line("b").slice(0, -9)}`, ["a"], /line 2: skipped/, undefined],
    [
      "a last line torn in a character",
      Buffer.from(`${line("a")}\n{"é`).subarray(0, -1),
      ["a"],
      /line 2: skipped/,
      undefined
    ],
    [
      "a torn line with a line end",
      `${line("a")}\n${line("b").slice(0, -9)}\n`,
      ["a"],
      undefined,
      "line 2: it is no JSON"
    ],
    [
      "a malformed middle line",
      `${line("a")}\n\n{"x": tru}\n${line("b")}\n`,
      ["a"],
      undefined,
      "line 3: it is no JSON"
    ],
    ["a BOM that is not at the start", `${line("a")}\n\ufeff${line("b")}\n`, ["a"], undefined, "line 2: it is no JSON"],
    [
      "no UTF-8 where it matters",
      Buffer.from(`${line("a")}\n${line("\u00e9")}\n`, "latin1"),
      ["a"],
      undefined,
      "line 2: it is no UTF-8 text"
    ],
    ["JSON that is no record", `${line("a")}\n[1]`, ["a"], undefined, "line 2: it is no JSON object"],
    [
      "a record without reward",
      '{"task_id": "a", "metadata": {"task_hash": "h"}}\n',
      [],
      undefined,
      "line 1: it has no reward"
    ],
    [
      "a reward that is a boolean",
      `${line("a", "true")}\n`,
      [],
      undefined,
      "line 1: its reward is neither a number nor null"
    ],
    ["no metadata", '{"task_id": "a", "reward": 1}', [], undefined, "line 1: it has no metadata"],
    [
      "metadata that is no object",
      '{"task_id": "a", "reward": 1, "metadata": []}',
      [],
      undefined,
      "line 1: its metadata is no object"
    ],
    [
      "rewards that are not finite",
      `${line("a", "NaN")}\n${line("a", "-Infinity")}\n${line("a", "1e999")}\n`,
      ["a", "a", "a"],
      /: 3 rewards are not finite and counted as void/,
      undefined
    ]
  ] as const) {
    it.scoped(name, () =>
      Effect.gen(function* () {
        for (const gzip of [false, true]) {
          const bytes = Buffer.from(content)
          const file = yield* written(gzip ? "t.jsonl.gz" : "t.jsonl", gzip ? gzipSync(bytes) : bytes)
          const result = yield* readBoth(file)
          assert.deepStrictEqual(result.seen, [...seen])
          assert.strictEqual(result.warnings.length, warning === undefined ? 0 : 1)
          if (warning !== undefined) assert.match(result.warnings[0] ?? "", warning)
          assert.strictEqual(result.error?.message, failure === undefined ? undefined : `${file}, ${failure}.`)
          if (name === "rewards that are not finite") {
            assert.deepInclude(result.tally.tasks.get("a"), { graded: 0, void: 3 })
          }
        }
      }).pipe(Effect.provide(files))
    )
  }

  it.scoped("tally needs task_id and task_hash, which read does not", () =>
    Effect.gen(function* () {
      const traces = yield* Traces.Traces
      for (const [text, reason] of [
        ['{"reward": 1, "metadata": {"task_hash": "h"}}', "it has no task_id"],
        ['{"task_id": 5, "reward": 1, "metadata": {"task_hash": "h"}}', "its task_id is no string"],
        ['{"task_id": "t", "reward": 1, "metadata": {}}', "its metadata has no task_hash"],
        ['{"task_id": "t", "reward": 1, "metadata": {"task_hash": null}}', "its metadata's task_hash is no string"]
      ] as const) {
        const file = yield* written("t.jsonl", `\n${text}`)
        assert.strictEqual(Chunk.size(yield* Stream.runCollect(traces.read(file))), 1)
        assert.strictEqual((yield* Effect.flip(traces.tally(file))).message, `${file}, line 2: ${reason}.`)
      }
    }).pipe(Effect.provide(files))
  )

  it.scoped("gzip in several members is read through; cut short or broken it is told", () =>
    Effect.gen(function* () {
      const members = ["a", "b", "c"].map((id) => gzipSync(`${line(id)}\n${" ".repeat(300_000)}\n`))
      const whole = Buffer.concat(members)
      assert.deepStrictEqual((yield* readBoth(yield* written("t.jsonl.gz", whole))).seen, ["a", "b", "c"])
      const cut = yield* readBoth(yield* written("t.jsonl.gz", whole.subarray(0, -20)))
      assert.include(cut.error?.message, "its gzip data end too early, so it was cut short")
      for (const bytes of [Buffer.from(line("a")), Buffer.concat([whole, Buffer.from("garbage")])]) {
        const broken = yield* readBoth(yield* written("t.jsonl.gz", bytes))
        assert.include(broken.error?.message, "it is no sound gzip file")
      }
    }).pipe(Effect.provide(files))
  )

  it.scoped("lines longer and shorter than what is read at a time, in many blocks", () =>
    Effect.gen(function* () {
      const records = Array.from({ length: 400 }, (_, index) => ({
        ...record(`t-${index}`, index),
        filler: "x\n".repeat(index === 100 ? 3_000_000 : (index * 7919) % 30_000)
      }))
      const file = yield* written("t.jsonl", lines(records))
      const { seen, tally } = yield* readBoth(file)
      assert.deepStrictEqual(
        seen,
        records.map(({ task_id }) => task_id)
      )
      for (const [id, task] of tally.tasks) assert.strictEqual(`t-${task.highestReward}`, id)
    }).pipe(Effect.provide(files))
  )

  it.scoped("an empty file holds no record, compressed or not", () =>
    Effect.gen(function* () {
      for (const name of ["t.jsonl", "t.jsonl.gz"]) {
        const { seen, tally, warnings } = yield* readBoth(yield* written(name, ""))
        assert.deepStrictEqual([seen, warnings, tally.tasks.size], [[], [], 0])
      }
    }).pipe(Effect.provide(files))
  )

  it.scoped("who waits for somebody to write to a pipe can be interrupted, and no thread is left waiting", () =>
    Effect.gen(function* () {
      const traces = yield* Traces.Traces
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporaryFolder
      execFileSync("mkfifo", [`${folder}/pipe`])
      const reading = yield* Effect.fork(Stream.runDrain(traces.read(`${folder}/pipe`)))
      // What was asked of the threads before is under way when these are answered.
      const others = Effect.repeatN(fs.stat(folder), 50)
      yield* others
      yield* Fiber.interrupt(reading)
      yield* others
      // Without waiting, a pipe cannot be opened for writing where nobody reads.
      const opened = yield* Effect.either(
        Effect.try(() => openSync(`${folder}/pipe`, constants.O_WRONLY | constants.O_NONBLOCK))
      )
      assert.isTrue(Either.isLeft(opened))
    }).pipe(Effect.provide(files))
  )

  it.scoped("a pipe can be read, and a stream that is left early closes its file", () =>
    Effect.gen(function* () {
      const traces = yield* Traces.Traces
      const folder = yield* temporaryFolder
      execFileSync("mkfifo", [`${folder}/pipe`])
      const fs = yield* FileSystem.FileSystem
      const reading = yield* Effect.fork(Stream.runCollect(traces.read(`${folder}/pipe`)))
      yield* fs.writeFileString(`${folder}/pipe`, `${line("a")}\n`)
      assert.strictEqual(Chunk.size(yield* Fiber.join(reading)), 1)
      const many = yield* written("t.jsonl", `${line("a")}\n`.repeat(100_000))
      assert.strictEqual(Chunk.size(yield* traces.read(many).pipe(Stream.take(3), Stream.runCollect)), 3)
    }).pipe(Effect.provide(files))
  )
})
