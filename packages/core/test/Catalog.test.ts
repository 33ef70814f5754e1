/** The catalog, over real HTTP. */
import { assert, describe, it } from "@effect/vitest"
import * as Catalog from "@miroir-effect/core/Catalog"
import type * as Json from "@miroir-effect/core/Json"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { passPause } from "./support/pauses.js"
import { watching } from "./support/watching.js"

const secret = "tok-0123456789"
const token = Redacted.make(secret)
const task = {
  id: "t1",
  task_hash: "h1",
  instruction: "Do it.",
  persona: { description: null },
  max_steps: 3,
  extra: 1
}

const withCatalog = (settings?: Catalog.Settings) =>
  Effect.provide(Layer.provideMerge(Catalog.layer(settings), NodeHttp.layer))

describe("tasks", () => {
  it.scoped("are those of a split of the first environment, with all their keys", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        environments: ["an office/é", "other"],
        http: { "POST /an%20office%2F%C3%A9/tasks": { text: JSON.stringify({ tasks: [task] }) } },
        prefix: "/deep/er",
        token: secret
      })
      const catalog = yield* Catalog.Catalog
      assert.deepStrictEqual(yield* catalog.tasks(`${container.url}/`), [task])
      yield* catalog.tasks(container.url, "test")
      const { requests } = yield* container.seen
      assert.deepStrictEqual(
        requests.filter(({ method }) => method === "POST").map(({ body }) => JSON.parse(body)),
        [{ split: "train" }, { split: "test" }]
      )
    }).pipe(withCatalog({ token }))
  )

  const replies: ReadonlyArray<[Json.Json, Json.Json, RegExp]> = [
    [[], null, /GET \/list_environments: it lists no environment/],
    [{ environments: ["env"] }, null, /GET \/list_environments: it lists no environment/],
    [[1], null, /GET \/list_environments: it lists no environment/],
    [[".."], null, /GET \/list_environments: its environment's name, "\.\.", fits into no path/],
    [["env"], [task], /POST \/env\/tasks: it has no tasks/],
    [["env"], { tasks: {} }, /POST \/env\/tasks: it has no tasks/],
    [["env"], { tasks: [task, "t2"] }, /POST \/env\/tasks: tasks\[1\] is no object/],
    [["env"], { tasks: [{ ...task, id: 1 }] }, /POST \/env\/tasks: tasks\[0\] has no id/],
    [["env"], { tasks: [task, { ...task, task_hash: null }] }, /POST \/env\/tasks: tasks\[1\] has no task_hash/],
    [["env"], { tasks: [{ id: "t", task_hash: "h" }] }, /POST \/env\/tasks: tasks\[0\] has no instruction/]
  ]
  it.scoped("fail as an unexpected reply that names what lacks", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      const catalog = yield* Catalog.Catalog
      for (const [environments, body, message] of replies) {
        yield* container.update({
          http: { "GET /list_environments": { body: environments }, "POST /env/tasks": { body } }
        })
        const error = yield* Effect.flip(catalog.tasks(container.url))
        assert.strictEqual(error._tag, "UnexpectedReply")
        assert.match(error.message, message)
      }
    }).pipe(withCatalog())
  )

  it.scoped("have thirty seconds, or what is set, for each answer", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ http: { "POST /scripted/tasks": { hang: true } } })
      for (const [timeout, millis] of [
        [undefined, 30_000],
        ["5 minutes", 300_000]
      ] as const) {
        const fiber = yield* Effect.fork(
          Effect.flatMap(Catalog.Catalog, (catalog) => Effect.flip(catalog.tasks(container.url))).pipe(
            withCatalog({ timeout })
          )
        )
        yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 1)
        yield* passPause(millis, millis)
        const error = yield* Fiber.join(fiber)
        assert.deepInclude(error, { _tag: "ConnectionFailed", url: container.url })
        yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 0)
      }
    })
  )
})

