/** HTTP calls to containers, on real sockets. */
import * as Http from "node:http"
import * as Net from "node:net"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { assert, describe, it } from "@effect/vitest"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import * as http from "../src/internal/http.js"
import { passPause, turn } from "./support/pauses.js"
import { watching } from "./support/watching.js"

const secret = "tok-0123456789"
const token = Option.some(Redacted.make(secret))

const get = (url: string, path = "x") =>
  Effect.flatMap(BaseUrl.parse(url), (base) =>
    http.call({ base, token, method: "GET", path: [path], timeout: "30 seconds" })
  )

const healthOf = (url: string) =>
  BaseUrl.parse(url).pipe(
    Effect.flatMap((base) => http.health(base, token)),
    Effect.map(({ health }) => health),
    Effect.orDie
  )

const urlOf = (server: Net.Server): string => {
  const address = server.address()
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : address}`
}

/** For what a scripted container cannot do. */
const serve = (listener: Http.RequestListener) =>
  Effect.acquireRelease(
    Effect.async<Http.Server>((resume) => {
      const server = Http.createServer(listener)
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  ).pipe(Effect.map(urlOf))

describe("health", () => {
  const healthy = { status: "healthy" }
  const cases: ReadonlyArray<[string, ScriptedContainer.Answer, http.Health]> = [
    ["healthy", { body: healthy }, "free"],
    ["healthy with 503", { status: 503, body: healthy }, "free"],
    ["healthy with 201", { status: 201, body: healthy }, "free"],
    ["leased", { body: { ...healthy, leased: true } }, "leased"],
    ["leased with 503", { status: 503, body: { ...healthy, leased: true } }, "leased"],
    ["leased by a name", { body: { ...healthy, leased: "somebody" } }, "leased"],
    ["leased, NaN", { text: '{"status": "healthy", "leased": NaN}' }, "leased"],
    ["not leased, {}", { body: { ...healthy, leased: {} } }, "free"],
    ["not leased, 0", { body: { ...healthy, leased: 0 } }, "free"],
    ["another status code", { status: 500, body: healthy }, "unhealthy"],
    ["a redirect to nowhere", { status: 302, body: healthy }, "unhealthy"],
    ["another status", { body: { status: "starting" } }, "unhealthy"],
    ["leased and unhealthy", { body: { status: "unhealthy", leased: true } }, "unhealthy"],
    ["no object", { body: ["healthy"] }, "unhealthy"],
    ["no JSON", { text: "healthy" }, "unhealthy"],
    ["empty", { text: "" }, "unhealthy"],
    ["too long", { text: `{"status":"healthy"}${" ".repeat(1024 * 1024)}` }, "unhealthy"],
    ["cut", { cut: true, body: healthy }, "unhealthy"],
    ["dropped", { drop: true }, "unhealthy"]
  ]
  it.scoped("is free, leased or unhealthy by the answer", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      for (const [name, health, expected] of cases) {
        yield* container.update({ health })
        assert.strictEqual(yield* healthOf(container.url), expected, name)
      }
      yield* container.stop
      assert.strictEqual(yield* healthOf(container.url), "unhealthy", "nobody listens")
      for (const [rest, expected] of [
        ["}", "free"],
        [" ".repeat(1024 * 1024), "unhealthy"]
      ] as const) {
        const url = yield* serve((_, response) => {
          response.write(`{"status":"healthy"${rest}`)
          // What is too long already is not read to its end.
          if (expected === "free") response.end()
        })
        assert.strictEqual(yield* healthOf(url), expected, `${rest.length} characters more, of no declared length`)
      }
      const { requests } = yield* container.seen
      assert.isTrue(requests.every(({ headers }) => headers.authorization === `Bearer ${secret}`))
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scoped("is unhealthy after two seconds, and the connection is given up", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ health: { hang: true } })
      const fiber = yield* Effect.fork(healthOf(container.url))
      yield* container.awaitSeen(({ healthRequests }) => healthRequests === 1)
      yield* TestClock.adjust("1999 millis")
      yield* turn
      assert.isNull(yield* Fiber.poll(fiber).pipe(Effect.map(Option.getOrNull)))
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* Fiber.join(fiber), "unhealthy")
      yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 0)
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scoped("does not wait for a connection, however many hang", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ http: { "GET /x": { hang: true } } })
      const hanging = yield* Effect.fork(
        Effect.forEach(Array(60).fill(container.url), (url) => get(url), { concurrency: "unbounded" })
      )
      yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 60)
      assert.strictEqual(yield* healthOf(container.url), "free")
      yield* Fiber.interrupt(hanging)
      yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 0)
    }).pipe(Effect.provide(NodeHttp.layer))
  )
})

it.scopedLive("the layer's end cuts a connection that is still being opened", () =>
  Effect.gen(function* () {
    const gone = yield* Deferred.make<void>()
    // Accepts, and never says a word of TLS.
    const server = yield* Effect.acquireRelease(
      Effect.async<Net.Server>((resume) => {
        const server = Net.createServer((socket) => {
          socket.on("error", () => socket.destroy())
          socket.on("close", () => Deferred.unsafeDone(gone, Exit.void))
          socket.resume()
        })
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) => Effect.sync(() => server.close())
    )
    const url = urlOf(server).replace("http", "https")
    const base = yield* BaseUrl.parse(url)
    const { health } = yield* Effect.provide(http.health(base, token, "50 millis"), NodeHttp.layer)
    assert.strictEqual(health, "unhealthy")
    yield* Deferred.await(gone)
  })
)

describe("call", () => {
  it.scoped("reads JSON as Python writes it, and says what else an answer is", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        http: {
          "GET /big": { text: "\ufeff[9007199254740993, NaN]" },
          "GET /html": { text: "<html>" },
          "GET /gone": { status: 410, text: "gone\u001b[2J" }
        },
        prefix: "/base"
      })
      const { json, request } = yield* get(`${container.url}//`, "big")
      assert.deepStrictEqual([json, request], [[9007199254740993n, Number.NaN], "GET /big"])
      const html = yield* Effect.flip(get(container.url, "html"))
      assert.deepInclude(html, { _tag: "UnexpectedReply", url: container.url, request: "GET /html" })
      const gone = yield* Effect.flip(get(container.url, "gone"))
      assert.deepInclude(gone, { _tag: "HttpStatusError", status: 410, code: "HTTP_410", url: `${container.url}/gone` })
      assert.notInclude(gone.message, "\u001b")
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scoped("percent-encodes its path", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ http: { "GET /a%2Fb%3F%23%20%C3%A9": { body: 1 } } })
      assert.strictEqual((yield* get(container.url, "a/b?# é")).json, 1)
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scoped("fails as ConnectionFailed where there is no whole answer", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        http: { "GET /drop": { drop: true }, "GET /cut": { cut: true, body: [1, 2, 3] } }
      })
      const raw = yield* serve((request) => request.socket.end("SSH-2.0-OpenSSH\r\n"))
      const cases: ReadonlyArray<[string, string, RegExp]> = [
        [container.url, "drop", /cut|reset/],
        [container.url, "cut", /cut|reset/],
        [container.url.replace("http", "https"), "x", /TLS/],
        [raw, "x", /does not speak HTTP/],
        ["http://127.0.0.1:1", "x", /connection refused/]
      ]
      for (const [url, path, reason] of cases) {
        const error = yield* Effect.flip(get(url, path))
        assert.deepInclude(error, { _tag: "ConnectionFailed", url })
        assert.match(error.message, reason)
      }
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scoped("has one deadline for the answer and its body", () =>
    Effect.gen(function* () {
      const url = yield* serve((_, response) => {
        response.write('{"status":')
      })
      const fiber = yield* Effect.fork(Effect.flip(get(url)))
      yield* passPause(30_000, 30_000)
      const error = yield* Fiber.join(fiber)
      assert.deepInclude(error, { _tag: "ConnectionFailed", reason: "no answer within 30s" })
    }).pipe(Effect.provide(NodeHttp.layer))
  )
})

