/** A policy that knows nothing of the office but what its server lists: the tasks' ids, and the tools' schemas. */
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { make } from "../src/EnvServer.js"
import * as Office from "../src/Office.js"
import { at, connect, http, record, reset, step } from "./client.js"
import { tasks } from "./officePlay.js"

const steps = 10_000
/** So many of them are done in a second container too. */
const repeated = 1000

/** What the policy has seen in observations: texts by the keys that they were under. */
type Seen = Map<string, Set<string>>

type Choice = (seen: Seen) => Json.Json

const known = (values: FastCheck.Arbitrary<Json.Json>): FastCheck.Arbitrary<Choice> =>
  values.map((value) => () => value)

/** Mostly a text that has been seen under the parameter's name, or else an id. */
const textFor = (name: string): FastCheck.Arbitrary<Choice> =>
  FastCheck.tuple(FastCheck.string(), FastCheck.nat({ max: 7 }), FastCheck.nat()).map(
    ([own, invent, die]) =>
      (seen) => {
        const texts = [...(seen.get(name) ?? seen.get("id") ?? [])]
        return invent === 0 ? own : (texts[die % texts.length] ?? own)
      }
  )

/** Values of a schema, of the kinds that the office's tools have. */
const valueOf = (name: string, schema: Json.Json | undefined): FastCheck.Arbitrary<Choice> => {
  const { enum: literals, exclusiveMinimum, items, maximum, pattern, type } = Json.isObject(schema) ? schema : {}
  if (Json.isArray(literals)) return known(FastCheck.constantFrom(...literals))
  switch (type) {
    case "string":
      return typeof pattern === "string" ? known(FastCheck.stringMatching(new RegExp(pattern))) : textFor(name)
    case "integer":
      return known(FastCheck.oneof(FastCheck.integer(), FastCheck.bigInt({ min: -(2n ** 70n), max: 2n ** 70n })))
    case "number":
      return known(
        FastCheck.double({ min: Number(exclusiveMinimum), minExcluded: true, max: Number(maximum), noNaN: true })
      )
    case "array":
      return FastCheck.array(valueOf(name, items), { maxLength: 3 }).map(
        (choices) => (seen) => choices.map((choice) => choice(seen))
      )
    default:
      return assert.fail(`Nothing is known of the schema ${Json.stringify(schema ?? null)}.`)
  }
}

const callOf = (tool: Json.Json) => {
  const properties = at(tool, "inputSchema", "properties")
  const required = at(tool, "inputSchema", "required")
  const model = Object.entries(Json.isObject(properties) ? properties : {}).map(
    ([name, schema]) => [name, valueOf(name, schema)] as const
  )
  return FastCheck.record(Object.fromEntries(model), {
    requiredKeys: Json.isArray(required) ? required.map(String) : []
  }).map((choices) => ({ name: String(at(tool, "name")), choices }))
}

const look = (value: Json.Json | undefined, seen: Seen, key = ""): void => {
  if (typeof value === "string") seen.set(key, (seen.get(key) ?? new Set()).add(value))
  else if (Json.isArray(value)) for (const item of value) look(item, seen, key)
  else if (Json.isObject(value)) for (const [key, inner] of Object.entries(value)) look(inner, seen, key)
}

describe("Office", () => {
  it.scoped(
    `meets no protocol error in ${steps} random steps; the same ones elsewhere give the same records`,
    () =>
      Effect.gen(function* () {
        const { url } = yield* make(Office.world)
        const other = yield* make(Office.world)
        const [client, again] = [yield* connect(url), yield* connect(other.url)]
        let asked = 0
        const ask = (frame: Json.Json) =>
          Effect.gen(function* () {
            const reply = yield* client.ask(frame)
            assert.notStrictEqual(reply.type, "error", Json.stringify([frame, reply]))
            if (asked++ < repeated) assert.deepEqual(yield* again.ask(frame), reply)
            return reply
          })

        const listed = yield* http(`${url}/mcp`, {
          method: "POST",
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" })
        })
        const tools = at(listed.body, "result", "tools")
        const calls = FastCheck.sample(FastCheck.oneof(...(Json.isArray(tools) ? tools : []).map(callOf)), {
          numRuns: steps,
          seed: 1
        })

        const worked = new Set<string>()
        const errors = new Set<unknown>()
        let episodes = 0
        const seen: Seen = new Map()
        const begin = Effect.suspend(() => ask(reset(tasks[episodes % tasks.length]?.id ?? "")))
        yield* begin
        for (const { choices, name } of calls) {
          const args = Object.fromEntries(Object.entries(choices).map(([key, choice]) => [key, choice(seen)]))
          const reply = yield* ask(step(name, args))
          const error = at(reply, "data", "observation", "error")
          if (Json.isObject(error)) errors.add(error.type)
          else worked.add(name)
          look(at(reply, "data", "observation", "result"), seen)
          if (at(reply, "data", "done") === true) {
            yield* ask(record)
            episodes += 1
            yield* begin
          } else if (name === "message_coworker") {
            const turns = at(yield* ask({ type: "coworkers" }), "data", "turns")
            for (const turn of Json.isArray(turns) ? turns : []) {
              yield* ask({ type: "coworker_reply", data: { coworker: at(turn, "coworker") ?? null, text: "Hm." } })
            }
          }
        }
        // What a schema allows, its tool takes.
        assert.deepEqual([...errors].sort(), ["invalid_time", "not_found"])
        assert.sameMembers([...worked], ["submit", ...Office.world.tools.map(({ name }) => name)])
        assert.isAbove(episodes, 10 * tasks.length)
      }),
    60_000
  )
})
