/** Proxies that the environment names: which one is taken, what it is told, and what is said when it does not do. */
import { readFileSync } from "node:fs"
import type * as HttpClient from "@effect/platform/HttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Transport from "@miroir-effect/core/Transport"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as http from "../src/internal/http.js"
import * as Proxies from "../src/internal/proxies.js"
import * as ConnectProxy from "./support/connectProxy.js"
import { passPause } from "./support/pauses.js"
import { watching } from "./support/watching.js"

const secret = "tok-0123456789"
const token = Option.some(Redacted.make(secret))
const credentials = "proxy user:pass-0123456789"

/** The URL of a container, by a name that only a proxy knows. */
const named = (url: string) => url.replace("127.0.0.1", "env.example")

const withCredentials = (url: string) => url.replace("//", `//${credentials.replace(" ", "%20")}@`)

const call = (url: string, method: "GET" | "POST" = "GET") =>
  Effect.flatMap(BaseUrl.parse(url), (base) =>
    http.call({ base, token, method, path: ["x"], timeout: "30 seconds", ...(method === "POST" ? { body: [1] } : {}) })
  )

/** Opens a socket, sends a `state`, and gives the frame that comes. */
const ask = (url: string, settings?: Partial<Transport.Settings>) =>
  Effect.gen(function* () {
    const base = yield* BaseUrl.parse(url)
    const transport = yield* Transport.make(settings)
    const connection = yield* transport.open(base, token)
    const frame = yield* Deferred.make<string | undefined>()
    connection.listen({
      onFrame: (text) => Deferred.unsafeDone(frame, Exit.succeed(text)),
      onClose: () => {}
    })
    connection.send('{"type": "state"}')
    return yield* Deferred.await(frame)
  }).pipe(Effect.scoped)

const container = ScriptedContainer.make({ http: { "GET /x": { body: 1 }, "POST /x": { body: 2 } } })

interface Recorded {
  readonly environment: Readonly<Record<string, string>>
  /** By URL: the proxy of a call to it, and of a socket to `/ws` below it. */
  readonly urls: Readonly<Record<string, readonly [call: string | null, socket: string | null]>>
}

describe("which proxy is taken", () => {
  const recorded: { readonly environments: ReadonlyArray<Recorded> } = JSON.parse(
    readFileSync(new URL("./vectors/proxies.json", import.meta.url), "utf8")
  )
  /** As Python has them; but ALL_PROXY is for sockets too, and what httpx or websockets exempts, neither kind sends there. */
  const expected = ({ environment }: Recorded, call: string | null, socket: string | null) => {
    const all = environment.ALL_PROXY ?? environment.all_proxy ?? null
    const whole = (address: string | null) => (address?.includes("://") === false ? `http://${address}` : address)
    const isExempt = Object.keys(environment).some((name) => /^no_/i.test(name)) && (call === null || socket === null)
    if (isExempt) return [null, null]
    return [whole(call), whole(socket ?? all)]
  }

  it("is as the Python client's libraries have it", () => {
    let count = 0
    for (const row of recorded.environments) {
      const proxies = Proxies.fromEnvironment({ ...row.environment })
      for (const [url, [call, socket]] of Object.entries(row.urls)) {
        const found = [url, `${url.replace("http", "ws")}/ws`].map((url) =>
          Option.getOrNull(Option.flatMap(Option.fromNullable(proxies?.(new URL(url))), ({ origin }) => origin))
        )
        assert.deepStrictEqual(found, expected(row, call, socket), `${JSON.stringify(row.environment)} ${url}`)
        count++
      }
    }
    assert.strictEqual(count, 275)
  })

  it("is none for an IPv6 address in brackets in NO_PROXY, which httpx cannot read", () => {
    const proxies = Proxies.fromEnvironment({ ALL_PROXY: "http://p:1", NO_PROXY: "[::1]:8443,[fe80::1]" })
    const isProxied = (url: string): boolean => proxies?.(new URL(url)) !== undefined
    assert.deepStrictEqual(
      ["https://[::1]:8443", "https://[::1]", "wss://[fe80::1]/ws", "https://[fe80::2]"].map(isProxied),
      [false, true, false, true]
    )
  })
})

