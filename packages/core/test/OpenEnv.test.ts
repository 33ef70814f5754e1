/** OpenEnv servers as their dialect meets them, on scripts of what stock ones send (0.10.0). */
import { assert, describe, it } from "@effect/vitest"
import * as Catalog from "@miroir-effect/core/Catalog"
import type * as Dialect from "@miroir-effect/core/Dialect"
import * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import { EnvError } from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as OpenEnv from "@miroir-effect/core/OpenEnv"
import * as Recognition from "@miroir-effect/core/Recognition"
import type * as Session from "@miroir-effect/core/Session"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/TestClock"
import { leasing } from "./layers.js"

const metadata = { additionalProperties: true, description: "Additional metadata for the action", type: "object" }
const callTool = {
  properties: {
    metadata,
    type: { const: "call_tool", default: "call_tool" },
    tool_name: { type: "string" },
    arguments: { type: "object" }
  },
  required: ["tool_name"],
  title: "CallToolAction"
}
const move = {
  $defs: { Side: { enum: ["left", "right"] } },
  additionalProperties: false,
  description: "A move.",
  properties: { metadata, side: { $ref: "#/$defs/Side" } },
  required: ["side"],
  title: "Move",
  type: "object"
}
const state = { episode_id: "e", step_count: 0 }
const done = { ...state, done: false }
const schema = (action: Json.Json): ScriptedContainer.Script["http"] => ({
  "GET /schema": { body: { action, observation: {}, state: {} } }
})

const observed = (observation: Json.Json, reward: Json.Json = null, done = false): ScriptedContainer.Reply => ({
  send: { type: "observation", data: { observation, reward, done } }
})
const refused = (code: string, more: Json.JsonObject = {}): ScriptedContainer.Reply => ({
  send: { type: "error", data: { message: "no", code, ...more } }
})
const called = (text: string) => ({
  metadata: {},
  tool_name: "t",
  result: { content: [{ type: "text", text }], structured_content: { result: text }, data: text, is_error: false },
  error: null
})
const dead = { tool_name: "t", result: null, error: { message: "MCP client is not available; environment is closed" } }

interface World {
  readonly session: Session.Service
  readonly container: ScriptedContainer.ScriptedContainer
}

/** A session on an OpenEnv server whose steps are of this kind, with an episode begun; all but a `state` gets the next reply. */
const withEpisode = <A, E>(
  action: Json.JsonObject,
  replies: ReadonlyArray<ScriptedContainer.Reply>,
  use: (world: World) => Effect.Effect<A, E, Scope.Scope>
) =>
  Effect.gen(function* () {
    const left = [observed({}), ...replies]
    const container = yield* ScriptedContainer.make({
      opened: state,
      http: schema(action) ?? {},
      replies: ({ type }) =>
        type === "state" ? { send: { type, data: state } } : (left.shift() ?? refused("TOO_MANY"))
    })
    const { lease } = yield* Leasing.Leasing
    const session = yield* lease({ urls: [container.url], waitBusy: false })
    yield* session.reset("t1", { taskHash: "h1" })
    return yield* use({ session, container })
  }).pipe(Effect.scoped, Effect.provide(leasing()))

const framesOf = ({ container }: World) => Effect.map(container.seen, ({ frames }) => frames.slice(1))

