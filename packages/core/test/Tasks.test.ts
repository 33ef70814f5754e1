/** The user's own tasks. */
import { assert, describe, it } from "@effect/vitest"
import * as Tasks from "@miroir-effect/core/Tasks"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { files, temporaryFolder, written } from "./support/files.js"

describe("a file of tasks", () => {
  it.scoped("has a task a line, with what is made for it", () =>
    Effect.gen(function* () {
      const file = yield* written(
        "tasks.jsonl",
        `\ufeff{"id":"a","prompt":"Do it.","reset":{"seed":9007199254740993},"max_steps":3}\r\n\n  {"id":"é","task_hash":"h","instruction":"I","prompt":"P"}\n{"seed":0,"id":"c"}`
      )
      const [a, b, c, ...others] = yield* Tasks.read(file)
      assert.deepStrictEqual(a, {
        id: "a",
        prompt: "Do it.",
        reset: { seed: 9007199254740993n },
        max_steps: 3,
        // Of {"id":"a","max_steps":3,"prompt":"Do it.","reset":{"seed":"9007199254740993"}}
        task_hash: "sha256:07a58227cb669e4f24b0a8678bc60e2d8f63b0912b813529dd1d0dfb4f09085d",
        instruction: "Do it."
      })
      assert.deepInclude(b, { id: "é", task_hash: "h", instruction: "I" })
      assert.deepInclude(c, { id: "c", instruction: "" })
      assert.notProperty(c, "reset")
      assert.deepStrictEqual(others, [])
    }).pipe(Effect.provide(files))
  )

  const wrong: ReadonlyArray<[string | Uint8Array, string]> = [
    ["", ": it has no task."],
    ['{"id":"a"}\n{"id":', ", line 2: it is no JSON."],
    ["\n[1]", ", line 2: it is no JSON object."],
    ['{"id":1}', ', line 1: it has no "id" that is a text.'],
    ['{"id":""}', ', line 1: it has no "id" that is a text.'],
    ['{"id":"a","reset":[]}', ', line 1: its "reset" is no object.'],
    ['{"id":"a","task_hash":1}', ', line 1: its "task_hash" is no text.'],
    ['{"id":"a"}\n\n{"id":"b"}\n{"id":"a"}', ', line 4: its id, "a", is that of line 1.'],
    [`{"id":"a","x":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, ", line 1: it is nested too deeply."],
    [Uint8Array.of(0xff), ": it is no UTF-8 text."]
  ]
  it.scoped("is refused with its name and the line at fault", () =>
    Effect.gen(function* () {
      for (const [content, message] of wrong) {
        const file = yield* written("tasks.jsonl", content)
        const error = yield* Effect.flip(Tasks.read(file))
        assert.deepInclude(error, { _tag: "TasksFileError", code: "TASKS_FILE", file })
        assert.strictEqual(error.message, `Tasks file ${file}${message}`)
      }
      const folder = yield* temporaryFolder
      assert.match((yield* Effect.flip(Tasks.read(folder))).message, /: it is a folder\.$/)
      assert.match((yield* Effect.flip(Tasks.read(`${folder}/none`))).message, /: there is no such file or folder\.$/)
    }).pipe(Effect.provide(files))
  )
})

describe("a range of seeds", () => {
  it("is a task for each of them, both ends included", () => {
    const tasks = Either.getOrThrow(Tasks.seeds("7..9"))
    assert.deepStrictEqual(
      tasks.map(({ id }) => id),
      ["seed-7", "seed-8", "seed-9"]
    )
    assert.deepStrictEqual(tasks[0], {
      id: "seed-7",
      task_hash: "sha256:beced1fe696351bb996169a4f1987ca19b5f52f37c7ef3071f9c044cf3580bfc",
      instruction: "",
      reset: { seed: 7, task_id: null }
    })
    assert.deepStrictEqual(
      Either.map(Tasks.seeds("0..0"), (one) => one.length),
      Either.right(1)
    )
    assert.deepStrictEqual(
      Either.map(Tasks.seeds("1..100000"), (most) => most.length),
      Either.right(Tasks.maxSeeds)
    )
  })

  it("is refused where it is none, or too long", () => {
    for (const [range, reason] of [
      ["5", /as 0\.\.99/],
      ["-1..3", /as 0\.\.99/],
      ["a..b", /as 0\.\.99/],
      ["1.5..2", /as 0\.\.99/],
      ["3..2", /greater than the last/],
      ["0..100000", /more than 100000 seeds/],
      ["0..9007199254740992", /at most 9007199254740991/]
    ] as const) {
      const error = Either.getOrThrow(Either.flip(Tasks.seeds(range)))
      assert.deepInclude(error, { _tag: "InvalidSeeds", code: "INVALID_SEEDS", seeds: range })
      assert.match(error.message, reason)
    }
  })
})
