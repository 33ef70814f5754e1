/** Tool calls as models and servers write them, and the messages that go back to those. */
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import type { AssistantMessage } from "@miroir-effect/core/Policy"
import * as FastCheck from "effect/FastCheck"
import { goingBack, readCalls } from "../src/internal/toolCalls.js"

const message = (rest: Json.JsonObject): AssistantMessage => ({ role: "assistant", content: null, ...rest })

const calling = (...args: ReadonlyArray<Json.Json>) =>
  message({ tool_calls: args.map((one) => ({ id: "c", function: { name: "f", arguments: one } })) })

describe("the calls of a message", () => {
  it("are read in order, each argument to its last digit", () => {
    const long = '{"n": 123456789012345678901234567890, "x": 1.10}'
    const read: ReadonlyArray<readonly [Json.Json, string]> = [
      [long, long],
      ["", "{}"],
      [" \n", "{}"],
      [null, "{}"],
      [{ n: 2n ** 64n }, '{"n":18446744073709551616}']
    ]
    const calls = readCalls(calling(...read.map(([args]) => args)))
    assert.deepStrictEqual(
      calls,
      read.map(([, text]) => ({ id: "c", name: "f", arguments: text, problem: undefined }))
    )
  })

  it("that have no JSON object for arguments say so, for the model", () => {
    const wrong: ReadonlyArray<readonly [Json.Json, RegExp]> = [
      ['{"a": 1', /JSON/],
      ["{'a': 1}", /JSON/],
      ['{"a": NaN}', /JSON/],
      ["[1]", /another JSON value/],
      ["null", /another JSON value/],
      ['"{}"', /another JSON value/],
      [`{"a": ${"1".repeat(5000)}}`, /digits/],
      [[1], /another JSON value/],
      [7, /another JSON value/],
      [{ a: Number.NaN }, /JSON/]
    ]
    const calls = readCalls(calling(...wrong.map(([args]) => args)))
    for (const [index, { problem }] of calls.entries()) {
      assert.match(problem ?? "", /^The arguments for the tool f are no JSON object: .*\.$/)
      assert.match(problem ?? "", wrong[index]?.[1] ?? /$^/)
    }
  })

  it("are those of the older API where there are no others", () => {
    const older = { name: "f", arguments: "{}" }
    const names = (rest: Json.JsonObject) => readCalls(message(rest)).map(({ name }) => name)
    assert.deepStrictEqual(names({ function_call: older }), ["f"])
    assert.deepStrictEqual(names({ function_call: older, tool_calls: [] }), ["f"])
    assert.deepStrictEqual(names({ function_call: older, tool_calls: [{ function: { name: "g" } }] }), ["g"])
    for (const none of [null, "auto", { name: "", arguments: "" }]) {
      assert.deepStrictEqual(names({ function_call: none, tool_calls: null }), [])
    }
    assert.deepStrictEqual(goingBack(message({ function_call: older }), 35).message, {
      role: "assistant",
      content: null,
      tool_calls: [{ type: "function", id: "c000z0000", function: older }]
    })
  })
})