describe("a server is recognised", () => {
  const found: ReadonlyArray<
    [
      string,
      ReadonlyArray<Json.Json> | Json.JsonObject,
      ScriptedContainer.Answer,
      Recognition.Recognition | undefined,
      string,
      number
    ]
  > = [
    [
      "done in the state, leased in the health",
      { ...done, leased: 0 },
      { body: { action: callTool } },
      undefined,
      "miroir",
      0
    ],
    ["done in the state only", done, { body: { action: move } }, undefined, "own", 1],
    ["done in the state only, and no /schema", done, { status: 404 }, undefined, "miroir", 1],
    ["no /schema", state, { status: 404 }, undefined, "miroir", 1],
    ["a /schema of another method", state, { status: 405 }, undefined, "miroir", 1],
    ["a page in its place", state, { text: "<html>" }, undefined, "miroir", 1],
    ["JSON without an action", [], { body: { schema: {} } }, undefined, "miroir", 1],
    ["calls of tools", state, { body: { action: callTool } }, undefined, "tools", 1],
    [
      "lists of tools",
      state,
      { body: { action: { properties: { type: { const: "list_tools" } } } } },
      undefined,
      "tools",
      1
    ],
    ["any action", state, { body: { action: { title: "Action", properties: { metadata } } } }, undefined, "tools", 1],
    [
      "an action with nothing in it",
      state,
      { body: { action: { title: "Wait", properties: {} } } },
      undefined,
      "own",
      1
    ],
    ["an action of its own", state, { body: { action: move } }, undefined, "own", 1],
    ["done, but forced", { done: false }, { body: { action: move } }, Recognition.openEnv(), "own", 1],
    ["no /schema, but forced", state, { status: 404 }, Recognition.openEnv(), "tools", 1]
  ]
  for (const [name, opened, answer, dialect, expected, asked] of found) {
    it.scopedLive(`by ${name}: ${expected}`, () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make({
          opened,
          token: "tok",
          http: { "GET /schema": answer },
          ...("leased" in opened ? { health: { body: { status: "healthy", leased: false } } } : {}),
          replies: () => observed({})
        })
        const { lease } = yield* Leasing.Leasing
        const session = yield* lease({ urls: [container.url], waitBusy: false, token: Redacted.make("tok") })
        assert.deepStrictEqual(session.opened, opened)
        yield* session.reset("t", { coworkers: true, extra: { seed: 1n, task_id: null } })
        yield* session.step(expected === "own" ? "act" : "jump", '{"x": 1.0}')
        const { frames, requests } = yield* container.seen
        assert.strictEqual(requests.filter(({ path }) => path === "/schema").length, asked)
        const texts = frames.map(({ text }) => text.replace(/"[0-9a-f]{32}"/g, "ID"))
        const call =
          '{"type":"step","data":{"type":"call_tool","tool_name":"jump","arguments":{"x": 1.0},"metadata":{"episode_id":ID}}}'
        assert.deepStrictEqual(
          texts,
          expected === "miroir"
            ? ['{"type":"reset","data":{"task_id":"t","episode_id":ID,"max_seconds":null,"coworkers":true}}', call]
            : [
                '{"type":"reset","data":{"episode_id":ID,"seed":1}}',
                expected === "tools" ? call : '{"type":"step","data":{"x": 1.0}}'
              ]
        )
      }).pipe(Effect.provide(leasing(dialect === undefined ? {} : { recognition: dialect })))
    )
  }

  it.scopedLive("also where its env has no state before its first reset; a Miroir env's such answer is a refusal", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        ws: { error: { code: "EXECUTION_ERROR", message: "no attribute 'state'" } },
        http: { "GET /schema": { body: { action: move } } },
        replies: () => observed({})
      })
      const { lease } = yield* Leasing.Leasing
      const options = { urls: [container.url], waitBusy: false }
      const refused = yield* Effect.scoped(Effect.flatMap(lease(options), (session) => session.reset("t")))
      assert.deepStrictEqual(refused, {})
      yield* container.update({ http: { "GET /schema": { status: 404 } } })
      yield* container.awaitNoSockets
      const error = yield* Effect.flip(Effect.scoped(lease(options)))
      assert.deepInclude(error, { _tag: "EnvError", code: "EXECUTION_ERROR" })
    }).pipe(Effect.provide(leasing()))
  )

  it.scopedLive("or taken for unhealthy where it fails to answer, and for leased where it is silent", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ opened: state })
      for (const [answer, unhealthy] of [
        [{ status: 503 }, 1],
        [{ drop: true }, 1],
        [{ hang: true }, 0]
      ] as const) {
        yield* container.update({ http: { "GET /schema": answer } })
        const { lease } = yield* Leasing.Leasing
        const error = yield* Effect.flip(lease({ urls: [container.url], waitBusy: false, timeout: 0 }))
        assert.deepInclude(error, { _tag: "NoFreeContainer", unhealthy })
      }
    }).pipe(Effect.provide(leasing({ openingTimeout: 100, firstRound: 400, roundPause: 50 })))
  )
})

