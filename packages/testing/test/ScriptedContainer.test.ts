/** The scripted container, seen by clients that know nothing of this project: `ws` and `node:http`. */
import { assert, describe, it } from "@effect/vitest"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { WebSocket } from "ws"
import { call } from "./call.js"

type Event =
  | { readonly open: true }
  | { readonly text: string }
  | { readonly bytes: string }
  | { readonly refused: number; readonly location?: string; readonly body: string }
  | { readonly closed: number; readonly reason: string }

interface Client {
  readonly send: (frame: unknown) => Effect.Effect<void>
  readonly ping: Effect.Effect<void>
  readonly close: (code: number) => Effect.Effect<void>
  /** The next thing that happened; waits for it. */
  readonly next: Effect.Effect<Event>
}

const connect = (
  base: string,
  headers: Record<string, string> = {},
  /** Sent before anything that the container sends with its handshake can have been read. */
  first?: unknown
): Effect.Effect<Client, never, Scope.Scope> =>
  Effect.gen(function* () {
    const events: Array<Event> = []
    const waiting: Array<() => void> = []
    const webSocket = yield* Effect.acquireRelease(
      Effect.sync(() => new WebSocket(`${base.replace("http", "ws")}/ws`, { headers, followRedirects: false })),
      (made) => Effect.sync(() => made.terminate())
    )
    const happened = (event: Event): void => {
      events.push(event)
      waiting.shift()?.()
    }
    webSocket.on("error", () => {})
    webSocket.on("open", () => {
      if (first !== undefined) webSocket.send(JSON.stringify(first))
      happened({ open: true })
    })
    webSocket.on("pong", () => happened({ text: "pong" }))
    webSocket.on("message", (data, binary) => happened(binary ? { bytes: data.toString() } : { text: data.toString() }))
    webSocket.on("close", (closed, reason) => happened({ closed, reason: reason.toString() }))
    webSocket.on("unexpected-response", (_request, response) => {
      const { location } = response.headers
      let body = ""
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString()
      })
      response.on("end", () =>
        happened({ refused: response.statusCode ?? 0, ...(location === undefined ? {} : { location }), body })
      )
    })
    return {
      send: (frame) => Effect.sync(() => webSocket.send(typeof frame === "string" ? frame : JSON.stringify(frame))),
      ping: Effect.sync(() => webSocket.ping()),
      close: (code) => Effect.sync(() => webSocket.close(code)),
      next: Effect.async((resume) => {
        const take = (): void => {
          const event = events.shift()
          if (event === undefined) waiting.push(take)
          else resume(Effect.succeed(event))
        }
        take()
      })
    }
  })

/** The client with its opening behind it. */
const opened = (container: ScriptedContainer.ScriptedContainer) =>
  Effect.gen(function* () {
    const client = yield* connect(container.url)
    assert.deepStrictEqual(yield* client.next, { open: true })
    yield* client.send({ type: "state" })
    yield* client.next
    return client
  })

const error = (code: string, message: string): Event => ({
  text: JSON.stringify({ type: "error", data: { code, message } })
})

const state: Event = { text: '{"type":"state","data":{"episode_id":null,"step_count":0,"done":false}}' }

const get = (container: ScriptedContainer.ScriptedContainer, path: string) => call(`${container.url}${path}`)

