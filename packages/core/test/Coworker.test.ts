/** Coworkers: a model behind real HTTP, and sessions on real sockets. */
import { assert, describe, it } from "@effect/vitest"
import * as Coworker from "@miroir-effect/core/Coworker"
import type * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import type { CoworkerFailed } from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/TestClock"
import { leasing } from "./layers.js"
import { passPause } from "./support/pauses.js"
import { watching } from "./support/watching.js"

type Answer = ChatEndpoint.ChatAnswer

const secret = "sk-0123456789abcdef"
const messages = [{ role: "user", content: "Well?" }]

const completeAt = (settings: Coworker.Settings, chat: ReadonlyArray<{ readonly role: string }> = messages) =>
  Effect.flatMap(Coworker.Coworker, (coworker) => coworker.complete(chat)).pipe(
    Effect.provide(Layer.provide(Coworker.layer(settings), NodeHttp.layer))
  )

/** Repeats come at once. */
const atOnce = Schedule.recurs(2)

const error = (code: Json.Json, rest: Json.JsonObject = {}): Json.Json => ({
  error: { message: "said", code, ...rest }
})

const content = (value: Json.Json, rest: Json.JsonObject = {}): Answer => ({
  message: { role: "assistant", content: value, ...rest }
})

describe("a completion is asked for", () => {
  it.scoped("at chat/completions, with the model, the messages and what else is set", () =>
    Effect.gen(function* () {
      const endpoint = yield* ChatEndpoint.make({ answers: () => ({ text: "Yes." }) })
      const withUserinfo = endpoint.url.replace("//", "//user:pass@")
      const odd = [{ role: "user", content: [{ type: "text", text: "é" }], n: 2n ** 60n }]
      const cases: ReadonlyArray<[Partial<Coworker.Settings>, string | undefined]> = [
        [{}, undefined],
        [{ apiKey: Redacted.make("") }, undefined],
        [{ baseUrl: `${endpoint.url}//`, apiKey: Redacted.make(secret), temperature: 0 }, `Bearer ${secret}`],
        [{ baseUrl: `${endpoint.url}/chat/completions/` }, undefined],
        [{ baseUrl: withUserinfo }, `Basic ${btoa("user:pass")}`],
        [{ baseUrl: withUserinfo, apiKey: Redacted.make(secret) }, `Bearer ${secret}`]
      ]
      for (const [settings, authorization] of cases) {
        assert.strictEqual(yield* completeAt({ baseUrl: endpoint.url, model: "m", ...settings }, odd), "Yes.")
        const request = (yield* endpoint.requests).at(-1)
        assert.strictEqual(request?.headers.authorization, authorization)
        const temperature = settings.temperature === undefined ? {} : { temperature: settings.temperature }
        assert.deepStrictEqual(request?.body, { model: "m", messages: odd, ...temperature })
      }
    })
  )

  it.effect("from a URL that can be one, by the environment too", () =>
    Effect.gen(function* () {
      const invalid = yield* Effect.flip(completeAt({ baseUrl: "ftp://me:hidden@host", model: "m" }))
      assert.strictEqual(invalid._tag, "InvalidUrls")
      assert.notInclude(invalid.message, "hidden")
      const read = (entries: Record<string, string>) =>
        Effect.withConfigProvider(
          Coworker.config,
          ConfigProvider.fromMap(
            new Map(Object.entries(entries).map(([key, value]) => [`MIROIR_COWORKER_${key}`, value]))
          )
        )
      const least = { BASE_URL: "http://h/v1", MODEL: "m" }
      const none = { apiKey: undefined, temperature: undefined }
      assert.deepStrictEqual(yield* read(least), { baseUrl: "http://h/v1", model: "m", ...none })
      assert.deepStrictEqual(yield* read({ ...least, API_KEY: "", TEMPERATURE: "" }), {
        baseUrl: "http://h/v1",
        model: "m",
        ...none
      })
      const all = yield* read({ ...least, API_KEY: secret, TEMPERATURE: "0.5" })
      assert.strictEqual(all.temperature, 0.5)
      assert.strictEqual(all.apiKey === undefined ? "" : Redacted.value(all.apiKey), secret)
      for (const wrong of [{ MODEL: "m" }, { ...least, MODEL: "" }, { ...least, TEMPERATURE: "warm" }]) {
        assert.isTrue(Exit.isFailure(yield* Effect.exit(read(wrong))))
      }
    })
  )
})