describe("a step", () => {
  for (const [kind, action] of Object.entries({ tools: callTool, own: move })) {
    it.live(`that is refused is an observation with the error, and the episode goes on: ${kind}`, () => {
      const errors = [{ type: "missing", loc: ["side"], input: 9007199254740993n }]
      const replies = [
        refused("VALIDATION_ERROR", { errors }),
        refused("EXECUTION_ERROR"),
        refused("UNKNOWN_TYPE"),
        observed({ ok: 1 }, true, true)
      ]
      return withEpisode(action, replies, ({ session }) =>
        Effect.gen(function* () {
          const refusal = yield* session.step("act")
          const error = { code: "VALIDATION_ERROR", message: "no", errors }
          assert.deepStrictEqual(refusal, { observation: { error }, reward: null, done: false })
          assert.include(session.show(refusal.observation), "9007199254740993")
          const thrown = yield* session.step("act")
          assert.deepStrictEqual(thrown.observation, { error: { code: "EXECUTION_ERROR", message: "no" } })
          assert.deepInclude(yield* Effect.flip(session.step("act")), { _tag: "EnvError", code: "UNKNOWN_TYPE" })
          assert.isTrue((yield* session.step("act")).done)
          const { record } = yield* session.finish
          assert.deepInclude(record.value, { reward: 1, diagnostics: { steps: 3, tool_errors: 2 } })
        })
      )
    })
  }

  it.live("with a tool that is not act is answered without the env, where its actions are its own", () =>
    withEpisode(move, [observed({}, 1, true)], (world) =>
      Effect.gen(function* () {
        const { session } = world
        const message = 'There is no tool "submit". The only one is act.'
        const answer = yield* session.step("submit")
        assert.deepStrictEqual(answer, { observation: { error: { message } }, reward: null, done: false })
        assert.deepStrictEqual(
          (yield* framesOf(world)).map(({ text }) => text),
          ['{"type":"state"}']
        )
        yield* session.step("act")
        const { record } = yield* session.finish
        assert.deepInclude(record.value, { reward: 1, diagnostics: { steps: 2, tool_errors: 1 } })
      })
    )
  )

  const endings: ReadonlyArray<[string, ScriptedContainer.Reply, RegExp]> = [
    [
      "after which the server gives the session up",
      { many: [refused("SESSION_ERROR"), { close: 1000 }] },
      /SESSION_ERROR: no/
    ],
    ["of an env that was taken away", observed(dead), /has taken the env away/],
    [
      "of an env that was taken away, as an error frame",
      refused("EXECUTION_ERROR", { message: dead.error.message }),
      /taken the env/
    ],
    ["behind which the server restarts", { close: 1012 }, /restarts \(1012\)/],
    [
      "whose server missed our pongs",
      { close: 1011, reason: "keepalive ping timeout" },
      /keepalive.*\(1011\).*ping timeout/
    ],
    ["that was too big", { close: 1009 }, /too big.*\(1009\)/],
    ["in which the connection is cut", { drop: true }, /cut|reset/]
  ]
  for (const [name, reply, message] of endings) {
    it.live(`${name} is the connection's loss, which sticks`, () =>
      withEpisode(callTool, [reply], (world) =>
        Effect.gen(function* () {
          const { container, session } = world
          const error = yield* Effect.flip(session.step("act"))
          assert.strictEqual(error._tag, "ConnectionLost")
          assert.match(error.message, message)
          const again = [
            yield* Effect.flip(session.finish),
            yield* Effect.flip(session.step("act")),
            yield* Effect.flip(session.state),
            yield* Effect.flip(session.coworkers),
            yield* Effect.flip(session.reset("t1"))
          ]
          for (const other of again) assert.strictEqual(other, error)
          assert.strictEqual((yield* container.seen).frames.length, 2)
        })
      )
    )
  }

  it.live("asks no coworker and speaks for none", () =>
    withEpisode(callTool, [observed({})], (world) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* world.session.coworkers, [])
        assert.deepStrictEqual(yield* world.session.coworkerReply("Ann", "hi"), Option.none())
        assert.deepStrictEqual(yield* framesOf(world), [])
      })
    )
  )
})