describe("sessions", () => {
  it.scoped("each frame after the opening gets the next reply of the script", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        opened: { id: 2n ** 60n, done: Number.NaN },
        replies: [
          { send: { type: "state", data: {} } },
          { delay: "20 millis", reply: { raw: "{" } },
          { binary: "ü" },
          { many: [{ hang: true }, { raw: "1" }, { raw: "2" }] },
          { close: 4001, reason: "enough" }
        ]
      })
      for (let session = 0; session < 2; session++) {
        const client = yield* connect(container.url)
        assert.deepStrictEqual(yield* client.next, { open: true })
        for (let frame = 0; frame < 6; frame++) yield* client.send(frame === 0 ? { type: "state" } : `frame ${frame}`)
        const got: Array<Event> = []
        for (let event = 0; event < 7; event++) got.push(yield* client.next)
        assert.deepStrictEqual(got, [
          { text: '{"type":"state","data":{"id":1152921504606846976,"done":NaN}}' },
          { text: '{"type":"state","data":{}}' },
          { text: "{" },
          { bytes: "ü" },
          { text: "1" },
          { text: "2" },
          { closed: 4001, reason: "enough" }
        ])
      }
      yield* container.awaitNoSockets
      const seen = yield* container.seen
      assert.deepStrictEqual(
        seen.frames.map(({ index, session, text }) => [session, index, text]),
        [0, 1].flatMap((session) => [1, 2, 3, 4, 5].map((frame) => [session, frame - 1, `frame ${frame}`]))
      )
      assert.deepStrictEqual([seen.sessions, seen.openSockets], [2, 0])
      assert.deepStrictEqual(
        seen.closes.map(({ code }) => code),
        [4001, 4001]
      )
    })
  )

  it.scoped("a function answers from the frame, in its own time, and is seen to fail", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const container = yield* ScriptedContainer.make({
        replies: ({ data, index, session, text, type }) => {
          if (type === "bad") throw new Error("no such thing")
          const reply: ScriptedContainer.Reply = { send: { session, index, text, data: data ?? null } }
          return type === "wait" ? Effect.as(Deferred.await(gate), reply) : reply
        }
      })
      const client = yield* opened(container)
      yield* client.send({ type: "wait", data: 1 })
      yield* client.send("[]")
      yield* client.send({ type: "bad" })
      yield* container.awaitFrames(3)
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual(yield* client.next, {
        text: '{"session":0,"index":0,"text":"{\\"type\\":\\"wait\\",\\"data\\":1}","data":1}'
      })
      assert.deepStrictEqual(yield* client.next, { text: '{"session":0,"index":1,"text":"[]","data":null}' })
      assert.match(JSON.stringify(yield* client.next), /SCRIPT_FAILED.*no such thing/)
    })
  )

  it.scoped("what the client does to its socket is seen; what the container does to it, the client sees", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ replies: [{ drop: true }, { stall: true }] })
      const dropped = yield* opened(container)
      yield* dropped.send("x")
      assert.deepStrictEqual(yield* dropped.next, { closed: 1006, reason: "" })
      yield* container.awaitNoSockets

      const closing = yield* opened(container)
      yield* closing.ping
      assert.deepStrictEqual(yield* closing.next, { text: "pong" })
      yield* container.push({ many: [{ raw: "unasked" }, { delay: 1, reply: { raw: "late" } }] })
      assert.deepStrictEqual([yield* closing.next, yield* closing.next], [{ text: "unasked" }, { text: "late" }])
      yield* closing.close(4002)
      yield* container.awaitNoSockets
      const { closes, openSockets, pings, sessions } = yield* container.seen
      assert.deepStrictEqual(
        closes.map(({ code, session }) => [session, code]),
        [
          [0, 1006],
          [1, 4002]
        ]
      )
      assert.deepStrictEqual({ openSockets, pings, sessions }, { openSockets: 0, pings: 1, sessions: 2 })
    })
  )

  it.scoped("a stalled or silent one, and one that does not pong, leave the client waiting", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ pong: false, replies: [{ stall: true }] })
      const stalled = yield* opened(container)
      yield* stalled.ping
      yield* container.awaitSeen(({ pings }) => pings === 1)
      yield* stalled.send("1")
      yield* container.awaitFrames(1)
      yield* stalled.send("2")
      yield* stalled.close(1000)
      yield* container.update({ ws: { silent: true } })
      const silent = yield* connect(container.url)
      yield* silent.next
      yield* silent.send({ type: "state" })
      yield* silent.send("3")
      const frames = yield* container.awaitFrames(2)
      yield* container.push({ raw: "the first" })
      assert.deepStrictEqual([yield* silent.next, yield* stalled.next], [{ text: "the first" }, { text: "the first" }])
      assert.deepStrictEqual(
        frames.map(({ text }) => text),
        ["1", "3"]
      )
      assert.strictEqual((yield* container.seen).openSockets, 2)
    })
  )

  it.scoped("a container with a capacity is leased while it is held, and turns others away", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ capacity: 1 })
      const leased = Effect.map(get(container, "/health"), ({ body }) => body)
      assert.strictEqual(yield* leased, '{"status":"healthy","leased":false}')
      const first = yield* opened(container)
      assert.strictEqual(yield* leased, '{"status":"healthy","leased":true}')
      const second = yield* connect(container.url)
      assert.deepStrictEqual(
        [yield* second.next, yield* second.next, yield* second.next],
        [{ open: true }, error("CAPACITY_REACHED", "one session at a time"), { closed: 1000, reason: "" }]
      )
      yield* first.close(1000)
      yield* container.awaitNoSockets
      assert.strictEqual(yield* leased, '{"status":"healthy","leased":false}')
      yield* opened(container)
      assert.strictEqual((yield* container.seen).sessions, 2)
    })
  )
})