describe("redirects", () => {
  const post = (url: string) =>
    Effect.flatMap(BaseUrl.parse(url), (base) =>
      http.call({ base, token, method: "POST", path: ["x"], body: { n: 1 }, timeout: "30 seconds" })
    )

  it.scoped("are followed with method and body for 307 and 308, and as GET for 301 to 303", () =>
    Effect.gen(function* () {
      const other = yield* ScriptedContainer.make({ http: { "GET /y": { body: 1 }, "POST /y": { body: 1 } } })
      for (const status of [301, 302, 303, 307, 308]) {
        const container = yield* ScriptedContainer.make({
          http: {
            "GET /x": { status, location: `http://u:p@${new URL(other.url).host}/y#z` },
            "POST /x": { status, location: `${other.url}/y` }
          }
        })
        assert.strictEqual((yield* get(container.url)).json, 1)
        const posted = yield* Effect.exit(post(container.url))
        assert.strictEqual(Exit.isSuccess(posted), status >= 307, `${status}`)
        if (Exit.isFailure(posted)) {
          assert.strictEqual((yield* Effect.flip(posted)).code, `HTTP_${status}`)
        }
      }
      const { requests } = yield* other.seen
      assert.deepStrictEqual(
        requests.map(({ body, headers, method }) => [method, body, headers.authorization]),
        [...["GET", "GET", "GET"], ...["GET", "POST", "GET", "POST"]].map((method) => [
          method,
          method === "POST" ? '{"n":1}' : "",
          undefined
        ])
      )
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.scoped("carry the token to the base URL's own origin only", () =>
    Effect.gen(function* () {
      const home = yield* ScriptedContainer.make({ http: { "GET /z": { body: 1 } } })
      const away = yield* ScriptedContainer.make({ http: { "GET /y": { status: 302, location: `${home.url}/z` } } })
      yield* home.update({
        http: {
          "GET /x": { status: 302, location: "/w" },
          "GET /w": { status: 302, location: `${away.url}/y` },
          "GET /z": { body: 1 }
        }
      })
      assert.strictEqual((yield* get(home.url)).json, 1)
      const atHome = (yield* home.seen).requests.map(({ headers, path }) => [path, headers.authorization])
      assert.deepStrictEqual(
        atHome,
        ["/x", "/w", "/z"].map((path) => [path, `Bearer ${secret}`])
      )
      assert.deepStrictEqual(
        (yield* away.seen).requests.map(({ headers }) => headers.authorization),
        [undefined]
      )
    }).pipe(Effect.provide(NodeHttp.layer))
  )

  it.effect("never carry it from TLS to plain", () =>
    Effect.gen(function* () {
      const sent: Array<HttpClientRequest.HttpClientRequest> = []
      const client = HttpClient.make((request, url) => {
        sent.push(request)
        const location = "http://env.example/plain"
        const response =
          url.protocol === "https:" ? new Response(null, { status: 307, headers: { location } }) : new Response("1")
        return Effect.succeed(HttpClientResponse.fromWeb(request, response))
      })
      yield* Effect.provideService(get("https://env.example"), HttpClient.HttpClient, client)
      assert.deepStrictEqual(
        sent.map(({ headers, url }) => [url, headers.authorization]),
        [
          ["https://env.example/x", `Bearer ${secret}`],
          ["http://env.example/plain", undefined]
        ]
      )
    })
  )

  it.scoped("end after five, and name where they led", () =>
    Effect.gen(function* () {
      const hops = (count: number): ScriptedContainer.Script => ({
        http: Object.fromEntries(
          Array.from({ length: count + 1 }, (_, index) => [
            index === 0 ? "GET /x" : `GET /${index}`,
            index === count ? { body: 1 } : { status: 307, location: `/${index + 1}` }
          ])
        )
      })
      const container = yield* ScriptedContainer.make(hops(5))
      assert.strictEqual((yield* get(container.url)).json, 1)
      yield* container.update(hops(6))
      assert.match((yield* Effect.flip(get(container.url))).message, /more than 5 redirects/)
      yield* container.update({ http: { "GET /x": { status: 307, location: "http://127.0.0.1:1/y" } } })
      const lost = yield* Effect.flip(get(container.url))
      assert.deepInclude(lost, { _tag: "ConnectionFailed", url: container.url })
      assert.match(lost.message, /refused \(redirected to http:\/\/127\.0\.0\.1:1\)/)
      yield* container.update({ http: { "GET /x": { status: 307, location: "ftp://127.0.0.1/y" } } })
      assert.strictEqual((yield* Effect.flip(get(container.url))).code, "HTTP_307")
    }).pipe(Effect.provide(NodeHttp.layer))
  )
})

it.scoped("the token and the userinfo are in no error, log or span", () =>
  Effect.gen(function* () {
    const echo = yield* serve((request, response) => {
      if (request.url === "/drop") return request.socket.destroy()
      const location = `/drop?${request.headers.authorization}`
      response.writeHead(request.url === "/redirect" ? 307 : 400, request.url === "/redirect" ? { location } : {})
      return response.end(`You sent ${request.headers.authorization}.`)
    })
    const userinfo = echo.replace("//", "//user:pass-0123456789@")
    const basic = Buffer.from("user:pass-0123456789").toString("base64")
    const anonymous = (url: string, path: string) =>
      Effect.flatMap(BaseUrl.parse(url), (base) =>
        http.call({ base, token: Option.none(), method: "GET", path: [path], timeout: "30 seconds" })
      )
    for (const path of ["x", "drop", "redirect"]) {
      const attempts: ReadonlyArray<Effect.Effect<unknown, unknown, HttpClient.HttpClient>> = [
        get(userinfo, path),
        anonymous(userinfo, path),
        Effect.flip(healthOf(userinfo))
      ]
      for (const effect of attempts) {
        const { exit, seen } = yield* watching(effect)
        assert.isTrue(Exit.isFailure(exit))
        for (const hidden of [secret, "pass-0123456789", basic]) assert.notInclude(seen, hidden)
      }
    }
    const broken = Option.some(Redacted.make(`${secret}\nX: y`))
    const { seen } = yield* watching(
      Effect.flatMap(BaseUrl.parse(echo), (base) =>
        http.call({ base, token: broken, method: "GET", path: ["x"], timeout: "30 seconds" })
      )
    )
    assert.include(seen, "the token has characters that a header cannot hold")
    assert.notInclude(seen, secret)
  }).pipe(Effect.provide(NodeHttp.layer))
)