describe("the message that goes back", () => {
  const orMissing = (arbitrary: FastCheck.Arbitrary<Json.Json>, key: string) =>
    FastCheck.oneof(
      FastCheck.constant({}),
      arbitrary.map((value) => ({ [key]: value }))
    )
  const anything: FastCheck.Arbitrary<Json.Json> = FastCheck.oneof(
    FastCheck.constantFrom<Json.Json>(null, 0, "", "x", true, Number.NaN, 2n ** 70n, [], {}, [null], { a: {} })
  )
  const args = FastCheck.oneof(
    anything,
    FastCheck.constantFrom<Json.Json>("{}", ' {"n": 9007199254740993} ', "{", "[]", '{"a":NaN}', { n: 2n ** 60n }),
    FastCheck.json(),
    FastCheck.json().map((text) => text.slice(0, -1))
  )
  const merged = (...parts: ReadonlyArray<FastCheck.Arbitrary<object>>): FastCheck.Arbitrary<Json.JsonObject> =>
    FastCheck.tuple(...parts).map((all) => Object.assign({}, ...all))
  const called = FastCheck.oneof(
    { weight: 1, arbitrary: anything },
    {
      weight: 4,
      arbitrary: merged(
        orMissing(FastCheck.constantFrom<Json.Json>("f", "g", "", null, 7), "name"),
        orMissing(args, "arguments"),
        orMissing(anything, "more")
      )
    }
  )
  const ids = FastCheck.constantFrom<Json.Json>("a", "b", "c00010000", "c00010001", "c00010002", "", null, 7)
  const call = FastCheck.oneof(
    { weight: 1, arbitrary: anything },
    { weight: 6, arbitrary: merged(orMissing(ids, "id"), orMissing(called, "function"), orMissing(anything, "index")) }
  )
  const messages = merged(
    FastCheck.constant({ role: "assistant" }),
    orMissing(anything, "content"),
    orMissing(anything, "reasoning_content"),
    orMissing(called, "function_call"),
    orMissing(FastCheck.oneof(anything, FastCheck.array(call, { minLength: 1, maxLength: 5 })), "tool_calls")
  ).map((rest): AssistantMessage => ({ ...rest, role: "assistant" }))

  const membersOf = (value: Json.Json | undefined): Json.JsonObject => (Json.isObject(value) ? value : {})
  const without = (value: Json.JsonObject, ...keys: ReadonlyArray<string>) =>
    Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key)))
  const isStrictObject = (value: Json.Json | undefined): boolean => {
    try {
      return Json.isObject(JSON.parse(typeof value === "string" ? value : Json.stringify(value ?? null)))
    } catch {
      return false
    }
  }

  it("pairs up, parses, and loses nothing, whatever came", () => {
    const seen = { kept: 0, minted: 0, replaced: 0, older: 0 }
    FastCheck.assert(
      FastCheck.property(messages, (came) => {
        const { calls, message: back } = goingBack(came, 1)
        const read = readCalls(came)
        assert.deepStrictEqual(
          calls.map(({ id: _, ...rest }) => rest),
          read.map(({ id: _, ...rest }) => rest)
        )
        if (calls.length === 0) return assert.strictEqual(back, came)
        const written = Json.isArray(back.tool_calls) ? back.tool_calls.map(membersOf) : []
        const isOlder = !Json.isArray(came.tool_calls) || came.tool_calls.length === 0
        const before = isOlder
          ? [{ type: "function", function: membersOf(came.function_call) }]
          : Json.isArray(came.tool_calls)
            ? came.tool_calls
            : []
        // Each call has an id of its own, by which it is answered.
        assert.deepStrictEqual(
          written.map(({ id }) => id),
          calls.map(({ id }) => id)
        )
        assert.strictEqual(new Set(calls.map(({ id }) => id)).size, calls.length)
        const used = new Set<string>()
        for (const [index, { id, problem }] of calls.entries()) {
          const was = read[index]?.id
          if (was === undefined || used.has(was)) {
            assert.match(id, /^[a-z0-9]{9}$/)
            assert.isFalse(read.some((other) => other.id === id))
            seen.minted++
          } else {
            assert.strictEqual(id, was)
          }
          used.add(id)
          // Arguments that are no object go back as an empty one, a name that is no text as an empty one, all else as it came.
          const one = membersOf(before[index])
          const now = membersOf(written[index])
          if (Json.isObject(before[index])) {
            assert.deepStrictEqual(without(now, "id", "function"), without(one, "id", "function"))
          }
          const [wrote, writes] = [membersOf(one.function), membersOf(now.function)]
          assert.isTrue(isStrictObject(writes.arguments))
          if (Json.isObject(one.function)) {
            const name = typeof wrote.name === "string" ? wrote.name : ""
            assert.deepStrictEqual(without(writes, "arguments"), { ...without(wrote, "arguments"), name })
          }
          if (isStrictObject(wrote.arguments)) {
            assert.deepStrictEqual(writes.arguments, wrote.arguments)
            assert.isUndefined(problem)
            seen.kept++
          } else {
            assert.strictEqual(writes.arguments, "{}")
            seen.replaced++
          }
        }
        const keys = ["tool_calls", "function_call"]
        assert.deepStrictEqual(without(back, ...keys), without(came, ...keys))
        if (isOlder) {
          assert.notProperty(back, "function_call")
          seen.older++
        } else if (Json.isObject(came.function_call)) {
          assert.isTrue(isStrictObject(membersOf(back.function_call).arguments))
        } else {
          assert.deepStrictEqual(back.function_call, came.function_call)
        }
        // There is nothing left to mend.
        assert.deepStrictEqual(goingBack(back, 1).message, back)
      }),
      { numRuns: 3000, seed: 1 }
    )
    for (const count of Object.values(seen)) assert.isAbove(count, 100)
  })
})