describe("the text", () => {
  const texts: ReadonlyArray<[string, Answer, string]> = [
    ["as it came", content(" Yes,\n indeed.\n"), " Yes,\n indeed.\n"],
    ["parts", content([{ type: "text", text: "Yes, " }, { type: "output_text", text: "sir." }, "!"]), "Yes, sir.!"],
    [
      "parts that are no text",
      content([
        { type: "thinking", thinking: [{ text: "hm" }] },
        { type: "text", text: "A" }
      ]),
      "A"
    ],
    ["reasoning beside it", content("A", { reasoning_content: "hm", reasoning: "hm", refusal: null }), "A"],
    ["a leading block", content("\n<think>\nhm\n</think>\n\nA\n"), "A\n"],
    ["an empty block", content("<think></think>A"), "A"],
    ["a block opened by the template", content("hm\n</think>\n\nA"), "A"],
    ["a block that does not lead", content("A <think>hm</think>"), "A <think>hm</think>"],
    ["tags that are no block", content("A <think> B"), "A <think> B"],
    ["the older API", { body: { choices: [{ text: "A", index: 0 }] } }, "A"],
    ["NaN within", { raw: '{"usage": NaN, "choices": [{"message": {"content": "A"}}]}' }, "A"],
    ["blank lines and a mark before it", { raw: '\n\n\ufeff \n{"choices": [{"message": {"content": "A"}}]}' }, "A"],
    ["an error of null", { body: { error: null, choices: [{ message: { content: "A" } }] } }, "A"],
    ["cut short by its length", { ...content("A"), finishReason: "length" }, "A"]
  ]
  it.scoped("is taken as it came, less the reasoning, from all that servers send", () =>
    Effect.gen(function* () {
      const endpoint = yield* ChatEndpoint.make({ answers: texts.map(([, answer]) => answer) })
      for (const [name, , expected] of texts) {
        assert.strictEqual(yield* completeAt({ baseUrl: endpoint.url, model: "m" }), expected, name)
      }
    })
  )
})