describe("through a proxy", () => {
  it.scopedLive("go calls, handed over as they are, and sockets, in a tunnel", () =>
    Effect.gen(function* () {
      const env = yield* container
      const proxy = yield* ConnectProxy.make({ credentials })
      const url = named(env.url)
      const { host } = new URL(url)
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* call(url)).json, 1)
        assert.strictEqual((yield* call(url, "POST")).json, 2)
        assert.include(yield* ask(url), '"episode_id"')
      }).pipe(Effect.provide(NodeHttp.layer), ConnectProxy.withVariables({ http_proxy: withCredentials(proxy.url) }))
      assert.deepStrictEqual(proxy.asked, [
        { method: "GET", target: `${url}/x`, credentials },
        { method: "POST", target: `${url}/x`, credentials },
        { method: "CONNECT", target: host, credentials }
      ])
      const { handshakes, requests } = yield* env.seen
      for (const { headers } of [...requests, ...handshakes]) {
        assert.strictEqual(headers.host, host)
        assert.strictEqual(headers.authorization, `Bearer ${secret}`)
        assert.notProperty(headers, "proxy-authorization")
      }
      assert.strictEqual(requests.at(-1)?.body, "[1]")
      yield* proxy.idle
    })
  )

  it.scopedLive("goes nothing where NO_PROXY or a setting says so", () =>
    Effect.gen(function* () {
      const env = yield* container
      const proxy = yield* ConnectProxy.make()
      const both = Effect.zip(call(env.url), ask(env.url))
      const variables = { ALL_PROXY: proxy.url }
      yield* both.pipe(
        Effect.provide(NodeHttp.layer),
        ConnectProxy.withVariables({ ...variables, no_proxy: "other.example, 127.0.0.1" })
      )
      yield* Effect.zip(call(env.url), ask(env.url, { direct: true })).pipe(
        Effect.provide(NodeHttp.layerDirect),
        ConnectProxy.withVariables(variables)
      )
      assert.deepStrictEqual(proxy.asked, [])
      // As Python has it, loopback is not exempt by itself.
      yield* both.pipe(Effect.provide(NodeHttp.layer), ConnectProxy.withVariables(variables))
      assert.strictEqual(proxy.asked.length, 2)
    })
  )

  it.scopedLive("goes each hop of a redirect that is not exempt", () =>
    Effect.gen(function* () {
      const env = yield* container
      const away = yield* ScriptedContainer.make({
        http: { "GET /x": { status: 307, location: `${env.url}/x` } },
        ws: { status: 307, location: `${env.url}/ws` }
      })
      const proxy = yield* ConnectProxy.make()
      yield* Effect.zip(call(named(away.url)), ask(named(away.url))).pipe(
        Effect.provide(NodeHttp.layer),
        ConnectProxy.withVariables({ HTTP_PROXY: proxy.url, NO_PROXY: "127.0.0.1" })
      )
      assert.deepStrictEqual(
        proxy.asked.map(({ target }) => target),
        [`${named(away.url)}/x`, new URL(named(away.url)).host]
      )
      const { handshakes, requests } = yield* env.seen
      assert.deepStrictEqual(
        [...requests, ...handshakes].map(({ headers }) => headers.authorization),
        [undefined, undefined]
      )
    })
  )
})

