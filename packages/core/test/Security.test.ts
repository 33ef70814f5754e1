/** What servers may not bring about: secrets told, terminals moved, paths left, memory filled. SECURITY.md promises it. */
import * as Http from "node:http"
import * as Net from "node:net"
import { inspect } from "node:util"
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib"
import type * as HttpClient from "@effect/platform/HttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Coworker from "@miroir-effect/core/Coworker"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as MiroirError from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Text from "@miroir-effect/core/Text"
import * as Transport from "@miroir-effect/core/Transport"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import { WebSocketServer } from "ws"
import * as http from "../src/internal/http.js"
import { leasing } from "./layers.js"
import { type Watched, watching } from "./support/watching.js"

/** A server on loopback; gives its URL. */
const serve = <A extends Net.Server>(server: A) =>
  Effect.acquireRelease(
    Effect.async<A>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    () => Effect.sync(() => server.close())
  ).pipe(
    Effect.map((server) => {
      const address = server.address()
      return `http://127.0.0.1:${typeof address === "object" ? address?.port : address}`
    })
  )

describe("secrets", () => {
  const token = "tok-3f9d27c1e0"
  const password = "pw-81c6e0aa/+=57"
  const key = "sk-59b1d7e2f0"
  const basic = btoa(`pilot:${password}`)

  /** All that was sent to prove who we are, in the clear too. */
  const echoOf = ({ headers: { authorization = "" } }: Http.IncomingMessage): string =>
    `you sent ${authorization}, ${Buffer.from(authorization.replace(/^\w+ /, ""), "base64").toString("latin1")}.`

  /** What the server does with what it got, by the first part of a path. */
  const answers: Readonly<Record<string, (echo: string, response: Http.ServerResponse, path: string) => void>> = {
    status: (echo, response) => response.writeHead(400, { "x-echo": echo.replace(/[^ -~]/g, "") }).end(echo),
    busy: (echo, response) => response.writeHead(503, { "retry-after": "9999" }).end(echo),
    redirect: (echo, response) => response.writeHead(307, { location: `http://127.0.0.1:1/?${encodeURI(echo)}` }).end(),
    userinfo: (echo, response) =>
      response.writeHead(307, { location: `http://${encodeURIComponent(echo)}:x@127.0.0.1:1/` }).end(),
    text: (echo, response) => response.end(`no JSON: ${echo}`),
    cut: (echo, response) => {
      response.writeHead(200, { "content-length": 10_000 })
      response.write(echo, () => response.destroy())
    },
    names: (echo, response, path) =>
      path.endsWith("/list_environments") ? response.end(JSON.stringify([echo])) : response.writeHead(404).end(echo),
    json: (echo, response, path) =>
      response.end(
        JSON.stringify(
          path.endsWith("/list_environments")
            ? [echo]
            : { status: echo, error: { code: echo, message: echo, type: echo }, tasks: [{ id: echo }], [echo]: echo }
        )
      )
  }

  /** The same for sockets: at these paths the server is healthy, and lets nobody in, or whoever comes. */
  const sockets: Readonly<
    Record<string, "refuse" | ((echo: string, opening: boolean) => ReadonlyArray<string | number>)>
  > = {
    refuse: "refuse",
    opening: (echo) => [JSON.stringify({ type: "error", data: { code: echo, message: echo } })],
    frames: (echo, opening) => [
      JSON.stringify(
        opening ? { type: "state", data: {} } : { type: "error", data: { code: echo, message: echo, echo } }
      )
    ],
    announced: (echo, opening) =>
      opening
        ? [JSON.stringify({ type: "state", data: {} })]
        : [JSON.stringify({ type: "error", data: { code: "BYE", message: echo } }), 4001],
    garbled: (echo, opening) => [opening ? JSON.stringify({ type: "state", data: {} }) : `no JSON: ${echo}`],
    lacking: (echo, opening) => [JSON.stringify({ type: "state", data: opening ? {} : { [echo]: echo } })],
    closed: (_, opening) => (opening ? [JSON.stringify({ type: "state", data: {} })] : [4001])
  }

  const echoing = Effect.gen(function* () {
    const sent = new Set<string>()
    const server = Http.createServer((request, response) => {
      if (request.headers.authorization !== undefined) sent.add(request.headers.authorization)
      const [, mode = ""] = (request.url ?? "").split("/")
      const answer = answers[mode]
      if (answer !== undefined) answer(echoOf(request), response, request.url ?? "")
      else response.end('{"status": "healthy"}')
    })
    const accept = new WebSocketServer({ noServer: true })
    server.on("upgrade", (request, socket, head) => {
      const echo = echoOf(request)
      const [, mode = ""] = (request.url ?? "").split("/")
      const does = sockets[mode]
      if (does === undefined || does === "refuse") {
        socket.end(`HTTP/1.1 400 ${echo.replace(/[^ -~]/g, "")}\r\ncontent-length: ${echo.length}\r\n\r\n${echo}`)
        return
      }
      accept.handleUpgrade(request, socket, head, (webSocket) => {
        let opening = true
        webSocket.on("message", () => {
          for (const reply of does(echo, opening)) {
            if (typeof reply === "number") webSocket.close(reply, echo.slice(0, 100))
            else webSocket.send(reply)
          }
          opening = false
        })
      })
    })
    const url = yield* serve(server)
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    return { url, sent }
  })

  type Services = Catalog.Catalog | Leasing.Leasing | HttpClient.HttpClient

  const withCatalog = <A, E>(use: (catalog: typeof Catalog.Catalog.Service) => Effect.Effect<A, E>) =>
    Effect.flatMap(Catalog.Catalog, use)

  const calls = (
    url: string,
    apiKey: Redacted.Redacted | undefined
  ): ReadonlyArray<Effect.Effect<unknown, unknown, Services>> => [
    withCatalog(({ answering }) => answering([url])),
    withCatalog(({ tasks }) => tasks(url)),
    withCatalog(({ tools }) => tools(url, "mcp")),
    withCatalog(({ health }) => health(url)),
    Effect.flatMap(Coworker.make({ baseUrl: url, model: "m", apiKey, retry: Schedule.stop }), ({ complete }) =>
      complete([{ role: "user", content: "?" }])
    )
  ]

  const sessions = (url: string): ReadonlyArray<Effect.Effect<unknown, unknown, Services>> => {
    const leased = Effect.flatMap(Leasing.Leasing, ({ lease }) => lease({ urls: [url], waitBusy: false, timeout: 0 }))
    return [
      Effect.scoped(Effect.flatMap(leased, ({ reset }) => reset("t-1"))),
      Effect.scoped(Effect.flatMap(leased, ({ coworkers }) => coworkers)),
      Effect.scoped(Effect.flatMap(leased, ({ state }) => Effect.zipRight(Effect.either(state), state)))
    ]
  }

  /** How it failed, was logged and traced. What it gave, where it did, is the server's to say. */
  const told = ({ exit, logs, spans }: Watched<unknown, unknown>): string => {
    const failure = (exit: Exit.Exit<unknown, unknown>) => (Exit.isFailure(exit) ? [exit, `${exit.cause}`] : [])
    const traced = spans.map((span) => ({
      ...span,
      parent: undefined,
      status: span.status._tag === "Ended" ? failure(span.status.exit) : []
    }))
    const shown = [failure(exit), JSON.stringify(exit), logs, traced]
    return inspect(Exit.isFailure(exit) ? shown : shown.slice(2), {
      depth: Number.POSITIVE_INFINITY,
      maxStringLength: null,
      maxArrayLength: null,
      showHidden: true
    })
  }

  it.scopedLive("are in no error, log or span, whatever a server does with them", () =>
    Effect.gen(function* () {
      const { sent, url } = yield* echoing
      const withUserinfo = url.replace("//", `//pilot:${encodeURIComponent(password)}@`)
      let redacted = 0
      for (const given of [Redacted.make(token), undefined]) {
        const apiKey = given && Redacted.make(key)
        const services = Layer.mergeAll(Catalog.layer({ token: given }), leasing({ token: given })).pipe(
          Layer.provideMerge(NodeHttp.layer)
        )
        const attempts = [
          ...Object.keys(answers).flatMap((mode) => calls(`${withUserinfo}/${mode}`, apiKey)),
          ...Object.keys(sockets).flatMap((mode) => sessions(`${withUserinfo}/${mode}`))
        ]
        const watched = yield* Effect.forEach(attempts, watching).pipe(Effect.provide(services))
        for (const seen of watched.map(told)) {
          for (const hidden of [token, password, key, basic, encodeURIComponent(password)]) {
            if (seen.includes(hidden)) assert.fail(`${hidden} is in ${seen}`)
          }
          if (seen.includes("redacted>")) redacted++
        }
      }
      // They were there to be told.
      assert.sameMembers(Array.from(sent), [`Bearer ${token}`, `Bearer ${key}`, `Basic ${basic}`])
      assert.isAtLeast(redacted, 30)
    })
  )
})