describe("finish", () => {
  const listed = (...names: ReadonlyArray<string>): ScriptedContainer.Reply => ({
    send: { type: "mcp", data: { jsonrpc: "2.0", id: 1, result: { tools: names.map((name) => ({ name })) } } }
  })
  const noMcp: ScriptedContainer.Reply = {
    send: { type: "mcp", data: { jsonrpc: "2.0", id: 1, error: { code: -32603, message: "no", data: null } } }
  }
  const ways: ReadonlyArray<
    [string, Json.JsonObject, ReadonlyArray<ScriptedContainer.Reply>, ReadonlyArray<string>, Json.JsonObject]
  > = [
    [
      "asks nothing after done",
      callTool,
      [observed({}, 0.5, true)],
      ["step"],
      { reward: 0.5, truncated: false, steps: 1 }
    ],
    [
      "submits where that is a tool",
      callTool,
      [observed({}, 0.5), listed("a", "submit"), observed(called("ok"), 1, true)],
      ["step", "state", "mcp", "submit"],
      { reward: 1.5, truncated: false, steps: 2 }
    ],
    [
      "cuts short what a submit does not end",
      callTool,
      [observed({}), listed("submit"), observed({ ...called(""), error: { message: "answer is missing" } })],
      ["step", "state", "mcp", "submit"],
      { reward: null, truncated: true, steps: 2, tool_errors: 1 }
    ],
    [
      "cuts short where no tool submits",
      callTool,
      [observed({}, 2), listed("a"), listed("a")],
      ["step", "state", "mcp"],
      { reward: 2, truncated: true, steps: 1 }
    ],
    [
      "cuts short where there are no tools",
      callTool,
      [observed({}), noMcp, observed({ tools: [], metadata: {} }), noMcp, observed({ tools: [], metadata: {} })],
      ["step", "state", "mcp", "step"],
      { reward: null, truncated: true, steps: 1 }
    ],
    [
      "cuts short an env of actions of its own",
      move,
      [observed({}, -1)],
      ["step", "state"],
      { reward: -1, truncated: true, steps: 1 }
    ]
  ]
  for (const [name, action, replies, types, expected] of ways) {
    it.live(`${name}, and is the same again`, () =>
      withEpisode(action, replies, (world) =>
        Effect.gen(function* () {
          const submits = (data: Json.Json | undefined) => Json.isObject(data) && data.tool_name === "submit"
          yield* world.session.step("act")
          const first = yield* world.session.finish
          const { diagnostics, metadata, reward, task_id } = first.record.value
          const told = {
            ...(Json.isObject(diagnostics) ? diagnostics : {}),
            ...(Json.isObject(metadata) ? metadata : {})
          }
          const found: Json.JsonObject = { ...told, reward: reward ?? null, task_id: task_id ?? null }
          assert.deepInclude(found, { ...expected, task_id: "t1", task_hash: "h1" })
          assert.strictEqual(first.success, first.reward !== null && first.reward >= 1)
          const frames = yield* framesOf(world)
          assert.deepStrictEqual(
            frames.map(({ data, type }) => (submits(data) ? "submit" : type)),
            types
          )
          assert.deepStrictEqual((yield* world.session.finish).metadata, first.metadata)
          const submitted = (yield* framesOf(world)).filter(({ data }) => submits(data))
          assert.strictEqual(submitted.length, types.includes("submit") ? 1 : 0)
          for (const { text } of submitted) assert.include(text, '"tool_name":"submit","arguments":{}')
        })
      )
    )
  }

  it.live("notices that the env was taken away, which lists no tools any more", () =>
    withEpisode(
      callTool,
      [observed({}, 1), listed(), observed({ tools: [], metadata: { error: dead.error.message } })],
      ({ session }) =>
        Effect.gen(function* () {
          yield* session.step("act")
          const error = yield* Effect.flip(session.finish)
          assert.strictEqual(error._tag, "ConnectionLost")
          assert.deepStrictEqual(yield* session.broken, Option.some(error))
        })
    )
  )

  it.live("fails by a SESSION_ERROR to its questions, and by an error of another kind", () =>
    withEpisode(callTool, [refused("FACTORY_ERROR"), refused("SESSION_ERROR")], ({ session }) =>
      Effect.gen(function* () {
        assert.deepInclude(yield* Effect.flip(session.finish), { _tag: "EnvError", code: "FACTORY_ERROR" })
        assert.deepInclude(yield* Effect.flip(session.finish), {
          _tag: "ConnectionLost",
          announced: { code: "SESSION_ERROR", reason: "no" }
        })
      })
    )
  )

  interface Step {
    readonly reward: Json.Json
    readonly success: Json.Json | undefined
    readonly error: "none" | "tool" | "result" | "refused"
    readonly millis: number
  }
  const steps: FastCheck.Arbitrary<ReadonlyArray<Step>> = FastCheck.array(
    FastCheck.record({
      reward: FastCheck.constantFrom<Json.Json>(null, null, true, false, 0.1, -0.25, 1, 3, 2n, "1", [1]),
      success: FastCheck.constantFrom<Json.Json | undefined>(undefined, undefined, null, true, false, 0, "yes"),
      error: FastCheck.constantFrom("none", "none", "tool", "result", "refused"),
      millis: FastCheck.nat(5000)
    }),
    { maxLength: 8 }
  )
  const played = (episode: Dialect.Episode, step: Step, done: boolean) => {
    const { decode, onError } = episode.step("act", "{}")
    const error = new EnvError({ url: "", code: "VALIDATION_ERROR", reason: "no" })
    if (step.error === "refused") return onError !== undefined && Either.isRight(onError(error)) && !done
    const observation = {
      ...(step.success === undefined ? {} : { metadata: { success: step.success } }),
      ...(step.error === "tool" ? { error: { message: "no" } } : { error: null }),
      result: { is_error: step.error === "result" }
    }
    return Either.isRight(decode({ data: { observation, reward: step.reward, done }, text: "" }))
  }
  it.effect.prop(
    "makes of any steps a record of their rewards, as a sum or the last, success, errors and time",
    [
      steps,
      FastCheck.boolean(),
      FastCheck.constantFrom("sum" as const, "last" as const),
      FastCheck.constantFrom(1, 0.5)
    ],
    ([all, ends, reward, successAt]) =>
      Effect.gen(function* () {
        const dialect = yield* OpenEnv.make({ _tag: "Own", schema: {} }, { reward, successAt })
        const beginning = {
          taskId: "t",
          taskHash: undefined,
          episodeId: "e",
          maxSeconds: null,
          coworkers: false,
          extra: {}
        }
        const episode = dialect.episode("http://env", beginning)
        yield* TestClock.adjust(10)
        episode.reset.decode({ data: { observation: {} }, text: "" })
        // A refusal neither ends an episode nor revives one.
        const lastGood = all.findLastIndex(({ error }) => error !== "refused")
        const ended = ends && lastGood >= 0
        for (const [index, step] of all.entries()) {
          yield* TestClock.adjust(step.millis)
          assert.isTrue(played(episode, step, ended && index === lastGood))
        }
        yield* TestClock.adjust(100)
        const { value } = yield* episode.finish(({ decode }) => Effect.orDie(decode({ data: state, text: "" })))
        const rewards = all.flatMap(({ error, reward }) =>
          error === "refused" || reward === null || typeof reward === "object" || typeof reward === "string"
            ? []
            : [Number(reward)]
        )
        const expected =
          rewards.length === 0
            ? null
            : reward === "last"
              ? (rewards.at(-1) ?? null)
              : rewards.reduce((sum, one) => sum + one, 0)
        const told = all[lastGood]?.success
        const counted = ended ? all.slice(0, lastGood + 1) : all
        assert.deepStrictEqual(value, {
          task_id: "t",
          reward: expected,
          metadata: {
            success: told === undefined || told === null ? (expected ?? -1) >= successAt - 1e-9 : Json.truthy(told),
            truncated: !ended
          },
          diagnostics: { steps: all.length, tool_errors: all.filter(({ error }) => error !== "none").length },
          timings: { episode_s: (counted.reduce((sum, { millis }) => sum + millis, 0) + (ended ? 0 : 100)) / 1000 }
        })
      }),
    { fastCheck: { numRuns: 40 } }
  )
})