describe("a failure", () => {
  const retried: ReadonlyArray<[string, Answer, CoworkerFailed["reason"]]> = [
    ["cut", { ...content("A"), cut: true }, "transport"],
    ["dropped", { drop: true }, "transport"],
    ["an empty body", { raw: "" }, "transport"],
    ["a blank body", { raw: "\n\n" }, "transport"],
    ["half a body", { raw: '{"choices": [{"message": {"cont' }, "transport"],
    ...[408, 409, 429, 500, 502, 503, 504, 529].map((status): [string, Answer, CoworkerFailed["reason"]] => [
      `${status}`,
      { status, raw: "no" },
      "status"
    ]),
    ["x-should-retry: true", { status: 400, headers: { "x-should-retry": "true" } }, "status"],
    ["429 in a 200", { body: error(429) }, "status"],
    ['"503" in a 200', { body: error("503") }, "status"],
    ["502 in a choice", { body: { choices: [{ message: { content: "A" }, ...Object(error(502)) }] } }, "status"],
    ["rate_limit_exceeded in a 200", { body: error("rate_limit_exceeded") }, "status"],
    ["server_error in a 200", { body: error(null, { type: "server_error" }) }, "status"],
    ["InternalServerError in a 200", { body: { object: "error", message: "m", type: "InternalServerError" } }, "status"]
  ]
  const final: ReadonlyArray<[string, Answer, CoworkerFailed["reason"]]> = [
    ...[400, 401, 403, 404, 422, 302].map((status): [string, Answer, CoworkerFailed["reason"]] => [
      `${status}`,
      { status, raw: "no" },
      "status"
    ]),
    ["x-should-retry: false", { status: 503, headers: { "x-should-retry": "false" } }, "status"],
    ["a spent quota", { status: 429, body: error("insufficient_quota") }, "status"],
    ["a spent quota by type", { status: 429, body: error(null, { type: "insufficient_quota" }) }, "status"],
    ["a billing limit", { status: 429, body: error("billing_hard_limit_reached") }, "status"],
    ["a spent quota in a 200", { body: error("insufficient_quota", { type: "rate_limit_error" }) }, "status"],
    ["400 in a 200", { body: error(400) }, "status"],
    ["an unknown error in a 200", { body: { error: "broken" } }, "status"],
    ["a pause that is too long", { status: 503, headers: { "retry-after": "60.1" } }, "status"],
    ["a content filter's error", { status: 400, body: error("content_filter") }, "refused"],
    ["a content filter", { ...content("A"), finishReason: "content_filter" }, "refused"],
    ["a refusal", content(null, { refusal: "I'd rather not." }), "refused"],
    ["an error nested as no stack can", { raw: `{"error":${"[".repeat(99_999)}${"]".repeat(99_999)}}` }, "status"],
    ["a refusal in parts", content([{ type: "refusal", refusal: "No." }]), "refused"],
    ["no choice", { body: { choices: [] } }, "empty"],
    ["null", content(null), "empty"],
    ["blank", content(" \n\t"), "empty"],
    ["reasoning only", content("<think>hm</think>\n"), "empty"],
    ["reasoning without an end", content("<think>hm"), "empty"],
    ["no part with text", content([{ type: "thinking", thinking: "hm" }]), "empty"],
    ["a call of a tool", content(null, { tool_calls: [{ id: "1" }] }), "empty"],
    ["no JSON", { raw: "Welcome" }, "malformed"],
    ["a web page", { raw: "<html>Welcome</html>" }, "malformed"],
    ["a stream", { raw: 'data: {"choices": []}\n\ndata: [DONE]\n' }, "malformed"],
    ["no object", { raw: "[]" }, "malformed"],
    ["no choices", { body: {} }, "malformed"],
    ["no message", { body: { choices: [{}] } }, "malformed"],
    ["no content that is known", content(7), "malformed"]
  ]

  it.scoped("that a repeat may mend is met with two repeats", () =>
    Effect.gen(function* () {
      for (const [name, answer, reason] of retried) {
        const endpoint = yield* ChatEndpoint.make({ answers: [answer, answer, { text: "A" }, answer, answer, answer] })
        const settings = { baseUrl: endpoint.url, model: "m", retry: atOnce }
        assert.strictEqual(yield* completeAt(settings), "A", name)
        const failure = yield* Effect.flip(completeAt(settings))
        assert.deepInclude(failure, { _tag: "CoworkerFailed", url: endpoint.url, model: "m", reason }, name)
        assert.strictEqual((yield* endpoint.requests).length, 6, name)
      }
    })
  )

  it.scoped("that a repeat cannot mend is the result at once", () =>
    Effect.gen(function* () {
      for (const [name, answer, reason] of final) {
        const endpoint = yield* ChatEndpoint.make({ answers: [answer, { text: "A" }] })
        const failure = yield* Effect.flip(completeAt({ baseUrl: endpoint.url, model: "m", retry: atOnce }))
        assert.deepInclude(failure, { _tag: "CoworkerFailed", url: endpoint.url, reason }, name)
        assert.strictEqual((yield* endpoint.requests).length, 1, name)
        if (answer.status !== undefined) assert.strictEqual("status" in failure && failure.status, answer.status, name)
      }
      for (const status of [200, 404]) {
        const elsewhere = yield* ChatEndpoint.make({ prefix: "/chat", answers: [{ status, raw: "<html>" }] })
        const failure = yield* Effect.flip(completeAt({ baseUrl: elsewhere.url, model: "m", retry: atOnce }))
        assert.include(failure.message, "Check its base URL (MIROIR_COWORKER_BASE_URL): most end in /v1;")
      }
    })
  )

  it.scoped("is repeated after about 0.5 s, then 1 s, and counted", () =>
    Effect.gen(function* () {
      const endpoint = yield* ChatEndpoint.make({ answers: () => ({ status: 503 }) })
      const before = yield* Metric.value(Telemetry.completionRetries)
      const fiber = yield* Effect.fork(watching(completeAt({ baseUrl: endpoint.url, model: "m" })))
      yield* endpoint.awaitRequests(1)
      yield* passPause(400, 600)
      yield* endpoint.awaitRequests(2)
      yield* passPause(800, 1200)
      const { exit, spans } = yield* Fiber.join(fiber)
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual((yield* endpoint.requests).length, 3)
      assert.strictEqual((yield* Metric.value(Telemetry.completionRetries)).count - before.count, 2)
      assert.deepInclude(Object.fromEntries(spans.find(({ name }) => name === "miroir.completion")?.attributes ?? []), {
        url: endpoint.url,
        model: "m",
        attempts: 3,
        failure: "status",
        status: 503
      })
    })
  )

  it.scoped("is repeated no sooner than the server asks for, and no sooner than the schedule does", () =>
    Effect.gen(function* () {
      const now = Date.UTC(2026, 10, 30, 5, 33, 26)
      yield* TestClock.setTime(now)
      const cases: ReadonlyArray<[Record<string, string>, number]> = [
        [{ "retry-after": "20" }, 20_000],
        [{ "retry-after": "2.5" }, 2500],
        [{ "retry-after": "60" }, 60_000],
        [{ "retry-after-ms": "1500.5", "retry-after": "20" }, 1500.5],
        [{ "retry-after-ms": "soon", "retry-after": "20" }, 20_000],
        [{ "retry-after": "Mon, 30 Nov 2026 05:33:36 GMT" }, 10_000],
        [{ "retry-after": "Monday, 30-Nov-26 05:33:36 GMT" }, 10_000],
        [{ "retry-after": "Mon Nov 30 05:33:36 2026" }, 10_000],
        [{ "retry-after": "Mon, 30 Nov 2026 05:33:16 GMT" }, 1000],
        [{ "retry-after": "-20" }, 1000],
        [{ "retry-after": "in 2040" }, 1000],
        [{ "retry-after": "0.2" }, 1000]
      ]
      for (const [headers, pause] of cases) {
        yield* TestClock.setTime(now)
        const endpoint = yield* ChatEndpoint.make({ answers: [{ status: 429, headers }, { text: "A" }] })
        const retry = Schedule.spaced("1 seconds")
        const fiber = yield* Effect.fork(completeAt({ baseUrl: endpoint.url, model: "m", retry, timeout: "2 hours" }))
        yield* endpoint.awaitRequests(1)
        assert.strictEqual(yield* passPause(1, 3_600_000), pause, JSON.stringify(headers))
        assert.strictEqual(yield* Fiber.join(fiber), "A")
      }
    })
  )

  it.scoped("is a timeout after thirty seconds an attempt, or what is set, the body included", () =>
    Effect.gen(function* () {
      for (const [timeout, millis] of [
        [undefined, 30_000],
        ["600 seconds", 600_000]
      ] as const) {
        const endpoint = yield* ChatEndpoint.make({ answers: [{ hang: true }, { hang: true }] })
        const settings = { baseUrl: endpoint.url, model: "m", retry: Schedule.recurs(1), timeout }
        const fiber = yield* Effect.fork(Effect.flip(completeAt(settings)))
        for (const count of [1, 2]) {
          yield* endpoint.awaitRequests(count)
          yield* passPause(millis, millis)
        }
        assert.deepInclude(yield* Fiber.join(fiber), { _tag: "CoworkerFailed", reason: "timeout" })
        yield* endpoint.awaitIdle
      }
    })
  )
})