describe("handshakes", () => {
  const open: Event = { open: true }
  const cases: ReadonlyArray<{
    readonly name: string
    readonly ws?: ScriptedContainer.Scripted<ScriptedContainer.Opening>
    readonly first?: unknown
    readonly events: ReadonlyArray<Event>
  }> = [
    {
      name: "nothing said",
      events: [open, state, error("SCRIPT_EXHAUSTED", "the script has no reply to frame 0 of session 0")]
    },
    { name: "accept", ws: { accept: true }, events: [open, state] },
    {
      name: "accept, but the client does not open",
      first: { type: "reset" },
      events: [open, error("NO_OPENING_STATE", "the first frame has to be a state")]
    },
    { name: "status", ws: { status: 502, text: "bad gateway" }, events: [{ refused: 502, body: "bad gateway" }] },
    {
      name: "redirect",
      ws: { status: 307, location: "/b/ws" },
      events: [{ refused: 307, location: "/b/ws", body: "" }]
    },
    { name: "drop", ws: { drop: true }, events: [{ closed: 1006, reason: "" }] },
    { name: "close", ws: { close: 1013, reason: "later" }, events: [open, { closed: 1013, reason: "later" }] },
    { name: "error", ws: { error: { code: "BAD", message: "no" } }, events: [open, error("BAD", "no")] },
    { name: "reply", ws: { reply: { drop: true } }, events: [open, { closed: 1006, reason: "" }] },
    {
      name: "unasked",
      ws: { unasked: { many: [{ raw: "full" }, { close: 1000 }] } },
      events: [open, { text: "full" }, { closed: 1000, reason: "" }]
    },
    { name: "delay", ws: { delay: 5, opening: { status: 503 } }, events: [{ refused: 503, body: "" }] },
    {
      name: "a function",
      ws: ({ headers }) => ({ status: 400, text: `${headers["x-a"]}` }),
      events: [{ refused: 400, body: "1" }]
    },
    {
      name: "a list",
      ws: [
        { until_s: 0, status: 500 },
        { until_s: null, accept: true }
      ],
      events: [open, state]
    }
  ]
  it.scoped.each(cases)("$name", ({ events, first = { type: "state" }, ws }) =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make(ws === undefined ? {} : { ws })
      const client = yield* connect(container.url, { "x-a": "1" }, first)
      const got: Array<Event> = []
      for (const event of events) {
        got.push(yield* client.next)
        if ("open" in event) yield* client.send("more")
      }
      assert.deepStrictEqual(got, events)
      const { handshakes, sessions } = yield* container.seen
      assert.strictEqual(sessions, events.includes(state) ? 1 : 0)
      assert.deepStrictEqual(
        handshakes.map(({ headers, path }) => [path, headers["x-a"]]),
        [["/ws", "1"]]
      )
    })
  )

  it.scoped("one that hangs is pending until the client gives it up", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ ws: { hang: true } })
      yield* Effect.scoped(
        Effect.zipRight(
          connect(container.url),
          container.awaitSeen(({ pendingHandshakes }) => pendingHandshakes === 1)
        )
      )
      yield* container.awaitNoSockets
    })
  )
})