describe("what a model is shown", () => {
  const image = { type: "image", data: "AAAA", mimeType: "image/png", annotations: null }
  const result = (content: Json.Json, more: Json.JsonObject = {}) => ({
    tool_name: "t",
    result: { content, structured_content: null, data: null, is_error: false, ...more },
    error: null,
    metadata: {}
  })
  const nested = '{"rooms":[{"at":{"x":9007199254740993}}],"none":null}'
  const text = { type: "text", text: "é" }
  const imagePart = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }
  const shown: ReadonlyArray<[string, Json.Json, string | ReadonlyArray<Json.JsonObject>]> = [
    ["a text, once", called("hé"), "hé"],
    ["nested objects", result([{ type: "text", text: nested }], { data: { rooms: [{}] } }), nested],
    ["several texts", result([text, text]), "é\né"],
    ["images among texts", result([text, image]), [{ type: "text", text: "é" }, imagePart]],
    [
      "an image and what is beside it",
      { ...result([image]), score: 2 },
      [imagePart, { type: "text", text: '{"score":2}' }]
    ],
    [
      "blocks of other kinds",
      result([image, { type: "resource", uri: "x" }]),
      [imagePart, { type: "text", text: '{"type":"resource","uri":"x"}' }]
    ],
    ["what has no content, by its structure", result([], { structured_content: { result: [] } }), '{"result":[]}'],
    ["what has none either, by its data", result([], { data: [1, Number.NaN] }), "[1,NaN]"],
    ["nothing", result([]), "null"],
    [
      "a result of another form",
      { tool_name: "t", result: { a: 12345678901234567890n }, error: null },
      '{"a":12345678901234567890}'
    ],
    ["a tool's error", { ...dead, metadata: {} }, `{"error":{"message":"${dead.error.message}"}}`],
    [
      "what an env adds to a result",
      { ...called("ok"), left: 3, metadata: { a: 1 } },
      'ok\n{"left":3,"metadata":{"a":1}}'
    ],
    ["any other observation", { board: [[0, null]], metadata: {} }, '{"board":[[0,null]]}'],
    ["what is no object", "plain", '"plain"']
  ]
  for (const [name, observation, expected] of shown) {
    it(`is ${name}`, () => assert.deepStrictEqual(OpenEnv.show(observation), expected))
  }

  const instructions: ReadonlyArray<[observation: Json.Json, expected: string, own?: string]> = [
    [{ prompt: "Do.", question: "Why?", task_id: "t", metadata: { a: 1 }, done: null }, 'Do.\n\n{"question":"Why?"}'],
    [{ instruction: "", question: "Why?", board: [0], left: 0 }, 'Why?\n\n{"board":[0],"left":0}'],
    [{ hint: "guess", metadata: {} }, '{"hint":"guess"}'],
    [{ metadata: { a: 1 } }, '{"metadata":{"a":1}}'],
    [{ metadata: {}, seed: 1 }, ""],
    ["Go.", "Go."],
    [null, ""],
    [{ board: [0] }, 'Win.\n\n{"board":[0]}', "Win."],
    [{ question: "Why?\n", board: [0], metadata: { a: 1 } }, 'Why?\n\n{"board":[0]}', "Why?"],
    [{ prompt: "You play X." }, "Win.\n\nYou play X.", "Win."],
    [null, "Win.", "Win."]
  ]
  it("of the first observation is its instruction, and what else it tells, behind the task's own", () => {
    for (const [observation, expected, own] of instructions) {
      assert.strictEqual(OpenEnv.instruction(observation, own), expected)
    }
  })

  it.effect("at the beginning is the task's, with the first observation where a policy acts on it", () =>
    Effect.gen(function* () {
      const day = "2026-11-30"
      for (const [kind, instruction, names, expected] of [
        ["Tools", "Do.", ["submit"], "Do.\n\nYou have 3 tool calls; call submit when you are done."],
        ["Tools", "", ["look"], '{"board":[0]}\n\nYou have 3 tool calls.'],
        ["Own", "Do.", ["act"], 'Do.\n\n{"board":[0]}\n\nYou have 3 tool calls.']
      ] as const) {
        const { prompt } = yield* OpenEnv.make(kind === "Tools" ? { _tag: kind } : { _tag: kind, schema: move })
        const task = { id: "t", task_hash: "h", instruction, max_steps: 3 }
        const tools = names.map((name) => ({ name }))
        assert.strictEqual(
          prompt({ task, observation: { board: [0] }, tools, day }),
          `${expected}\n\nToday is ${day} (UTC).`
        )
      }
    })
  )
})

