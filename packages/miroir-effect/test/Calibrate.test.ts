import { execFileSync } from "node:child_process"
import { createWriteStream } from "node:fs"
import { gzipSync } from "node:zlib"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { run, start } from "./program.js"

const line = (task: string, reward: number | null, metadata: object = {}): string =>
  `${JSON.stringify({ task_id: task, reward, metadata: { task_hash: `${task}-1`, success: reward === 1, ...metadata } })}\n`

const learnable = line("t", 0) + line("t", 1)

/** A temporary folder with these files in it. */
const folderWith = (files: Record<string, string | Uint8Array>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped()
    for (const [name, content] of Object.entries(files)) {
      if (name.includes("/"))
        yield* fs.makeDirectory(`${folder}/${name.slice(0, name.lastIndexOf("/"))}`, { recursive: true })
      yield* fs.writeFile(`${folder}/${name}`, typeof content === "string" ? Buffer.from(content) : content)
    }
    return folder
  })

const defaults = ["calibrate", "traces", "--model", "m"]

interface Case {
  readonly files: Record<string, string | Uint8Array>
  readonly args?: ReadonlyArray<string>
  readonly code: number
  /** All of stderr, a line each. */
  readonly stderr: ReadonlyArray<string>
  /** Classes by id, in the file's order. */
  readonly classes?: Record<string, string | null>
  readonly stdout?: RegExp
}

const cases: Record<string, Case> = {
  "a folder's files, gzip or not, and nothing else in it": {
    files: {
      "traces/a.jsonl": line("t", 0),
      "traces/b.jsonl.gz": gzipSync(line("t", 1)),
      "traces/c.txt": "no trace",
      "traces/d/e.jsonl": "not reached"
    },
    code: 0,
    stderr: [],
    classes: { t: "learnable" },
    stdout: /^t +learnable +2 +0 +0\.50 +1\.00 +0\.00 +0\.50 +0\.25 +0\.00$/m
  },
  "several files, and options in every form and place": {
    files: { "a.jsonl": line("t", 0), "b.jsonl": line("t", 1) + line("t", 1) },
    args: ["calibrate", "-k2", "a.jsonl", "--model=a model", "b.jsonl", "--out", "new/folder/out.json"],
    code: 0,
    stderr: [],
    stdout:
      /^a model, k = 2: 1 task: 0 solved, 1 learnable, 0 out_of_reach, 0 without a class\nvoid: 0 of 3 rollouts \(0\.00%\)\nwritten to new\/folder\/out\.json\n$/m
  },
  "a torn last line is skipped with a warning": {
    files: { "traces/a.jsonl": `${learnable}{"task_id": "t", "rew` },
    code: 0,
    stderr: [
      "warning: traces/a.jsonl, line 3: skipped: it has no line end and is no JSON, so its writing was cut short."
    ],
    classes: { t: "learnable" }
  },
  "a reward that is NaN is void, with a warning": {
    files: { "traces/a.jsonl": learnable + line("t", 7).replace('"reward":7', '"reward":NaN') },
    code: 0,
    stderr: ["warning: traces/a.jsonl: 1 reward is not finite and counted as void."],
    classes: { t: "learnable" },
    stdout: /^t +learnable +2 +1 /m
  },
  "a malformed line is told with its number, and nothing is written": {
    files: { "traces/a.jsonl": `${line("t", 0)}{"task_id":\n${line("t", 1)}` },
    code: 1,
    stderr: ["error: traces/a.jsonl, line 2: it is no JSON."]
  },
  "a line that is no record": {
    files: { "traces/a.jsonl": `${learnable}[]\n` },
    code: 1,
    stderr: ["error: traces/a.jsonl, line 3: it is no JSON object."]
  },
  "two versions of a task": {
    files: { "traces/a.jsonl": learnable + line("t", null, { task_hash: "t-2" }) },
    code: 1,
    stderr: ["error: Task t is there in two versions, t-1 and t-2: calibrate the traces of one."]
  },
  "no task with a class": {
    files: { "traces/a.jsonl": line("t", 1) + line("t", null) + line("u", 1) },
    code: 1,
    stderr: ["error: None of 2 tasks has 2 graded rollouts (2 graded, 1 void in all): roll out more."]
  },
  "an empty folder": {
    files: { "traces/README": "" },
    code: 1,
    stderr: ["error: There is no record to calibrate."]
  },
  "a file that is not there": {
    files: {},
    code: 1,
    stderr: ["error: traces: there is no such file or folder."]
  },
  "a k that leaves tasks without pass@k, an out_of_reach task that succeeded": {
    files: { "traces/a.jsonl": learnable + line("u", 0.5, { success: true }) + line("u", 0.5).repeat(2) },
    args: [...defaults, "-k", "3"],
    code: 0,
    stderr: [
      "warning: 1 task is out_of_reach with successes (u): all rewards are equal, but not all rollouts succeeded.",
      "warning: k = 3 leaves 1 task without pass@k and pass^k (t): the largest k that covers all is 2."
    ]
  }
}