describe("HTTP", () => {
  it.scoped("health is as the script says, at its time", () =>
    Effect.gen(function* () {
      const answers: ReadonlyArray<
        readonly [ScriptedContainer.Scripted<ScriptedContainer.Answer> | undefined, number, string]
      > = [
        [undefined, 200, '{"status":"healthy"}'],
        [{ status: 503, body: { status: "starting" } }, 503, '{"status":"starting"}'],
        [{ text: "<html>" }, 200, "<html>"],
        [[{ until_s: 0, status: 500 }, { until_s: 1e6, status: 418 }, {}], 418, ""],
        [
          [
            { until_s: 0, status: 500 },
            { until_s: 0, status: 418 }
          ],
          418,
          ""
        ],
        [({ headers }) => ({ body: headers.accept ?? null }), 200, "null"],
        [() => Effect.sync(() => Option.getOrThrow(Option.none<ScriptedContainer.Answer>())), 500, "SCRIPT_FAILED"]
      ]
      for (const [health, status, body] of answers) {
        const container = yield* ScriptedContainer.make(health === undefined ? {} : { health })
        const answered = yield* get(container, "/health")
        assert.deepStrictEqual(
          [answered.status, answered.body.slice(0, Math.max(20, body.length)).startsWith(body)],
          [status, true]
        )
        assert.strictEqual((yield* container.seen).healthRequests, 1)
      }
      const phased = yield* ScriptedContainer.make({ health: [{ until_s: 0.05, status: 503 }, { status: 200 }] })
      yield* Effect.repeat(get(phased, "/health"), { until: ({ status }) => status === 200 })
    })
  )

  it.scoped("the catalog's calls are answered from the script, behind prefix and token", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        prefix: "/a/b/",
        token: "sesame",
        environments: ["an env", "other"],
        tasks: { train: [{ id: "t1" }] },
        tools: { "": [{ name: "all" }], code: [{ name: "run" }] },
        http: { "GET /schema": { headers: { "x-b": "2" }, body: {} } }
      })
      const authorized = { authorization: "Bearer sesame" }
      const ask = (method: string, path: string, body = "", headers: Record<string, string> = authorized) =>
        Effect.map(call(`${container.url}${path}`, { method, body, headers }), ({ body, status }) => [status, body])
      const rows: ReadonlyArray<readonly [ReturnType<typeof ask>, number, string]> = [
        [ask("GET", "/health", "", {}), 200, '{"status":"healthy"}'],
        [ask("GET", "/list_environments", "", {}), 401, '{"detail":"Unauthorized"}'],
        [ask("GET", "/list_environments"), 200, '["an env","other"]'],
        [ask("POST", "/an%20env/tasks", '{"split":"train"}'), 200, '{"tasks":[{"id":"t1"}]}'],
        [ask("POST", "/other/tasks", '{"split":"test"}'), 404, '{"detail":"no such split"}'],
        [ask("POST", "/third/tasks", '{"split":"train"}'), 404, '{"detail":"Not Found"}'],
        [ask("POST", "/mcp"), 200, '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"all"}]}}'],
        [ask("POST", "/mcp?surface=code"), 200, '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"run"}]}}'],
        [
          ask("POST", "/mcp?surface=api"),
          200,
          '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such surface"}}'
        ],
        [ask("GET", "/schema"), 200, "{}"],
        [ask("GET", "/../health"), 404, '{"detail":"Not Found"}']
      ]
      for (const [asked, status, body] of rows) assert.deepStrictEqual(yield* asked, [status, body])
      const outside = yield* call(container.url.replace("/a/b", "/health"))
      assert.strictEqual(outside.status, 404)
      const { requests } = yield* container.seen
      assert.strictEqual(requests.length, rows.length + 1)
      assert.deepStrictEqual(
        [requests[3]?.method, requests[3]?.path, requests[3]?.body, requests[3]?.headers.authorization],
        ["POST", "/a/b/an%20env/tasks", '{"split":"train"}', "Bearer sesame"]
      )

      const stranger = yield* connect(container.url)
      assert.deepStrictEqual(yield* stranger.next, { refused: 401, body: '{"detail":"Unauthorized"}' })
      const friend = yield* connect(container.url, authorized)
      assert.deepStrictEqual(yield* friend.next, { open: true })
      const lost = yield* connect(container.url.replace("/b", ""), authorized)
      assert.deepStrictEqual(yield* lost.next, { refused: 404, body: '{"detail":"Not Found"}' })
    })
  )

  it.scoped("answers that are cut, dropped, late or never given", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        http: {
          "GET /cut": { cut: true, body: ["0123456789"] },
          "GET /cut-empty": { cut: true },
          "GET /drop": { drop: true },
          "GET /late": { delay: "5 millis", status: 204 },
          "GET /moved": { status: 308, location: "/late" },
          "GET /hang": { hang: true }
        }
      })
      const cut = yield* get(container, "/cut")
      assert.deepStrictEqual([cut.status, cut.body, cut.whole], [200, '["01234', false])
      const empty = yield* get(container, "/cut-empty")
      assert.deepStrictEqual([empty.body, empty.whole], ["", false])
      assert.strictEqual(yield* Effect.flip(get(container, "/drop")), "read ECONNRESET")
      assert.strictEqual((yield* get(container, "/late")).status, 204)
      assert.strictEqual((yield* get(container, "/moved")).headers.location, "/late")
      const hanging = yield* Effect.fork(get(container, "/hang"))
      yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 1)
      yield* Fiber.interrupt(hanging)
      yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 0)
    })
  )
})