describe("the catalog of an OpenEnv server", () => {
  const withCatalog = Effect.provide(Layer.provideMerge(Catalog.layer(), NodeHttp.layer))
  const sha = (hex: string) => `sha256:${hex}`

  it.scoped("has tasks with an id, a hash, an instruction and a reset, whatever they lack", () =>
    Effect.gen(function* () {
      const given = [
        { id: "a", task_hash: "h", instruction: "I", prompt: "P", persona: { description: "Ann" } },
        { task_id: "b", question: "Q", task_hash: "" },
        { id: 7, prompt: ["no text"], task_hash: "h" },
        { question: "What is picture 1 called?" },
        { b: [1, 2.5, 1e21, "é\u2028"], a: null },
        { id: 9007199254740993n, far: Number.NaN }
      ]
      const container = yield* ScriptedContainer.make({
        environments: ["env"],
        http: { ...schema(callTool), "POST /env/tasks": { text: Json.stringify({ tasks: given, env_name: "env" }) } }
      })
      const catalog = yield* Catalog.Catalog
      const tasks = yield* catalog.tasks(container.url, "dev")
      const picked = tasks.map(({ id, instruction, reset, task_hash }) => [id, task_hash, instruction, reset])
      const at = (index: number) => ({ split: "dev", index })
      assert.deepStrictEqual(picked.slice(0, 1), [["a", "h", "I", at(0)]])
      assert.deepStrictEqual(picked.slice(2, 5), [
        ["7", "h", "", { task_id: 7, ...at(2) }],
        [
          "dev-3",
          sha("c9878ec34791f0ab58ec336a9774eedbc7a071fd5da5dc0dbdafc87d3952e10a"),
          "What is picture 1 called?",
          at(3)
        ],
        ["dev-4", sha("7517ad0685e2711a07b83e95021246798e28ae66438c595d4ca6bf6c2930cedb"), "", at(4)]
      ])
      assert.deepStrictEqual([tasks[1]?.id, tasks[1]?.instruction, tasks[1]?.reset], ["b", "Q", at(1)])
      for (const index of [1, 5]) assert.match(tasks[index]?.task_hash ?? "", /^sha256:[0-9a-f]{64}$/)
      assert.deepInclude(tasks[0], { persona: { description: "Ann" }, prompt: "P" })
      const texts = { text: '{"tasks": ["What is 1?"]}' }
      yield* container.update({ http: { ...schema(callTool), "POST /env/tasks": texts } })
      assert.match(
        (yield* Effect.flip(catalog.tasks(container.url))).message,
        /tasks\[0\] is no object; .*--tasks FILE\.$/
      )
      yield* container.update({
        http: { ...schema(callTool), "POST /env/tasks": { text: Json.stringify({ tasks: given }) } }
      })
      // As a Miroir env they are none.
      assert.strictEqual(yield* catalog.dialect(container.url), "openenv")
      yield* container.update({ health: { body: { status: "healthy", leased: false } } })
      assert.strictEqual(yield* catalog.dialect(container.url), "miroir")
      assert.match((yield* Effect.flip(catalog.tasks(container.url, "dev"))).message, /tasks\[1\] has no id/)
      yield* container.update({ health: {} })
      const strict = yield* Catalog.make({ dialect: "miroir" })
      assert.match((yield* Effect.flip(strict.tasks(container.url, "dev"))).message, /tasks\[1\] has no id/)
      assert.strictEqual(yield* strict.dialect(container.url), "miroir")
    }).pipe(withCatalog)
  )

  it.scoped("without a task API says what to do about it; a Miroir env's refusal stays as it is", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ environments: ["env"] })
      const catalog = yield* Catalog.Catalog
      for (const [route, status, message] of [
        ["GET /list_environments", 404, /--tasks FILE.*--seeds A\.\.B/],
        ["POST /env/tasks", 501, /--tasks FILE.*--seeds A\.\.B/],
        ["POST /env/tasks", 500, /may have no split "dev"/],
        ["POST /env/tasks", 502, /answered 502/]
      ] as const) {
        yield* container.update({ http: { [route]: { status }, ...schema(move) } })
        const error = yield* Effect.flip(catalog.tasks(container.url, "dev"))
        assert.deepInclude(error, { _tag: "HttpStatusError", status })
        assert.match(error.message, message)
        if (route === "GET /list_environments")
          assert.strictEqual(yield* catalog.answering([container.url]), container.url)
        yield* container.update({ http: { [route]: { status } } })
        const plain = yield* Effect.flip(catalog.tasks(container.url, "dev"))
        assert.notMatch(plain.message, /--seeds|no split/)
      }
      for (const [names, message] of [
        [["train", "a\nb"], /It has no split "dev"\. Its splits are: train, a\\nb\.$/],
        [["train", "dev"], /answered 500\.?$/]
      ] as const) {
        const splits = names.map((name) => ({ name, type: "validation" }))
        yield* container.update({
          http: { "POST /env/tasks": { status: 500 }, "GET /env/splits": { body: splits }, ...schema(move) }
        })
        assert.match((yield* Effect.flip(catalog.tasks(container.url, "dev"))).message, message)
      }
    }).pipe(withCatalog)
  )

  it.scoped("has the env's tools whatever the surface, or the one tool act, where /mcp lists some too", () =>
    Effect.gen(function* () {
      const tools = [{ name: "a", input_schema: { type: "object" } }]
      const container = yield* ScriptedContainer.make({
        tools: { "": tools, code: tools },
        http: schema(callTool) ?? {}
      })
      const catalog = yield* Catalog.Catalog
      assert.deepStrictEqual(yield* catalog.tools(container.url, "code"), tools)
      yield* container.update({ http: schema(move) ?? {} })
      const { description, properties: all, ...parameters } = move
      const { metadata: _, ...properties } = all
      assert.deepStrictEqual(yield* catalog.tools(container.url, "code"), [
        { name: "act", description, inputSchema: { ...parameters, properties } }
      ])
    }).pipe(withCatalog)
  )

  it("has the properties of an action that may have another within at the top", () => {
    const { $defs, ...action } = move
    const recursive = { ...action, properties: { ...move.properties, next: { $ref: "#/$defs/Move" } } }
    const found = OpenEnv.actionsOf({ action: { $defs: { ...$defs, Move: recursive }, $ref: "#/$defs/Move" } })
    const own = Option.getOrUndefined(found)
    const { metadata: _, ...properties } = recursive.properties
    const { description, ...parameters } = recursive
    assert.deepStrictEqual<unknown>(own?._tag === "Own" && OpenEnv.actTool(own.schema), {
      name: "act",
      description,
      inputSchema: { ...parameters, properties, $defs: { ...$defs, Move: recursive } }
    })
    // What it refers to is not there, or elsewhere.
    for (const $ref of ["#/$defs/Gone", "https://x/Move"]) {
      const schema = { $defs, $ref }
      assert.deepStrictEqual(OpenEnv.actionsOf({ action: schema }), Option.some({ _tag: "Own", schema }))
    }
  })

  it("leaves an action its metadata where the env wants it", () => {
    const wanted = { properties: { metadata }, required: ["metadata"] }
    assert.deepStrictEqual(OpenEnv.actTool(wanted).inputSchema, { type: "object", ...wanted })
  })
})