describe("tools", () => {
  it.scoped("are those of a surface, or of the env's own choice", () =>
    Effect.gen(function* () {
      const tools = [{ name: "submit", inputSchema: { type: "object" } }]
      const container = yield* ScriptedContainer.make({ tools: { "": [], code: tools } })
      const catalog = yield* Catalog.Catalog
      assert.deepStrictEqual(yield* catalog.tools(container.url), [])
      assert.deepStrictEqual(yield* catalog.tools(container.url, "code"), tools)
      const { requests } = yield* container.seen
      assert.deepStrictEqual(
        requests.map(({ body, method, path, query }) => [
          method,
          path,
          `${query}`,
          body === "" ? "" : JSON.parse(body)
        ]),
        ["", "surface=code"].flatMap((query) => [
          ["GET", "/schema", "", ""],
          ["POST", "/mcp", query, { jsonrpc: "2.0", id: 1, method: "tools/list" }]
        ])
      )
    }).pipe(withCatalog())
  )

  it.scoped("of one name are the first of them, and one warning names them", () =>
    Effect.gen(function* () {
      const tools = ["a", "b\nd", "c", "b\nd", "a", "a", "toString"].map((name, index) => ({ name, index }))
      const container = yield* ScriptedContainer.make({ tools: { "": tools, code: tools.slice(0, 3) } })
      const catalog = yield* Catalog.Catalog
      const warnings: Array<string> = []
      const logger = Logger.make(({ message }) => {
        warnings.push(String(message))
      })
      const given = yield* Effect.provide(
        Effect.all([catalog.tools(container.url), catalog.tools(container.url, "code")]),
        Logger.replace(Logger.defaultLogger, logger)
      )
      assert.deepStrictEqual(given, [[...tools.slice(0, 3), { name: "toString", index: 6 }], tools.slice(0, 3)])
      assert.deepStrictEqual(warnings, [
        `${container.url} lists several tools of one name, of which the first is taken: b\\nd, a`
      ])
    }).pipe(withCatalog())
  )

  const replies: ReadonlyArray<[Json.Json, string, RegExp]> = [
    [{ error: { code: -32601, message: "no such method" } }, "ToolsError", /no such method. \(-32601\)/],
    [{ error: "broken", result: { tools: [] } }, "ToolsError", /"broken"/],
    [{ error: null, result: null }, "UnexpectedReply", /POST \/mcp: it has no tools/],
    [{ result: { tools: [{ name: "a" }, {}] } }, "UnexpectedReply", /tools\[1\] has no name/],
    [[], "UnexpectedReply", /it has no tools/]
  ]
  it.scoped("fail as ToolsError by a JSON-RPC error, and as an unexpected reply without a list", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      const catalog = yield* Catalog.Catalog
      for (const [body, tag, message] of replies) {
        yield* container.update({ http: { "POST /mcp": { body } } })
        const error = yield* Effect.flip(catalog.tools(container.url))
        assert.strictEqual(error._tag, tag)
        assert.match(error.message, message)
      }
    }).pipe(withCatalog())
  )
})

describe("answering", () => {
  it.scoped("is the first that can list its environments, as it was given; else the last failure", () =>
    Effect.gen(function* () {
      const absent = yield* ScriptedContainer.make({ absent: true })
      const empty = yield* ScriptedContainer.make({ environments: [] })
      const good = yield* ScriptedContainer.make()
      const spare = yield* ScriptedContainer.make()
      const catalog = yield* Catalog.Catalog
      const given = `${good.url}//`
      assert.strictEqual(yield* catalog.answering([absent.url, empty.url, given, spare.url]), given)
      assert.deepStrictEqual((yield* spare.seen).requests, [])
      const failure = yield* Effect.flip(catalog.answering([absent.url, empty.url]))
      assert.deepInclude(failure, { _tag: "UnexpectedReply", url: empty.url })
    }).pipe(withCatalog())
  )

  it.scoped("sends nothing where there is no URL or an invalid one", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      const catalog = yield* Catalog.Catalog
      for (const urls of [[], [container.url, "ftp://user:hidden@env.example"]]) {
        const error = yield* Effect.flip(catalog.answering(urls))
        assert.strictEqual(error._tag, "InvalidUrls")
        assert.notInclude(error.message, "hidden")
      }
      assert.strictEqual((yield* Effect.flip(catalog.tasks("localhost:1")))._tag, "InvalidUrls")
      assert.strictEqual((yield* Effect.flip(catalog.tools("localhost:1")))._tag, "InvalidUrls")
      assert.deepStrictEqual((yield* container.seen).requests, [])
    }).pipe(withCatalog())
  )
})

