/** The stub of a chat model's endpoint, seen by `node:http`. */
import { assert, it } from "@effect/vitest"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { call } from "./call.js"

const post = (url: string, body: string, headers: Record<string, string> = {}) =>
  Effect.map(call(url, { method: "POST", body, headers }), ({ body, status, whole }) => ({ status, body, whole }))

it.scoped("answers one after the other as the list says, and records what was asked", () =>
  Effect.gen(function* () {
    const endpoint = yield* ChatEndpoint.make({
      answers: [
        { text: "hello" },
        { message: { role: "assistant", content: null, refusal: "no" }, finishReason: "content_filter" },
        { status: 429, headers: { "retry-after": "1" }, body: { error: {} } },
        { raw: "{" },
        { cut: true, raw: "0123456789" },
        { drop: true },
        { delay: "5 millis", text: "" },
        { hang: true }
      ]
    })
    const url = `${endpoint.url}/chat/completions`
    const ask = post(url, '{"model":"m","seed":9007199254740993}')
    const completion = (index: number, message: unknown, finish_reason: string) => ({
      id: `chatcmpl-${index}`,
      object: "chat.completion",
      created: 0,
      model: "m",
      choices: [{ index: 0, message, finish_reason, logprobs: null }],
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
    })
    assert.deepStrictEqual(
      JSON.parse((yield* ask).body),
      completion(0, { role: "assistant", content: "hello" }, "stop")
    )
    assert.deepStrictEqual(
      JSON.parse((yield* ask).body),
      completion(1, { role: "assistant", content: null, refusal: "no" }, "content_filter")
    )
    assert.deepStrictEqual(yield* ask, { status: 429, body: '{"error":{}}', whole: true })
    assert.deepStrictEqual(yield* ask, { status: 200, body: "{", whole: true })
    assert.deepStrictEqual(yield* ask, { status: 200, body: "01234", whole: false })
    assert.strictEqual(yield* Effect.flip(ask), "read ECONNRESET")
    assert.deepStrictEqual(JSON.parse((yield* ask).body), completion(6, { role: "assistant", content: "" }, "stop"))
    const hanging = yield* Effect.fork(ask)
    const requests = yield* endpoint.awaitRequests(8)
    yield* Fiber.interrupt(hanging)
    yield* endpoint.awaitIdle
    const beyond = yield* ask
    assert.deepStrictEqual([beyond.status, /SCRIPT_EXHAUSTED/.test(beyond.body)], [400, true])
    assert.deepStrictEqual(
      requests.map(({ body, index }) => [index, body]),
      requests.map((_, index) => [index, { model: "m", seed: 9007199254740993n }])
    )
    assert.strictEqual((yield* endpoint.requests).length, 9)
  })
)

it.scoped("a function answers from the request; a key is asked for; elsewhere is nothing", () =>
  Effect.gen(function* () {
    const endpoint = yield* ChatEndpoint.make({
      prefix: "",
      apiKey: "k",
      answers: ({ headers, text }) => Effect.succeed({ raw: `${headers.authorization} ${text}` })
    })
    const url = `${endpoint.url}/chat/completions`
    const key = { authorization: "Bearer k" }
    assert.deepStrictEqual(yield* post(url, "hm", key), { status: 200, body: "Bearer k hm", whole: true })
    assert.strictEqual((yield* post(url, "hm")).status, 401)
    assert.strictEqual((yield* post(`${endpoint.url}/v1/chat/completions`, "hm", key)).status, 404)
    assert.deepStrictEqual(
      (yield* endpoint.requests).map(({ body, text }) => [body, text]),
      [
        [null, "hm"],
        [null, "hm"]
      ]
    )
  })
)

it.scoped("calls tools, has a choice and a usage as they are given, and lets bodies drip", () =>
  Effect.gen(function* () {
    const usage = { prompt_tokens: 3, completion_tokens: 4 }
    const choice = { message: null, finish_reason: "abort" }
    const endpoint = yield* ChatEndpoint.make({
      answers: [
        {
          calls: [{ tool: "a" }, { tool: "b", args: { n: 2n ** 64n }, id: "x" }, { tool: "c", args: "{", id: null }],
          usage
        },
        { choice, usage: null },
        { raw: '{"drip": 1}', blanks: 3, drip: "1 millis" },
        { raw: "0123456789", drip: "1 millis", cut: true },
        { raw: "0123456789", drip: "1 hours" }
      ]
    })
    const url = `${endpoint.url}/chat/completions`
    const calling = JSON.parse((yield* post(url, "{}")).body)
    const called = (name: string, args: string, id: object = {}) => ({
      ...id,
      type: "function",
      function: { name, arguments: args }
    })
    assert.deepStrictEqual(calling.choices, [
      {
        index: 0,
        message: {
          role: "assistant",
          content: null,
          tool_calls: [
            called("a", "{}", { id: "call_0_0" }),
            called("b", '{"n":18446744073709551616}', { id: "x" }),
            called("c", "{")
          ]
        },
        finish_reason: "tool_calls",
        logprobs: null
      }
    ])
    assert.deepStrictEqual(calling.usage, usage)
    assert.deepInclude(JSON.parse((yield* post(url, "{}")).body), { choices: [choice], usage: null })
    assert.deepStrictEqual(yield* post(url, "{}"), { status: 200, body: '\n\n\n{"drip": 1}', whole: true })
    assert.deepStrictEqual(yield* post(url, "{}"), { status: 200, body: "01234", whole: false })
    const dripping = yield* Effect.fork(post(url, "{}"))
    yield* endpoint.awaitRequests(5)
    yield* Fiber.interrupt(dripping)
    yield* endpoint.awaitIdle
  })
)