it.scoped("the key and the userinfo are in no error, log or span, and go to no other origin", () =>
  Effect.gen(function* () {
    const answers: ReadonlyArray<Answer> = [
      { status: 401, body: error("invalid_api_key", { message: `Incorrect key: ${secret}` }) },
      { status: 503, raw: `Bearer ${secret}` },
      { raw: `${"x".repeat(90)}${secret}` },
      { body: error(500, { message: secret }) },
      content(null, { refusal: `I will not use ${secret}.` }),
      { drop: true }
    ]
    for (const answer of answers) {
      const endpoint = yield* ChatEndpoint.make({ answers: () => answer })
      const { exit, seen } = yield* watching(
        completeAt({
          baseUrl: endpoint.url.replace("//", "//user:pass-0123456789@"),
          model: "m",
          apiKey: Redacted.make(secret),
          retry: atOnce
        })
      )
      assert.isTrue(Exit.isFailure(exit))
      assert.include(seen, "CoworkerFailed")
      for (const hidden of [secret, secret.slice(0, 10), "pass-0123456789"]) assert.notInclude(seen, hidden)
    }
    const away = yield* ChatEndpoint.make({ answers: () => ({ text: "A" }) })
    const headers = { location: `${away.url}/chat/completions` }
    const endpoint = yield* ChatEndpoint.make({ answers: () => ({ status: 307, headers }) })
    const settings = { baseUrl: endpoint.url, model: "m", apiKey: Redacted.make(secret) }
    assert.strictEqual(yield* completeAt(settings), "A")
    const [request] = yield* away.requests
    assert.deepStrictEqual([request?.headers.authorization, request?.body], [undefined, { model: "m", messages }])
  })
)

