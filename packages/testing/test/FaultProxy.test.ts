/** The proxy, seen by clients that know nothing of this project: `ws`, `node:http` and bare TCP. */
import * as Net from "node:net"
import { assert, describe, it } from "@effect/vitest"
import * as FaultProxy from "@miroir-effect/testing/FaultProxy"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { WebSocket } from "ws"
import { call } from "./call.js"

const env: ScriptedContainer.Script = {
  token: "tok",
  prefix: "/p",
  capacity: 1,
  tools: { api: [{ name: "look" }] },
  http: { "GET /moved": { status: 307, location: "/p/health" }, "POST /echo": (request) => ({ text: request.body }) },
  replies: ({ text, type }) =>
    type === "reset" ? { binary: text } : type === "step" ? { close: 4001, reason: "enough" } : { raw: text }
}

const headers = { authorization: "Bearer tok" }

/** What a WebSocket client sees when it sends these texts, the next one after each reply; then it closes. */
const seenBy = (base: string, texts: ReadonlyArray<string>, options: { readonly headers?: Record<string, string> }) =>
  Effect.async<ReadonlyArray<string>>((resume) => {
    const seen: Array<string> = []
    const webSocket = new WebSocket(`${base.replace("http", "ws")}/ws`, { ...options, autoPong: true })
    const left = Array.from(texts)
    const next = (): void => {
      const text = left.shift()
      if (text === undefined) webSocket.close(1000, "bye")
      else if (text === "ping") webSocket.ping("marco")
      else webSocket.send(text)
    }
    webSocket.on("open", next)
    webSocket.on("pong", (data) => {
      seen.push(`pong ${data}`)
      next()
    })
    webSocket.on("message", (data, isBinary) => {
      seen.push(`${isBinary ? "bytes" : "text"} ${data}`)
      next()
    })
    webSocket.on("unexpected-response", (_request, response) => seen.push(`status ${response.statusCode}`))
    webSocket.on("unexpected-response", () => webSocket.terminate())
    webSocket.on("error", (error) => seen.push("code" in error ? String(error.code) : error.message.slice(0, 40)))
    webSocket.on("close", (code, reason) => {
      seen.push(`closed ${code} ${reason}`)
      resume(Effect.succeed(seen))
    })
  })