/** Moves the cursor, turns the line round, breaks it, hides. */
const hostile = "evil\u001b[2J\u009b31m\u202e\u2066\u200f\u061c\u0007\r\nerror: \u2028\u{e0041}"

const unseen = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\u200b-\u200d\u2060-\u2064\ufeff\u{e0000}-\u{e007f}]/u

describe("text that a server chose", () => {
  /** A value of a schema with such text wherever it takes any. */
  const filled = (ast: AST.AST): unknown => {
    switch (ast._tag) {
      case "StringKeyword":
        return hostile
      case "NumberKeyword":
        return 3
      case "Literal":
        return ast.literal
      case "Union":
        return filled(ast.types[0])
      case "TupleType":
        return [...ast.elements, ...ast.rest].map(({ type }) => filled(type))
      case "TypeLiteral":
        return Object.fromEntries(ast.propertySignatures.map(({ name, type }) => [name, filled(type)]))
      default:
        return undefined
    }
  }

  it("is shown in the message of every error without what moves, turns or hides, in one line", () => {
    let count = 0
    for (const [name, error] of Object.entries(MiroirError)) {
      if (!Schema.isSchema(error)) continue
      const made = Schema.decodeUnknownSync(Schema.make<unknown>(error.ast))(filled(AST.encodedAST(error.ast)))
      if (!(made instanceof Error)) continue
      assert.notMatch(made.message, unseen, name)
      count++
    }
    assert.isAtLeast(count, 25)
  })

  it.prop("is made visible, and says the same as JSON", [FastCheck.string({ unit: "binary" })], ([text]) => {
    assert.notMatch(Text.visible(text), unseen)
    assert.strictEqual(JSON.parse(Text.visible(JSON.stringify(text))), text)
  })
})