layer(NodeContext.layer, { excludeTestServices: true })("calibrate", (it) => {
  for (const [name, { args = defaults, classes, code, files, stderr, stdout }] of Object.entries(cases)) {
    it.scoped(name, () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const folder = yield* folderWith(files)
        const ended = yield* run(folder, args)
        assert.deepStrictEqual(
          { code: ended.code, stderr: ended.stderr },
          { code, stderr: stderr.map((text) => `${text}\n`).join("") }
        )
        if (code !== 0) {
          assert.strictEqual(ended.stdout, "")
          assert.isFalse(yield* fs.exists(`${folder}/calibration.json`))
          return
        }
        if (stdout !== undefined) assert.match(ended.stdout, stdout)
        if (classes !== undefined) {
          const { tasks } = JSON.parse(yield* fs.readFileString(`${folder}/calibration.json`))
          const found = Object.entries(tasks).map(([id, task]) => [id, Object(task).class])
          assert.deepStrictEqual(found, Object.entries(classes))
        }
      })
    )
  }

  it.scoped("ids in code point order, whatever they are, in columns that align; figures as Python prints them", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const ids = ["10", "9", "__proto__", "日本語", "ﬀ-bmp", "😀-astral"]
      const lines = ids.map((id) => line(id, 0.575) + line(id, 0.575)).reverse()
      const folder = yield* folderWith({ "traces/a.jsonl": lines.join("") })
      const { stdout } = yield* run(folder, defaults)
      const text = yield* fs.readFileString(`${folder}/calibration.json`)
      // `JSON.parse` would put 9 before 10.
      const inFile = Array.from(text.matchAll(/^ {4}("[^"]+"): \{$/gm), ([, id]) => JSON.parse(String(id)))
      assert.deepStrictEqual(inFile, ids)
      const expected = [
        "task       class         rollouts  void  pass@1  pass@k  pass^k  reward   var  harm",
        "10         out_of_reach         2     0    0.00    0.00    0.00    0.57  0.00  0.00",
        "9          out_of_reach         2     0    0.00    0.00    0.00    0.57  0.00  0.00",
        "__proto__  out_of_reach         2     0    0.00    0.00    0.00    0.57  0.00  0.00",
        "日本語     out_of_reach         2     0    0.00    0.00    0.00    0.57  0.00  0.00",
        "ﬀ-bmp      out_of_reach         2     0    0.00    0.00    0.00    0.57  0.00  0.00",
        "😀-astral  out_of_reach         2     0    0.00    0.00    0.00    0.57  0.00  0.00"
      ]
      assert.deepStrictEqual(stdout.split("\n").slice(0, 7), expected)
    })
  )

  it.scoped("--json prints the file and nothing else on stdout", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* folderWith({ "traces/a.jsonl": `${learnable}{` })
      const { code, stderr, stdout } = yield* run(folder, [...defaults, "--json"])
      assert.strictEqual(code, 0)
      assert.match(stderr, /^warning: .*\n$/)
      assert.strictEqual(stdout, yield* fs.readFileString(`${folder}/calibration.json`))
      assert.strictEqual(JSON.parse(stdout).k, 2)
    })
  )

  it.scoped("an unwritable --out is told in a line, and leaves nothing", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* folderWith({ "traces/a.jsonl": learnable, file: "", "out.json/x": "" })
      for (const out of ["file/out.json", "out.json"]) {
        const { code, stderr, stdout } = yield* run(folder, [...defaults, "--out", out])
        assert.deepStrictEqual({ code, stdout }, { code: 1, stdout: "" })
        assert.match(stderr, /^error: Calibration file (file\/)?out\.json: .+\.\n$/)
      }
      assert.deepStrictEqual((yield* fs.readDirectory(folder)).sort(), ["file", "out.json", "traces"])
    })
  )

  for (const { code, signal } of [
    { signal: "SIGINT", code: 130 },
    { signal: "SIGTERM", code: 143 }
  ] as const) {
    it.scoped(`${signal} while it reads: ${code}, at once and without a file`, () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const folder = yield* folderWith({})
        const pipe = `${folder}/pipe.jsonl`
        execFileSync("mkfifo", [pipe])
        const { child, ended } = yield* start(folder, ["calibrate", "pipe.jsonl", "--model", "m"])
        // Opened once the program has opened its end; the pipe stays open, so only the signal can end the program.
        const writer = yield* Effect.acquireRelease(
          Effect.async<ReturnType<typeof createWriteStream>>((resume) => {
            const stream = createWriteStream(pipe)
            stream.write(learnable, () => resume(Effect.succeed(stream)))
          }),
          (stream) => Effect.sync(() => stream.destroy())
        )
        child.kill(signal)
        assert.deepStrictEqual(yield* ended, { code, stdout: "", stderr: "" })
        assert.isTrue(writer.writable)
        assert.deepStrictEqual(yield* fs.readDirectory(folder), ["pipe.jsonl"])
      })
    )
  }

  it.scoped("a pipe is read from its beginning, since it can be read only once", () =>
    Effect.gen(function* () {
      const folder = yield* folderWith({})
      execFileSync("mkfifo", [`${folder}/p.jsonl`])
      const { ended } = yield* start(folder, ["calibrate", "p.jsonl", "--model", "m"])
      createWriteStream(`${folder}/p.jsonl`).end(learnable)
      const { code, stdout } = yield* ended
      assert.strictEqual(code, 0)
      assert.match(stdout, /1 learnable/)
    })
  )

  const inputs: ReadonlyArray<readonly [traces: string, out: string]> = [
    ["traces/t.jsonl", "traces/t.jsonl"],
    ["traces/t.jsonl", "link"],
    ["traces", "traces/t.jsonl"],
    ["link", "traces/../traces/t.jsonl"]
  ]
  it.scoped.each(inputs)("what is read is not written over: %s by --out %s", ([traces, out]) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* folderWith({ "traces/t.jsonl": learnable })
      yield* fs.symlink("traces/t.jsonl", `${folder}/link`)
      const { code, stderr } = yield* run(folder, ["calibrate", traces, "--model", "m", "--out", out])
      assert.strictEqual(code, 2)
      assert.match(stderr, /^error: --out: \S+ is one of the files that are read: give another\.\n/)
      assert.strictEqual(yield* fs.readFileString(`${folder}/traces/t.jsonl`), learnable)
    })
  )

  it.scoped("a reader of stdout that goes away is no failure", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* folderWith({ "traces/a.jsonl": learnable })
      const { child, ended } = yield* start(folder, defaults)
      child.stdout.destroy()
      const { code, stderr } = yield* ended
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.isTrue(yield* fs.exists(`${folder}/calibration.json`))
    })
  )
})
