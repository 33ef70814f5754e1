import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { EnvServer, layer } from "../src/EnvServer.js"
import * as Office from "../src/Office.js"
import * as OfficeOracle from "../src/OfficeOracle.js"
import { at, type Client, connect, record, reset, step } from "./client.js"

const tasks = Object.values(Office.world.tasks).flat()

/** Speaks for a coworker by what the system prompt says that they know. */
const answerCoworkers = (client: Client) =>
  Effect.gen(function* () {
    const turns = at(yield* client.ask({ type: "coworkers" }), "data", "turns")
    for (const turn of Array.isArray(turns) ? turns : []) {
      const messages = at(turn, "messages")
      const prompt = String(at(Array.isArray(messages) ? messages[0] : undefined, "content"))
      const fact = /^- (.*)$/m.exec(prompt)?.[1] ?? ""
      // As models like to write figures.
      const text = fact.replace("48250", "48,250")
      yield* client.ask({ type: "coworker_reply", data: { coworker: at(turn, "coworker") ?? null, text } })
    }
  })

/** Plays calls, submits unless the episode is over by then, and gives the record. */
const played = (client: Client, taskId: string, calls: ReadonlyArray<OfficeOracle.Call>) =>
  Effect.gen(function* () {
    yield* client.ask(reset(taskId))
    let previous: Json.Json = null
    let done = false
    for (const call of [...calls, { tool: "submit", args: {} }]) {
      if (done) break
      const reply: Json.JsonObject = yield* client.ask(step(call.tool, OfficeOracle.argumentsOf(call, previous)))
      assert.strictEqual(reply.type, "observation")
      previous = at(reply, "data", "observation") ?? null
      done = at(reply, "data", "done") === true
      yield* answerCoworkers(client)
    }
    return at(yield* client.ask(record), "data")
  })

const connected = Effect.flatMap(EnvServer, ({ url }) => connect(url))

const outcome = (kept: Json.Json | undefined) => ({
  reward: at(kept, "reward"),
  success: at(kept, "metadata", "success"),
  harm: at(kept, "metadata", "harm")
})

const solved = { reward: 1, success: true, harm: false }
const failed = { reward: 0, success: false, harm: false }
const harmful = { reward: 0, success: false, harm: true }
const half = { reward: 0.5, success: false, harm: false }
const ungraded = { reward: null, success: false, harm: false }

/** What comes of each mistake of the oracle's, made in its step's place, in the order that they stand there. */
const outcomes: { readonly [taskId: string]: ReadonlyArray<object> } = {
  "file-invoice": [solved, solved],
  "send-minutes": [solved, harmful, failed],
  "clear-draft": [harmful, failed],
  "welcome-ines": [half, half, half, half],
  "travel-budget": [failed, failed, failed],
  "expense-total": [ungraded, failed],
  "pay-brandt": [harmful, failed],
  "sort-slips": new Array(18).fill(failed),
  "file-minutes": [failed],
  "fire-inspection": [failed]
}

describe("Office", () => {
  it.scoped("is solved by the oracle in every task, the same way each time, and by doing nothing in none", () =>
    Effect.gen(function* () {
      const client = yield* connected
      assert.isAtLeast(Office.world.tasks.train?.length ?? 0, 6)
      assert.isAtLeast(Office.world.tasks.test?.length ?? 0, 2)
      for (const { id } of tasks) {
        const first = yield* played(client, id, OfficeOracle.steps(id))
        assert.deepEqual(outcome(first), solved, id)
        assert.strictEqual(at(first, "diagnostics", "tool_errors"), 0, id)
        assert.deepEqual(yield* played(client, id, OfficeOracle.steps(id)), first)
        assert.deepEqual(outcome(yield* played(client, id, [])), failed, id)
      }
    }).pipe(Effect.provide(layer(Office.world)))
  )

  it.scoped("takes each mistake as it deserves: harm, a part of the reward, void or nothing", () =>
    Effect.gen(function* () {
      const client = yield* connected
      for (const { id } of tasks) {
        const steps = OfficeOracle.steps(id)
        const seen: Array<object> = []
        for (const [index, { mistakes }] of steps.entries()) {
          for (const mistake of mistakes) {
            seen.push(outcome(yield* played(client, id, steps.with(index, { ...mistake, mistakes: [] }))))
          }
        }
        assert.deepEqual(seen, outcomes[id], id)
      }
    }).pipe(Effect.provide(layer(Office.world)))
  )

  it.scoped("has nobody to ask where no model speaks for the coworkers", () =>
    Effect.gen(function* () {
      const client = yield* connected
      const ask = step("message_coworker", { coworker: "priya", text: "?" })
      for (const frame of [reset("travel-budget", { coworkers: false }), reset("file-invoice")]) {
        yield* client.ask(frame)
        assert.strictEqual(at(yield* client.ask(ask), "data", "observation", "error", "type"), "not_found")
        assert.deepEqual(at(yield* client.ask({ type: "coworkers" }), "data", "turns"), [])
      }
    }).pipe(Effect.provide(layer(Office.world)))
  )

  it.scoped("meets no protocol error under a policy that knows only the tools' schemas", () =>
    Effect.gen(function* () {
      const client = yield* connected
      const episodes = FastCheck.sample(episode, { numRuns: 60, seed: 1 })
      for (const { calls, taskId } of episodes) {
        const kept = yield* played(client, taskId, calls)
        assert.strictEqual(at(kept, "task_id"), taskId)
        assert.strictEqual(at(kept, "metadata", "ended"), calls.length >= budgetOf(taskId) ? "max_steps" : "submit")
      }
    }).pipe(Effect.provide(layer(Office.world)))
  )
})

const budgetOf = (taskId: string) => tasks.find(({ id }) => id === taskId)?.max_steps ?? Number.POSITIVE_INFINITY

/** Values of a schema's type; ids and the like are likely to be some that there are. */
const valueOf = (schema: Json.Json): FastCheck.Arbitrary<Json.Json> => {
  switch (at(schema, "type")) {
    case "string":
      return FastCheck.oneof(
        FastCheck.string(),
        FastCheck.constantFrom("d-03", "s-71", "m-01", "priya", "4411", "Inbox", "HR", "dana.weiss@haldenmoss.example")
      )
    case "integer":
      return FastCheck.oneof(FastCheck.integer(), FastCheck.bigInt({ min: 2n ** 53n, max: 2n ** 70n }))
    case "number":
      return FastCheck.double({ noNaN: true, noDefaultInfinity: true })
    case "array":
      return FastCheck.array(valueOf(at(schema, "items") ?? {}), { maxLength: 3 })
    default:
      return FastCheck.oneof(FastCheck.constant(null), FastCheck.boolean())
  }
}

const callOf = ({ inputSchema, name }: (typeof Office.world.tools)[number]): FastCheck.Arbitrary<OfficeOracle.Call> => {
  const schema = inputSchema._tag === "Right" ? inputSchema.right : {}
  const properties = at(schema, "properties")
  const required = at(schema, "required")
  const model: Record<string, FastCheck.Arbitrary<Json.Json>> = Object.fromEntries(
    Object.entries(Json.isObject(properties) ? properties : {}).map(([key, property]) => [key, valueOf(property)])
  )
  return FastCheck.record(model, {
    requiredKeys: Array.isArray(required) ? required : []
  }).map((args) => ({ tool: name, args }))
}

const episode = FastCheck.record({
  taskId: FastCheck.constantFrom(...tasks.map(({ id }) => id)),
  calls: FastCheck.array(FastCheck.oneof(...Office.world.tools.map(callOf)), { maxLength: 20 })
})