describe("a proxy", () => {
  it.scoped("that has no fault shows what the server shows", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(env)
      const proxy = yield* FaultProxy.make(container.url)
      const look = (base: string) =>
        Effect.all([
          call(`${base}/health`),
          call(`${base}/list_environments`, { headers }),
          call(`${base}/mcp?surface=api`, { method: "POST", headers }),
          call(`${base}/list_environments`),
          call(`${base}/moved`, { headers }),
          call(`${base}/echo`, { method: "POST", headers, body: "é" }),
          seenBy(base, ['{"type":"state"}', "ping", '{"type":"reset"}', '{"type":"record"}'], { headers }),
          seenBy(base, ['{"type":"state"}', '{"type":"step"}'], { headers }),
          seenBy(base, [], {})
        ]).pipe(
          Effect.map((answers) =>
            answers.map((answer) => ("status" in answer ? { ...answer, headers: answer.headers.location } : answer))
          )
        )
      assert.deepStrictEqual(yield* look(proxy.url), yield* look(container.url))
      const { exchanges, strikes } = yield* proxy.seen
      assert.deepInclude(exchanges, { health: 1, call: 5, handshake: 3, opening: 2, reset: 1, step: 1, close: 1 })
      assert.isEmpty(strikes)
      assert.deepStrictEqual(
        (yield* container.seen).closes.map(({ code, reason }) => [code, reason]),
        Array.from({ length: 2 }, () => [
          [1000, "bye"],
          [4001, "enough"]
        ]).flat()
      )
      yield* proxy.awaitNoConnections
    })
  )

  it.scoped("strikes when and as often as it is told, and is well again when it is told so", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ capacity: 1, replies: ({ text }) => ({ raw: text }) })
      const proxy = yield* FaultProxy.make(container.url, { fault: (phase) => (phase === "call" ? "html" : undefined) })
      const status = Effect.match(call(`${proxy.url}/health`), {
        onFailure: (message) => message.replace(/ .*/s, ""),
        onSuccess: ({ status }) => status
      })
      yield* proxy.inject("health", { status: 429 }, { after: 1, times: 2 })
      yield* proxy.inject("health", "cut")
      assert.deepStrictEqual(yield* Effect.replicateEffect(status, 5), [200, 429, 429, "read", 200])
      assert.include((yield* call(`${proxy.url}/schema`)).body, "<h1>")
      yield* proxy.inject("health", "refuse", { times: 3 })
      assert.strictEqual(yield* status, "connect")
      yield* proxy.heal
      assert.strictEqual(yield* status, 200)
      // Half open: nothing is read, not even a close; the container is held until it is well again.
      yield* proxy.inject("step", "half-open")
      const client = new WebSocket(`${proxy.url.replace("http", "ws")}/ws`)
      client.on("error", () => {})
      client.once("open", () => client.send('{"type":"state"}'))
      client.once("message", () => client.send('{"type":"step"}'))
      yield* proxy.awaitSeen(({ strikes }) => strikes.at(-1)?.fault === "half-open")
      yield* container.awaitFrames(1)
      client.terminate()
      assert.strictEqual((yield* proxy.seen).webSockets, 1)
      yield* proxy.heal
      yield* Effect.all([proxy.awaitNoConnections, container.awaitNoSockets])
    })
  )

  it.scoped("closes, tears and drips as the wire shows", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ replies: ({ text }) => ({ raw: text }) })
      const proxy = yield* FaultProxy.make(container.url)
      const frame = '{"type":"state"}'
      /** All bytes after the handshake's, in the packets in which they came, and how it ended. */
      const wire = (fault: FaultProxy.FrameFault) =>
        Effect.gen(function* () {
          yield* proxy.inject("opening", fault)
          return yield* Effect.async<{ readonly packets: ReadonlyArray<Buffer>; readonly end: string }>((resume) => {
            const { host, port } = new URL(proxy.url)
            const socket = Net.connect(Number(port), "127.0.0.1")
            const packets: Array<Buffer> = []
            const done = (end: string) => resume(Effect.succeed({ packets, end }))
            let isOpen = false
            socket.write(
              `GET /ws HTTP/1.1\r\nHost: ${host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`
            )
            socket.on("data", (bytes) => {
              if (isOpen) packets.push(bytes)
              else {
                isOpen = true
                const mask = Buffer.alloc(4)
                socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | frame.length]), mask, Buffer.from(frame)]))
              }
              if (Buffer.concat(packets).length >= 2 + JSON.stringify(opened).length) socket.end()
            })
            socket.on("end", () => done("FIN"))
            socket.on("error", (error) => done("code" in error ? String(error.code) : error.message))
          })
        })
      const opened = { type: "state", data: { episode_id: null, step_count: 0, done: false } }
      const whole = Buffer.concat([
        Buffer.from([0x81, JSON.stringify(opened).length]),
        Buffer.from(JSON.stringify(opened))
      ])
      const cut = yield* wire("cut")
      assert.deepStrictEqual([cut.packets.length, cut.end], [0, "ECONNRESET"])
      // Behind bytes that were sent, some kernels tell a reset as an end.
      const torn = yield* wire("torn")
      assert.deepStrictEqual(Buffer.concat(torn.packets), whole.subarray(0, whole.length >> 1))
      const ended = yield* wire({ close: 1006 })
      assert.deepStrictEqual([ended.packets.length, ended.end], [0, "FIN"])
      const dripped = yield* wire("drips")
      assert.deepStrictEqual(Buffer.concat(dripped.packets), whole)
      // Some may have come together, where this process was busy.
      assert.isAbove(dripped.packets.length, 2)
    })
  )

  it.scoped("goes at once when its scope closes, whoever waits", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      const waiting = yield* Effect.gen(function* () {
        const proxy = yield* FaultProxy.make(container.url)
        yield* proxy.inject("health", "hang")
        yield* proxy.inject("handshake", "half-open")
        const calls = Effect.all([Effect.exit(call(`${proxy.url}/health`)), seenBy(proxy.url, [], {})], {
          concurrency: 2
        })
        const fiber = yield* Effect.forkDaemon(calls)
        yield* proxy.awaitSeen(({ strikes }) => strikes.length === 2)
        return fiber
      }).pipe(Effect.scoped)
      const [health, handshake] = yield* Fiber.join(waiting)
      assert.isTrue(Exit.isFailure(health))
      assert.strictEqual(handshake.at(-1), "closed 1006 ")
    })
  )
})