describe("life", () => {
  it.scoped("a container is absent, comes, goes and comes back at the same place", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ absent: true })
      assert.match(yield* Effect.flip(get(container, "/health")), /ECONNREFUSED/)
      for (let life = 0; life < 2; life++) {
        yield* container.start
        yield* container.start
        assert.strictEqual((yield* get(container, "/health")).status, 200)
        const client = yield* opened(container)
        yield* container.stop
        yield* container.stop
        assert.deepStrictEqual(yield* client.next, { closed: 1006, reason: "" })
        assert.match(yield* Effect.flip(get(container, "/health")), /ECONNREFUSED/)
        yield* container.awaitNoSockets
      }
    })
  )

  it.scoped("closing the scope waits for nobody", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const container = yield* Scope.extend(
        ScriptedContainer.make({
          health: { hang: true },
          ws: [{ accept: true }],
          replies: [{ delay: "1 hour", reply: { hang: true } }]
        }),
        scope
      )
      const client = yield* opened(container)
      yield* client.send("x")
      yield* container.awaitFrames(1)
      yield* container.update({ ws: { hang: true } })
      const pending = yield* connect(container.url)
      const asking = yield* Effect.fork(Effect.flip(get(container, "/health")))
      yield* container.awaitSeen((seen) => seen.pendingRequests === 1 && seen.pendingHandshakes === 1)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(
        [yield* client.next, yield* pending.next],
        [
          { closed: 1006, reason: "" },
          { closed: 1006, reason: "" }
        ]
      )
      assert.match(yield* Fiber.join(asking), /socket hang up|ECONNRESET/)
      assert.match(yield* Effect.flip(get(container, "/health")), /ECONNREFUSED/)
    })
  )
})