describe("answerCoworkers", () => {
  const turns = [
    { coworker: "Ana", messages: [{ role: "user", content: "to Ana" }] },
    { coworker: "Bo", messages: [{ role: "user", content: "to Bo" }] }
  ]
  const env = (frame: ScriptedContainer.Frame): ScriptedContainer.Reply => {
    const replies: Record<string, Json.JsonObject> = {
      reset: { observation: {}, reward: null, done: false },
      coworkers: { turns },
      coworker_reply: { status: 404 },
      state: { done: false }
    }
    return { send: { type: frame.type, data: replies[frame.type] ?? {} } }
  }
  const lease = (url: string) =>
    Effect.flatMap(Leasing.Leasing, (leases) => leases.lease({ urls: [url], waitBusy: false })).pipe(
      Effect.provide(leasing())
    )
  const coworkerAt = (baseUrl: string) =>
    Effect.map(
      Layer.build(Layer.provide(Coworker.layer({ baseUrl, model: "m", retry: atOnce }), NodeHttp.layer)),
      Context.get(Coworker.Coworker)
    )
  const sent = (frames: ReadonlyArray<ScriptedContainer.Frame>) =>
    frames.filter(({ type }) => type !== "reset").map(({ data, type }) => [type, data])

  it.scopedLive("asks once, answers each turn in order, and judges no status", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ replies: env })
      const endpoint = yield* ChatEndpoint.make({ answers: [{ text: "A " }, { status: 500 }, { text: "B" }] })
      const session = yield* lease(container.url)
      const coworker = yield* coworkerAt(endpoint.url)
      yield* session.reset("t", { coworkers: true })
      assert.strictEqual(yield* coworker.answerCoworkers(session), 2)
      assert.deepStrictEqual(sent((yield* container.seen).frames), [
        ["coworkers", undefined],
        ["coworker_reply", { coworker: "Ana", text: "A " }],
        ["coworker_reply", { coworker: "Bo", text: "B" }]
      ])
      assert.deepStrictEqual(
        (yield* endpoint.requests).map(({ body }) => body),
        [0, 1, 1].map((turn) => ({ model: "m", messages: turns[turn]?.messages ?? [] }))
      )
    })
  )

  it.scopedLive("sends no reply where the model has no text, and the session stays sound", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ replies: env })
      const endpoint = yield* ChatEndpoint.make({ answers: [{ text: " " }] })
      const session = yield* lease(container.url)
      const coworker = yield* coworkerAt(endpoint.url)
      yield* session.reset("t", { coworkers: true })
      const failure = yield* Effect.flip(coworker.answerCoworkers(session))
      assert.deepInclude(failure, { _tag: "CoworkerFailed", reason: "empty" })
      yield* session.state
      assert.deepStrictEqual(
        sent((yield* container.seen).frames).map(([type]) => type),
        ["coworkers", "state"]
      )
    })
  )

  it.scopedLive(
    "leaves the queue free while the model thinks, and drops the text of an episode that was replaced",
    () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make({ replies: env })
        const thinking = yield* Deferred.make<void>()
        const endpoint = yield* ChatEndpoint.make({
          answers: ({ index }) => (index === 1 ? Effect.as(Deferred.await(thinking), { text: "late" }) : { text: "A" })
        })
        const session = yield* lease(container.url)
        const coworker = yield* coworkerAt(endpoint.url)
        yield* session.reset("t", { coworkers: true })
        const fiber = yield* Effect.fork(coworker.answerCoworkers(session))
        yield* endpoint.awaitRequests(2)
        yield* session.state
        yield* session.reset("t", { coworkers: true })
        yield* Deferred.succeed(thinking, undefined)
        assert.strictEqual(yield* Fiber.join(fiber), 1)
        assert.deepStrictEqual(
          sent((yield* container.seen).frames).map(([type]) => type),
          ["coworkers", "coworker_reply", "state"]
        )
      })
  )

  it.scopedLive("answers the turns of an episode whose reset was under way when it began", () =>
    Effect.gen(function* () {
      const reset = yield* Deferred.make<void>()
      const container = yield* ScriptedContainer.make({
        replies: (frame) =>
          frame.type === "reset" && frame.index > 0 ? Effect.as(Deferred.await(reset), env(frame)) : env(frame)
      })
      const endpoint = yield* ChatEndpoint.make({ answers: () => ({ text: "A" }) })
      const session = yield* lease(container.url)
      const coworker = yield* coworkerAt(endpoint.url)
      yield* session.reset("t", { coworkers: true })
      const resetting = yield* Effect.fork(session.reset("t", { coworkers: true }))
      yield* container.awaitFrames(2)
      assert.strictEqual(Option.isNone(yield* session.episodeId), true)
      const answering = yield* Effect.fork(coworker.answerCoworkers(session))
      yield* Effect.yieldNow()
      yield* Deferred.succeed(reset, undefined)
      yield* Fiber.join(resetting)
      assert.strictEqual(yield* Fiber.join(answering), 2)
    })
  )
})

it.effect("answerable drops tasks with coworkers where there is no model, and says how many", () =>
  Effect.gen(function* () {
    const tasks: ReadonlyArray<Json.JsonObject> = [
      { id: "none" },
      { id: "empty", coworkers: [] },
      { id: "null", coworkers: null },
      { id: "one", coworkers: ["Ana"] },
      { id: "true", coworkers: true }
    ]
    const ids = (kept: ReadonlyArray<Json.JsonObject>) => kept.map(({ id }) => id)
    const all = yield* watching(Effect.map(Coworker.answerable(tasks, true), ids))
    const some = yield* watching(Effect.map(Coworker.answerable(tasks, false), ids))
    const none = yield* watching(Effect.map(Coworker.answerable(tasks.slice(0, 3), false), ids))
    assert.deepStrictEqual(all.exit, Exit.succeed(["none", "empty", "null", "one", "true"]))
    assert.deepStrictEqual(some.exit, Exit.succeed(["none", "empty", "null"]))
    assert.deepStrictEqual(none.exit, Exit.succeed(["none", "empty", "null"]))
    assert.include(some.seen, "Left out 2 tasks with coworkers")
    for (const { seen } of [all, none]) assert.notInclude(seen, "Left out")
  })
)
