/** Prompts, against what the Python client made of the same tasks. */
import { readFileSync } from "node:fs"
import { assert, it } from "@effect/vitest"
import * as Prompt from "@miroir-effect/core/Prompt"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"

const vectors: ReadonlyArray<{
  readonly task: Prompt.Promptable
  readonly today: string
  readonly prompt: string
}> = JSON.parse(readFileSync(new URL("./vectors/prompt.json", import.meta.url), "utf8"))

it("is the Python client's to the byte", () => {
  assert.isAbove(vectors.length, 3)
  for (const { prompt, task, today } of vectors) {
    assert.strictEqual(Prompt.prompt(task, today), prompt)
    assert.strictEqual(Prompt.prompt(task, DateTime.unsafeMake(`${today}T23:59:59Z`)), prompt)
  }
})

it("leaves out what the task does not tell", () => {
  const persona = { description: "a clerk" }
  const day = "Today is 2026-11-30 (UTC)."
  const role = "You act as a clerk."
  const budget = "You have 5 tool calls; call submit when you are done."
  for (const [task, between] of [
    [{ persona, max_steps: 5 }, [`${role} ${budget}`]],
    [{ persona, max_steps: null }, [role]],
    [{ persona }, [role]],
    [{ persona: { description: [] }, max_steps: 5 }, [budget]],
    [{ persona: null, max_steps: 5 }, [budget]],
    [{ max_steps: 2n ** 64n }, ["You have 18446744073709551616 tool calls; call submit when you are done."]],
    [{}, []]
  ] as const) {
    assert.strictEqual(
      Prompt.prompt({ instruction: "Do it.", ...task }, "2026-11-30"),
      ["Do it.", ...between, day].join("\n\n")
    )
  }
})

it.effect("today is the Clock's day in UTC", () =>
  Effect.gen(function* () {
    yield* TestClock.setTime(Date.UTC(2026, 10, 30, 23, 59, 59, 999))
    assert.strictEqual(yield* Prompt.today, "2026-11-30")
    yield* TestClock.adjust("1 millis")
    assert.strictEqual(yield* Prompt.today, "2026-12-01")
  })
)
