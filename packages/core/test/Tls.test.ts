/** TLS with a private CA: named in NODE_EXTRA_CA_CERTS it is trusted, else the error says to name it there. */
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import * as Net from "node:net"
import * as Tls from "node:tls"
import { fileURLToPath } from "node:url"
import { assert, it } from "@effect/vitest"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import { build } from "esbuild"
import * as ConnectProxy from "./support/connectProxy.js"

const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

const pem = (name: string): Buffer => readFileSync(file(`./tls/${name}.pem`))

/** The program of tlsClient.ts, from the sources. */
const client = Effect.promise(async () => {
  const { outputFiles } = await build({
    entryPoints: [file("./support/tlsClient.ts")],
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    write: false
  })
  return outputFiles[0]?.text ?? ""
})

/** What became of the call and of the socket to each URL. */
const outcomes = (
  program: string,
  urls: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>>
): Effect.Effect<ReadonlyArray<readonly [call: string, socket: string]>> =>
  Effect.async((resume) => {
    const child = execFile(
      process.execPath,
      ["--input-type=module", "-", ...urls],
      { cwd: file("."), env: { PATH: process.env.PATH, ...variables } },
      (error, stdout, stderr) =>
        resume(
          error === null && stderr === "" ? Effect.succeed(JSON.parse(stdout)) : Effect.dieMessage(`${error}${stderr}`)
        )
    )
    child.stdin?.end(program)
  })

/** TLS in front of a container; gives its port. */
const tlsBefore = (url: string, certificate: string) =>
  Effect.acquireRelease(
    Effect.async<Tls.Server>((resume) => {
      const server = Tls.createServer({ key: pem("server-key"), cert: pem(certificate) }, (socket) => {
        const way = Net.connect(Number(new URL(url).port), "127.0.0.1")
        socket.on("error", () => way.destroy()).on("close", () => way.destroy())
        way.on("error", () => socket.destroy()).on("close", () => socket.destroy())
        socket.pipe(way)
        way.pipe(socket)
      })
      // Who does not trust the certificate goes.
      server.on("tlsClientError", () => {})
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.close())
  ).pipe(
    Effect.map((server) => {
      const address = server.address()
      return typeof address === "object" ? address?.port : undefined
    })
  )

const unknown =
  /^ConnectionFailed: Could not connect to https:\S+: its CA is not known; name it in NODE_EXTRA_CA_CERTS\.$/

it.scopedLive(
  "calls and sockets trust a CA of NODE_EXTRA_CA_CERTS, straight and behind a proxy, and say what else is wrong",
  () =>
    Effect.gen(function* () {
      const program = yield* client
      const env = yield* ScriptedContainer.make()
      const good = yield* tlsBefore(env.url, "server")
      const expired = yield* tlsBefore(env.url, "expired")
      const straight = [`https://localhost:${good}`, `https://127.0.0.1:${good}`]
      const bad: ReadonlyArray<[string, RegExp]> = [
        [`https://localhost:${expired}`, /its certificate has expired/],
        [`https://127.0.0.2:${good}`, /its certificate is for another host|connection refused/],
        [env.url.replace("http", "https"), /it does not speak TLS/]
      ]
      const trusted = { NODE_EXTRA_CA_CERTS: file("./tls/ca.pem") }

      const found = yield* outcomes(program, [...straight, ...bad.map(([url]) => url)], trusted)
      assert.deepStrictEqual(
        found.slice(0, straight.length),
        straight.map(() => ["fine", "fine"])
      )
      for (const [index, [url, reason]] of bad.entries()) {
        for (const told of found[straight.length + index] ?? []) {
          assert.isTrue(told.startsWith(`ConnectionFailed: Could not connect to ${url}: `), told)
          assert.match(told, reason)
        }
      }

      for (const told of (yield* outcomes(program, straight, {})).flat()) assert.match(told, unknown)

      const proxy = yield* ConnectProxy.make({ credentials: "user:pass" })
      const named = `https://env.example:${good}`
      const variables = { HTTPS_PROXY: proxy.url.replace("//", "//user:pass@") }
      assert.deepStrictEqual(yield* outcomes(program, [named], { ...variables, ...trusted }), [["fine", "fine"]])
      const asked = { method: "CONNECT", target: `env.example:${good}`, credentials: "user:pass" }
      assert.deepStrictEqual(proxy.asked, [asked, asked])
      for (const told of (yield* outcomes(program, [named], variables)).flat()) assert.match(told, unknown)
      const { handshakes, requests } = yield* env.seen
      assert.deepStrictEqual([requests.length, handshakes.length], [3, 3])
      yield* proxy.idle

      const secured = yield* tlsBefore(proxy.url, "server")
      const throughTls = { HTTPS_PROXY: `https://user:pass@localhost:${secured}` }
      assert.deepStrictEqual(yield* outcomes(program, [named], { ...throughTls, ...trusted }), [["fine", "fine"]])
      for (const told of (yield* outcomes(program, [named], throughTls)).flat()) {
        assert.match(
          told,
          /the proxy https:\/\/localhost:\d+ \(HTTPS_PROXY\) cannot be used: its CA is not known; name it in NODE_EXTRA_CA_CERTS/
        )
      }
    })
)

it.scopedLive("a redirect from TLS to plain is followed without the token", () =>
  Effect.gen(function* () {
    const plain = yield* ScriptedContainer.make()
    const env = yield* ScriptedContainer.make({
      http: { "GET /list_environments": { status: 307, location: `${plain.url}/list_environments` } },
      ws: { status: 307, location: `${plain.url}/ws` }
    })
    const url = `https://localhost:${yield* tlsBefore(env.url, "server")}`
    const trusted = { NODE_EXTRA_CA_CERTS: file("./tls/ca.pem") }
    assert.deepStrictEqual(yield* outcomes(yield* client, [url], trusted), [["fine", "fine"]])
    const authorizations = ({ handshakes, requests }: ScriptedContainer.Seen) =>
      [...requests, ...handshakes].map(({ headers }) => headers.authorization)
    assert.deepStrictEqual(authorizations(yield* env.seen), ["Bearer tok-0123456789", "Bearer tok-0123456789"])
    assert.deepStrictEqual(authorizations(yield* plain.seen), [undefined, undefined])
  })
)
