/** Text for a terminal: tables fit it, and nothing in them moves the cursor. */
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Text from "@miroir-effect/core/Text"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import stringWidth from "string-width"

const cell = FastCheck.oneof(
  FastCheck.string({ unit: "grapheme", maxLength: 60 }),
  FastCheck.string({ unit: "binary", maxLength: 30 }),
  FastCheck.constantFrom("", "日本語 の 文章 です", "a\u001b[2Jb\r\n", "word ".repeat(20), "w".repeat(70))
)

const column = FastCheck.record(
  {
    heading: FastCheck.constantFrom("a", "latency"),
    align: FastCheck.constantFrom("left" as const, "right" as const),
    fit: FastCheck.constantFrom("cut" as const, "wrap" as const)
  },
  { requiredKeys: ["heading"] }
)

const tables = FastCheck.array(column, { minLength: 1, maxLength: 4 }).chain((columns) =>
  FastCheck.tuple(
    FastCheck.constant(columns),
    FastCheck.array(FastCheck.array(cell, { minLength: columns.length, maxLength: columns.length }), { maxLength: 5 }),
    FastCheck.integer({ min: 40, max: 120 })
  )
)

describe("a table", () => {
  it.prop("fits where its columns can be narrowed, and nothing in it moves the cursor", [tables], ([given]) => {
    const [columns, rows, width] = given
    const flexible = columns.map(({ fit, ...rest }) => ({ ...rest, fit: fit ?? "cut" }) as const)
    for (const line of Text.table(flexible, rows, { width }).split("\n")) {
      assert.isAtMost(stringWidth(line), width)
      assert.notMatch(line, /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/)
    }
  })

  it.prop("is whole where no width is given, each cell below its heading", [tables], ([[columns, rows]]) => {
    const [, ...lines] = Text.table(columns, rows).split("\n")
    assert.lengthOf(lines, rows.length)
    for (const [index, line] of lines.entries()) {
      for (const text of rows[index] ?? []) assert.include(line, Text.visible(text).trimEnd())
    }
  })

  it("keeps the blanks that a cell begins with", () => {
    assert.strictEqual(Text.table([{ heading: "a", fit: "wrap" }], [[" !"]]), "a\n !")
  })

  it("cuts, breaks at blanks, aligns by width, and paints what is shown", () => {
    const columns: ReadonlyArray<Text.Column> = [
      { heading: "id", fit: "cut" },
      { heading: "n", align: "right", paint: (cell) => `<${cell}>` },
      { heading: "text", fit: "wrap" }
    ]
    const rows = [
      ["日本語日本語", "7", "one two three four"],
      ["b", "10", "aVeryLongWordIndeed"]
    ]
    assert.deepStrictEqual(Text.table(columns, rows).split("\n"), [
      "id             n  text",
      "日本語日本語   <7>  one two three four",
      "b             <10>  aVeryLongWordIndeed"
    ])
    assert.deepStrictEqual(Text.table(columns, rows, { width: 22 }).split("\n"), [
      "id         n text",
      "日本語日…  <7> one two",
      "             three",
      "             four",
      "b         <10> aVeryLong",
      "             WordIndee",
      "             d"
    ])
  })
})

it.prop("visible leaves a JSON text JSON that says the same", [FastCheck.string({ unit: "binary" })], ([text]) => {
  const shown = Text.visible(Json.stringify({ [text]: [text] }))
  assert.deepStrictEqual(Either.getOrThrow(Json.parse(shown)), { [text]: [text] })
})
