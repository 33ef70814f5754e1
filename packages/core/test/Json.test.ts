/** JSON as Python writes it, where the built-in `JSON` does otherwise. */
import { assert, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"

const { value } = FastCheck.letrec<{ value: Json.Json }>((tie) => ({
  value: FastCheck.oneof(
    { maxDepth: 4, withCrossShrink: true },
    FastCheck.constantFrom<Json.Json>(null, true, false, 0, 0.5, Number.NaN, Number.NEGATIVE_INFINITY),
    FastCheck.bigInt().map((n) => (Number.isSafeInteger(Number(n)) ? Number(n) : n)),
    // What the reader itself could put in the place of a number that `JSON.parse` can't read.
    FastCheck.stringMatching(/^\u0001{0,3}(NaN|Infinity|9007199254740993)?$/),
    FastCheck.string({ unit: "binary" }),
    FastCheck.array(tie("value"), { maxLength: 3 }),
    FastCheck.dictionary(FastCheck.constantFrom("a", "__proto__", "\u0001NaN", "é"), tie("value"), { maxKeys: 3 })
  )
}))

it("reads what it writes, and what Python would write of it", () => {
  FastCheck.assert(
    FastCheck.property(value, (value) => {
      const text = Json.stringify(value)
      assert.deepStrictEqual(Json.parse(text), Either.right(value))
      const line = Json.toPythonLine(text)
      assert.match(line, /^[ -~]*$/)
      assert.deepStrictEqual(Json.parse(line), Either.right(value))
      const member = Json.memberText(`{ "x" : [], "a" : ${text} , "b":1}`, "a")
      assert.strictEqual(member, text)
    }),
    { numRuns: 500 }
  )
})

it("writes all that it reads, however deep, and refuses what contains itself", () => {
  const depth = 100_000
  const lists = `${"[".repeat(depth)}1${"]".repeat(depth)}`
  const objects = `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`
  for (const text of [lists, objects]) {
    const read = Either.getOrThrow(Json.parse(text))
    assert.isTrue(Json.stringify(read) === text)
    // Not an exception, in a socket's callback or elsewhere.
    assert.deepStrictEqual(Json.parse(text.replace("1", "NaN")), Either.left("it is nested too deeply"))
  }
  const once = { n: 1 }
  assert.strictEqual(Json.stringify({ a: once, b: [once, once] }), '{"a":{"n":1},"b":[{"n":1},{"n":1}]}')
  const cyclic: Record<string, Json.Json> = {}
  cyclic.list = [cyclic]
  assert.throws(() => Json.stringify(cyclic), RangeError)
})