describe("health", () => {
  const replies: ReadonlyArray<[ScriptedContainer.Script["health"], Catalog.Health["health"], string | undefined]> = [
    [{ body: { status: "healthy" } }, "free", undefined],
    [{ status: 503, body: { status: "healthy", leased: 1 } }, "leased", undefined],
    [{ body: { status: "starting" } }, "unhealthy", 'its status is not "healthy"'],
    [{ status: 500 }, "unhealthy", "it answered 500"],
    [{ text: "[]" }, "unhealthy", "its answer is no JSON object"]
  ]
  it.scoped("is what the container answers, and why where that is unhealthy; only an invalid URL is a failure", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ token: secret })
      const absent = yield* ScriptedContainer.make({ absent: true })
      const catalog = yield* Catalog.Catalog
      for (const [health, expected, reason] of replies) {
        yield* container.update({ health: health ?? {} })
        const found = yield* catalog.health(`${container.url}/`)
        assert.deepStrictEqual([found.health, Option.getOrUndefined(found.reason)], [expected, reason])
        assert.isTrue(Option.isSome(found.latency))
      }
      assert.strictEqual((yield* container.seen).requests.at(-1)?.headers.authorization, `Bearer ${secret}`)
      assert.deepStrictEqual(yield* catalog.health(absent.url), {
        health: "unhealthy",
        reason: Option.some("connection refused"),
        latency: Option.none()
      })
      assert.strictEqual((yield* Effect.flip(catalog.health("localhost:1")))._tag, "InvalidUrls")
    }).pipe(withCatalog({ token }))
  )

  it.scoped("has two seconds, or what is set; the latency is the whole answer's", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ health: { hang: true } })
      for (const [healthTimeout, millis] of [
        [undefined, 2000],
        ["5 seconds", 5000]
      ] as const) {
        const fiber = yield* Effect.fork(
          Effect.flatMap(Catalog.Catalog, (catalog) => catalog.health(container.url)).pipe(
            withCatalog({ healthTimeout })
          )
        )
        yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 1)
        yield* passPause(millis, millis)
        assert.deepInclude(yield* Fiber.join(fiber), { health: "unhealthy", latency: Option.none() })
        yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 0)
      }
    })
  )
})

it.scoped("the token is the layer's, the environment's or the call's, and nowhere to be seen", () =>
  Effect.gen(function* () {
    const container = yield* ScriptedContainer.make()
    const fromEnvironment = Catalog.layerConfig.pipe(
      Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["MIROIR_TOKEN", secret]]))))
    )
    const withoutOne = Catalog.layerConfig.pipe(
      Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["MIROIR_TOKEN", ""]]))))
    )
    const other = Redacted.make("another-token")
    for (const [layer, options, sent] of [
      [Catalog.layer({ token }), undefined, secret],
      [Catalog.layer({ token }), { token: other }, "another-token"],
      [fromEnvironment, undefined, secret],
      [withoutOne, undefined, undefined]
    ] as const) {
      yield* container.update({
        http: {
          "GET /list_environments": ({ headers }) => ({ status: 401, body: { got: headers.authorization ?? null } })
        }
      })
      const { exit, seen, spans } = yield* Effect.flatMap(Catalog.Catalog, (catalog) =>
        catalog.tasks(container.url, "train", options)
      ).pipe(Effect.provide(Layer.provide(layer, NodeHttp.layer)), watching)
      const expected = sent === undefined ? undefined : `Bearer ${sent}`
      assert.strictEqual((yield* container.seen).requests.at(-1)?.headers.authorization, expected)
      assert.isTrue(Exit.isFailure(exit))
      assert.include(seen, "Check the token")
      assert.deepInclude(Object.fromEntries(spans.find(({ name }) => name === "miroir.catalog")?.attributes ?? []), {
        container: container.url,
        request: "GET /list_environments",
        code: "HTTP_401"
      })
      for (const hidden of [secret, "another-token"]) assert.notInclude(seen, hidden)
    }
  })
)