it.scopedLive("a name that a server chose stays within its part of the path", () =>
  Effect.gen(function* () {
    const names = [
      "a/b",
      "../x",
      "%2e%2e",
      "..%2fx",
      "a?b",
      "a#b",
      "a\\b",
      "http://other.example/",
      "//x",
      "\u202e\u001b",
      ";a=b"
    ]
    const catalog = yield* Catalog.Catalog
    for (const name of names) {
      const env = yield* ScriptedContainer.make({ environments: [name], prefix: "/base" })
      const told = yield* Effect.exit(catalog.tasks(env.url))
      const paths = (yield* env.seen).requests.map(({ method, path }) => `${method} ${path}`)
      const posts = paths.filter((path) => path.startsWith("POST "))
      assert.deepStrictEqual(posts, [`POST /base/${encodeURIComponent(name)}/tasks`], `${name} ${told}`)
    }
    for (const name of ["", ".", ".."]) {
      const env = yield* ScriptedContainer.make({ environments: [name] })
      const error = yield* Effect.flip(catalog.tasks(env.url))
      assert.propertyVal(error, "_tag", "UnexpectedReply")
      assert.isFalse((yield* env.seen).requests.some(({ method }) => method === "POST"))
    }
  }).pipe(Effect.provide(Catalog.layer()), Effect.provide(NodeHttp.layer))
)