describe("a proxy that does not do is ConnectionFailed, which names it and tells no secret:", () => {
  const wants = /the proxy http:\/\/127\.0\.0\.1:\d+ \(HTTPS_PROXY\) wants a user and a password that it takes \(407\)/
  const headless = /the proxy .* cannot be used: the head of its answer is too long/
  const cases: ReadonlyArray<[string, ConnectProxy.Script, RegExp, (url: string) => string]> = [
    ["no credentials", { credentials }, wants, (url) => url],
    ["wrong credentials", { credentials: "somebody:else" }, wants, withCredentials],
    ["403", { answer: 403 }, /the proxy .* refused with 403; .* NO_PROXY/, withCredentials],
    ["502", { answer: 502 }, /the proxy .* refused with 502; .* NO_PROXY/, withCredentials],
    ["no HTTP", { answer: "SSH-2.0-OpenSSH\r\n" }, /the proxy .* does not speak HTTP/, withCredentials],
    ["an endless head", { answer: "endless" }, headless, withCredentials],
    ["a cut", { answer: "cut" }, /the proxy .* connection reset/, withCredentials],
    ["nobody there", {}, /the proxy .* connection refused/, () => withCredentials("http://127.0.0.1:1")],
    [
      "TLS to plain",
      {},
      /the proxy https:.* does not speak TLS/,
      (url) => withCredentials(url.replace("http", "https"))
    ],
    ["SOCKS", {}, /HTTPS_PROXY names no http\(s\) proxy/, (url) => withCredentials(url.replace("http", "socks5h"))],
    ["no URL", {}, /HTTPS_PROXY names no http\(s\) proxy/, () => "http://pass-0123456789@"]
  ]
  for (const [name, script, reason, address] of cases) {
    it.scopedLive(name, () =>
      Effect.gen(function* () {
        const proxy = yield* ConnectProxy.make(script)
        const variables = { HTTPS_PROXY: address(proxy.url) }
        const attempts: ReadonlyArray<Effect.Effect<unknown, unknown, HttpClient.HttpClient>> = [
          call("https://env.example/base"),
          ask("https://env.example/base"),
          ask("http://env.example/base")
        ]
        for (const [index, attempt] of attempts.entries()) {
          const { exit, seen } = yield* watching(attempt).pipe(
            Effect.provide(NodeHttp.layer),
            ConnectProxy.withVariables(variables)
          )
          const error = yield* Effect.flip(exit)
          assert.deepInclude(error, {
            _tag: "ConnectionFailed",
            url: `http${index === 2 ? "" : "s"}://env.example/base`
          })
          assert.match(String(error instanceof Error ? error.message : error), reason)
          for (const hidden of [secret, "pass-0123456789", btoa(credentials), "\u001b"]) assert.notInclude(seen, hidden)
        }
        yield* proxy.idle
      })
    )
  }

  it.scoped("silence, which the call's own deadline ends", () =>
    Effect.gen(function* () {
      const proxy = yield* ConnectProxy.make({ answer: "hang" })
      const variables = { HTTP_PROXY: withCredentials(proxy.url), HTTPS_PROXY: withCredentials(proxy.url) }
      const attempts: ReadonlyArray<Effect.Effect<unknown, unknown, HttpClient.HttpClient>> = [
        call("http://env.example"),
        call("https://env.example"),
        ask("http://env.example")
      ]
      for (const attempt of attempts) {
        const error = yield* Effect.gen(function* () {
          const fiber = yield* Effect.fork(Effect.flip(attempt))
          yield* passPause(30_000, 30_000)
          return yield* Fiber.join(fiber)
        }).pipe(Effect.provide(NodeHttp.layer), ConnectProxy.withVariables(variables))
        assert.propertyVal(error, "_tag", "ConnectionFailed")
        assert.match(
          String(error),
          /no (answer|handshake) within 30s through the proxy http:\/\/127\.0\.0\.1:\d+ \(HTTPS?_PROXY\)/
        )
        yield* proxy.idle
      }
    })
  )

  it.scopedLive(
    "also where a plain call is handed to it: but that it cannot be told from the server's, but for 407",
    () =>
      Effect.gen(function* () {
        const attempt = (script: ConnectProxy.Script) =>
          Effect.gen(function* () {
            const proxy = yield* ConnectProxy.make(script)
            return yield* Effect.flip(call("http://env.example")).pipe(
              Effect.provide(NodeHttp.layer),
              ConnectProxy.withVariables({ ALL_PROXY: proxy.url })
            )
          })
        const unauthorized = yield* attempt({ credentials })
        assert.propertyVal(unauthorized, "_tag", "ConnectionFailed")
        assert.match(unauthorized.message, /a proxy on the way wants a user and a password that it takes \(407\)/)
        assert.propertyVal(yield* attempt({ answer: 502 }), "code", "HTTP_502")
        const absent = yield* Effect.flip(call("http://env.example")).pipe(
          Effect.provide(NodeHttp.layer),
          ConnectProxy.withVariables({ ALL_PROXY: "http://127.0.0.1:1" })
        )
        assert.match(
          absent.message,
          /the proxy http:\/\/127\.0\.0\.1:1 \(ALL_PROXY\) cannot be used: connection refused/
        )
      })
  )
})