describe("memory is bounded, before a session is ours, against", () => {
  const megabyte = 1024 * 1024

  /** Answers without end, after a beginning; counts what it got rid of. */
  const endless = (begin: string, more: string) =>
    Effect.gen(function* () {
      const sockets = new Set<Net.Socket>()
      const counts = { requests: 0, bytes: 0 }
      const chunk = more.repeat(Math.ceil(16_384 / more.length))
      const server = Net.createServer((socket) => {
        sockets.add(socket)
        const pour = (): void => {
          while (!socket.destroyed && socket.write(chunk));
        }
        socket.once("data", () => {
          counts.requests++
          socket.on("drain", pour).write(begin)
          pour()
        })
        socket.on("error", () => socket.destroy())
        socket.on("close", () => {
          counts.bytes = Math.max(counts.bytes, socket.bytesWritten)
          sockets.delete(socket)
        })
      })
      const url = yield* serve(server)
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          for (const socket of sockets) socket.destroy()
        })
      )
      const turn = Effect.async<void>((resume) => {
        setTimeout(() => resume(Effect.void), 1)
      })
      return { url, counts, gone: Effect.repeat(turn, { until: () => sockets.size === 0 }) }
    })

  const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
  const cases: ReadonlyArray<[name: string, begin: string, more: string, most: number, told: RegExp]> = [
    [
      "a head",
      "HTTP/1.1 200 OK\r\n",
      `x-more: ${"x".repeat(100)}\r\n`,
      8 * megabyte,
      /the head of its answer is too long/
    ],
    ["a line of a head", "HTTP/1.1 200 OK\r\nx-more: ", "x", 8 * megabyte, /the head of its answer is too long/],
    ["a refusal's body", "HTTP/1.1 400 No\r\n\r\n", "x", 8 * megabyte, /answered 400/],
    [
      "a redirect's body",
      "HTTP/1.1 307 No\r\nlocation: /list_environments\r\n\r\n",
      "x",
      8 * megabyte,
      /more than 5 redirects/
    ]
  ]
  for (const [name, begin, more, most, told] of cases) {
    it.scopedLive(`${name} without end`, () =>
      Effect.gen(function* () {
        const { counts, gone, url } = yield* endless(begin, more)
        const base = yield* BaseUrl.parse(url)
        const catalog = yield* Catalog.Catalog
        const transport = yield* Transport.make()
        const listed = yield* Effect.flip(catalog.answering([url]))
        assert.match(listed.message, told)
        const { health } = yield* catalog.health(url)
        assert.strictEqual(health, "unhealthy")
        const refused = yield* Effect.flip(Effect.scoped(transport.open(base, Option.none())))
        assert.propertyVal(refused, "_tag", "ConnectionFailed")
        yield* gone
        assert.isAtMost(counts.bytes, most)
        assert.isAtLeast(counts.requests, 3)
      }).pipe(Effect.provide(Catalog.layer()), Effect.provide(NodeHttp.layer))
    )
  }

  it.scopedLive("a health without end", () =>
    Effect.gen(function* () {
      const { counts, gone, url } = yield* endless(chunked, "4\r\nxxxx\r\n")
      const base = yield* BaseUrl.parse(url)
      const { health, reason } = yield* http.checkHealth(base, Option.none(), "30 seconds")
      assert.deepStrictEqual([health, reason], ["unhealthy", Option.some(`an answer of more than ${megabyte} bytes`)])
      yield* gone
      assert.isAtMost(counts.bytes, 8 * megabyte)
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scopedLive("an answer without end", () =>
    Effect.gen(function* () {
      const { counts, gone, url } = yield* endless("HTTP/1.1 200 OK\r\n\r\n", "x")
      const base = yield* BaseUrl.parse(url)
      const error = yield* Effect.flip(
        http.call({ base, token: Option.none(), method: "GET", path: ["x"], timeout: "1 minute" })
      )
      assert.match(error.message, /its answer is too long/)
      yield* gone
      assert.isAtMost(counts.bytes, http.maxBodyBytes + 16 * megabyte)
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  const healthy = JSON.stringify({ status: "healthy", leased: true })
  const bomb = gzipSync(Buffer.alloc(32 * megabyte))
  const encodings: ReadonlyArray<[encoding: string, body: Uint8Array, told: string | undefined]> = [
    ["gzip", gzipSync(healthy), undefined],
    ["X-GZIP", gzipSync(healthy), undefined],
    ["deflate", deflateSync(healthy), undefined],
    ["br", brotliCompressSync(healthy), undefined],
    ["identity", Buffer.from(healthy), undefined],
    ["gzip", Buffer.from(healthy), "an answer that is not the gzip it says it is"],
    ["gzip", gzipSync(healthy).subarray(0, 20), "an answer that is not the gzip it says it is"],
    ["gzip, gzip", gzipSync(gzipSync(healthy)), "an answer encoded as gzip, gzip, which is unknown here"],
    ["zstd\u00ad", Buffer.from("?"), "an answer encoded as zstd\\u00ad, which is unknown here"],
    ["gzip", bomb, `an answer of more than ${megabyte} bytes`],
    ["br", brotliCompressSync(Buffer.alloc(32 * megabyte)), `an answer of more than ${megabyte} bytes`]
  ]
  it.scopedLive("encodings that nobody asked for: known ones are read, within the bound", () =>
    Effect.gen(function* () {
      let index = 0
      const url = yield* serve(
        Http.createServer((_, response) => {
          const [encoding, body] = encodings[index] ?? ["", ""]
          response.writeHead(200, { "content-encoding": encoding }).end(body)
        })
      )
      const base = yield* BaseUrl.parse(url)
      for (const [encoding, , told] of encodings) {
        const { health, reason } = yield* http.checkHealth(base, Option.none(), "30 seconds")
        const expected = told === undefined ? ["leased", Option.none()] : ["unhealthy", Option.some(told)]
        assert.deepStrictEqual([health, reason], expected, `${encoding} ${index}`)
        index++
      }
    }).pipe(Effect.provide(NodeHttp.layer))
  )
})
