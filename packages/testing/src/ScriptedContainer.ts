/**
 * A container on loopback that does what a script says: real HTTP and real
 * WebSockets, with the faults that real containers have. A script is data, so
 * that a recorded session can be played as it is; where data does not do, parts
 * of it can be functions.
 *
 * The container runs on the live clock, also in a test that runs on a TestClock.
 *
 * @since 0.1.0
 */

import type * as Http from "node:http"
import * as Json from "@miroir-effect/core/Json"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import { WebSocketServer } from "ws"
import { freshState, headOf } from "./internal/frames.js"
import * as HttpServer from "./internal/httpServer.js"
import { inTurn, type Peer, perform } from "./internal/perform.js"
import * as Watched from "./internal/watched.js"

/**
 * A request as it arrived. For a handshake the body is empty.
 *
 * @since 0.1.0
 * @category models
 */
export type HttpRequest = HttpServer.HttpRequest

/**
 * How an HTTP request is answered.
 *
 * @since 0.1.0
 * @category models
 */
export type Answer = HttpServer.Answer

/**
 * Something that changes with time: it holds until so many seconds after the container was made. Null or
 * nothing: for good. The last of a list holds for good in any case.
 *
 * @since 0.1.0
 * @category models
 */
export type Timed<A> = A & { readonly until_s?: number | null }

/**
 * Always the same; a list that changes with time; or made for each request.
 *
 * @since 0.1.0
 * @category models
 */
export type Scripted<A> = A | ReadonlyArray<Timed<A>> | ((request: HttpRequest) => A | Effect.Effect<A>)

/**
 * What is done about a frame, or unasked.
 *
 * - `send`: a frame with this JSON; `raw`: one with this text; `binary`: a binary frame of these bytes, of a
 *   text its UTF-8
 * - `drip`: a frame with this text, byte by byte, with `pause` after each
 * - `torn`: the first half of a frame with this text; then the connection is cut
 * - `close`: closes with this code; 1006, which is none, ends the TCP connection without a close frame
 * - `drop`: cuts the TCP connection by a reset (RST)
 * - `hang`: nothing
 * - `stall`: reads no more from the connection, so that not even its close is noticed, and answers no ping
 * - `delay`: waits, then does as `reply` says; frames that come meanwhile wait their turn
 * - `many`: all of these in order
 *
 * @since 0.1.0
 * @category models
 */
export type Reply =
  | { readonly send: Json.Json }
  | { readonly raw: string }
  | { readonly binary: string | Uint8Array }
  | { readonly drip: string; readonly pause?: Duration.DurationInput }
  | { readonly torn: string }
  | { readonly close: number; readonly reason?: string }
  | { readonly drop: true }
  | { readonly hang: true }
  | { readonly stall: true }
  | { readonly delay: Duration.DurationInput; readonly reply: Reply }
  | { readonly many: ReadonlyArray<Reply> }

/**
 * What becomes of a handshake.
 *
 * - an `Answer` with a `status`, `hang`, `stall` or `drop`: it is not completed, but answered so
 * - `accept`: completed, and the opening `state` gets the script's `opened`
 * - `close`: completed, then closed with this code
 * - `error`: completed; the opening `state` gets an error frame with this data
 * - `reply`: completed; this is done about the opening `state`
 * - `unasked`: completed, and this done at once; then as `accept`
 * - `silent`: completed, then nothing is answered
 * - `delay`: waits, then does as `opening` says
 *
 * @since 0.1.0
 * @category models
 */
export type Opening =
  | (Answer &
      ({ readonly status: number } | { readonly hang: true } | { readonly stall: true } | { readonly drop: true }))
  | { readonly accept: true }
  | { readonly close: number; readonly reason?: string }
  | { readonly error: Json.JsonObject }
  | { readonly reply: Reply }
  | { readonly unasked: Reply }
  | { readonly silent: true }
  | { readonly delay: Duration.DurationInput; readonly opening: Opening }

/**
 * A frame that came after the opening one.
 *
 * @since 0.1.0
 * @category models
 */
export interface Frame {
  /** Counts the container's WebSockets from 0. */
  readonly session: number
  /** Counts the session's frames from 0, without the opening one. */
  readonly index: number
  /** All of the frame, as it came. */
  readonly text: string
  /** The frame's `type`; empty where it is no JSON object with one. */
  readonly type: string
  /** The frame's `data`; undefined where it has none. */
  readonly data: Json.Json | undefined
}

/**
 * What a container does. All of it is optional: an empty script is a healthy container that leases sessions
 * and answers every frame after the opening with the error SCRIPT_EXHAUSTED.
 *
 * @since 0.1.0
 * @category models
 */
export interface Script {
  /** The answer to `GET /health`: `{"status": "healthy"}` if not given. */
  readonly health?: Scripted<Answer>
  /** What becomes of handshakes: accepted if not given. */
  readonly ws?: Scripted<Opening>
  /** The data of the reply to the opening `state`: `{episode_id: null, step_count: 0, done: false}` if not given. */
  readonly opened?: Json.Json
  /**
   * What is done about each frame after the opening: the next of a list, which each session begins anew, or what
   * a function says. An effect that it returns runs on the live clock.
   */
  readonly replies?: ReadonlyArray<Reply> | ((frame: Frame) => Reply | Effect.Effect<Reply>)
  /**
   * So many sessions at a time, as real containers have it: then `/health` says whether it is `leased`, and a
   * socket beyond that gets the error CAPACITY_REACHED unasked and is closed with 1000. Unbounded if not given.
   */
  readonly capacity?: number
  /** The answer to `GET /list_environments`: `["scripted"]` if not given. */
  readonly environments?: ReadonlyArray<string>
  /** The tasks of `POST /{name}/tasks`, by split. */
  readonly tasks?: Readonly<Record<string, ReadonlyArray<Json.Json>>>
  /** The tools of `POST /mcp`, by surface; under `""` where the request names none. */
  readonly tools?: Readonly<Record<string, ReadonlyArray<Json.Json>>>
  /** Answers to other requests, or to these in another way: by method and path, as `"POST /mcp"`. */
  readonly http?: Readonly<Record<string, Scripted<Answer>>>
  /** All but `/health` wants `Authorization: Bearer` with this token, and answers 401 without. */
  readonly token?: string
  /** A path to have in front of all: `/some/prefix`. */
  readonly prefix?: string
  /** Whether pings are answered: true if not given. */
  readonly pong?: boolean
  /** Nothing listens until `start`. */
  readonly absent?: boolean
}

/**
 * The end of a WebSocket.
 *
 * @since 0.1.0
 * @category models
 */
export interface Close {
  /** Which of the container's WebSockets, from 0. */
  readonly session: number
  /** What the client's close frame said: 1005 where it gave no code, 1006 where there was no close frame. */
  readonly code: number
  /** What it said beside the code; empty where it said nothing. */
  readonly reason: string
}

/**
 * What a container has seen since it was made.
 *
 * @since 0.1.0
 * @category models
 */
export interface Seen {
  /** All HTTP requests but handshakes. */
  readonly requests: ReadonlyArray<HttpRequest>
  /** Those for `GET /health`. */
  readonly healthRequests: number
  /** All handshakes, those that were refused too. */
  readonly handshakes: ReadonlyArray<HttpRequest>
  /** All frames after the opening ones, of all sessions in the order in which they came. */
  readonly frames: ReadonlyArray<Frame>
  /** How WebSockets ended, in order. */
  readonly closes: ReadonlyArray<Close>
  /** Sessions whose opening `state` was answered with `opened`. */
  readonly sessions: number
  /** How many pings came, over all WebSockets. */
  readonly pings: number
  /** Requests that have no answer yet and whose client still waits. */
  readonly pendingRequests: number
  /** Handshakes likewise. */
  readonly pendingHandshakes: number
  /** WebSockets open now. */
  readonly openSockets: number
}

/**
 * A container that is being served, and what it has seen.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScriptedContainer {
  /** The base URL, with the prefix. */
  readonly url: string
  /** All that it has seen so far. */
  readonly seen: Effect.Effect<Seen>
  /** Completes as soon as the container has seen what `holds` asks for; it is asked after every event. */
  readonly awaitSeen: (holds: (seen: Seen) => boolean) => Effect.Effect<Seen>
  /** Completes as soon as so many frames have come after the opening ones. */
  readonly awaitFrames: (count: number) => Effect.Effect<ReadonlyArray<Frame>>
  /** Completes as soon as no WebSocket is open and no handshake is pending. */
  readonly awaitNoSockets: Effect.Effect<void>
  /** Changes parts of the script, for all that comes from now on. `prefix`, `pong` and `absent` stay as they were. */
  readonly update: (script: Script) => Effect.Effect<void>
  /** Does this, unasked, on every WebSocket that is open. */
  readonly push: (reply: Reply) => Effect.Effect<void>
  /** Cuts all connections and listens no more. */
  readonly stop: Effect.Effect<void>
  /** Listens again on the same port. */
  readonly start: Effect.Effect<void>
}

/**
 * Starts a container on a free port of 127.0.0.1. Closing the scope cuts its connections and stops it at once.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (script: Script = {}): Effect.Effect<ScriptedContainer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const prefix = (script.prefix ?? "").replace(/\/+$/, "")
    const clock = Clock.make()
    const began = clock.unsafeCurrentTimeNanos()
    const { changed, until } = Watched.make()
    let current = script

    const requests: Array<HttpRequest> = []
    const handshakes: Array<HttpRequest> = []
    const frames: Array<Frame> = []
    const closes: Array<Close> = []
    const counts = { healthRequests: 0, sessions: 0, pings: 0, pendingRequests: 0, pendingHandshakes: 0 }
    /** Those that are open. */
    const sockets = new Set<Peer>()
    /** Those of them that hold the container. */
    const holding = new Set<Peer>()
    let accepted = 0
    const look = (): Seen => ({ ...counts, requests, handshakes, frames, closes, openSockets: sockets.size })
    const seen = Effect.sync(
      (): Seen => ({
        ...look(),
        requests: Array.from(requests),
        handshakes: Array.from(handshakes),
        frames: Array.from(frames),
        closes: Array.from(closes)
      })
    )
    const awaitSeen = (holds: (seen: Seen) => boolean) =>
      Effect.zipRight(
        until(() => holds(look())),
        seen
      )
    const count = (name: keyof typeof counts, by = 1): void => {
      counts[name] += by
      changed()
    }

    const pick = <A extends object>(scripted: Scripted<A>, request: HttpRequest): Effect.Effect<A> =>
      Effect.suspend(() => {
        if (typeof scripted === "function") {
          const made = scripted(request)
          return Effect.isEffect(made) ? made : Effect.succeed(made)
        }
        if (!isList(scripted)) return Effect.succeed(scripted)
        const seconds = Number(clock.unsafeCurrentTimeNanos() - began) / 1e9
        const now = scripted.find(({ until_s }) => until_s === undefined || until_s === null || seconds < until_s)
        const holds = now ?? scripted.at(-1)
        return holds === undefined ? Effect.dieMessage("a list in the script is empty") : Effect.succeed(holds)
      })

    const refused = (request: HttpRequest): boolean =>
      current.token !== undefined && request.headers.authorization !== `Bearer ${current.token}`

    const answer = (request: HttpRequest): Effect.Effect<Answer> =>
      Effect.suspend(() => {
        requests.push(request)
        if (!request.path.startsWith(`${prefix}/`)) return Effect.succeed(notFound)
        const route = `${request.method} ${request.path.slice(prefix.length)}`
        const health = route === "GET /health"
        if (health) counts.healthRequests++
        changed()
        if (!health && refused(request)) return Effect.succeed(unauthorized)
        const scripted = current.http?.[route] ?? (health ? current.health : undefined)
        if (scripted !== undefined) return pick(scripted, request)
        return Effect.succeed(health ? ownHealth() : ownAnswer(current, route, request))
      })
    const ownHealth = (): Answer => ({
      body: {
        status: "healthy",
        ...(current.capacity === undefined ? {} : { leased: holding.size >= current.capacity })
      }
    })

    const webSockets = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      maxPayload: 0,
      maxFragments: 0,
      autoPong: script.pong ?? true
    })

    const upgrade = (incoming: Http.IncomingMessage, head: Buffer): void => {
      const request = HttpServer.toRequest(incoming, "")
      const { socket } = incoming
      // The HTTP server has let go of the socket: without these nobody notices that the client went.
      const onEnd = (): void => {
        socket.end()
      }
      const settled = (): void => {
        socket.off("close", settled)
        socket.off("end", onEnd)
        count("pendingHandshakes", -1)
      }
      socket.on("error", () => socket.destroy())
      socket.on("end", onEnd)
      socket.on("close", settled)
      handshakes.push(request)
      count("pendingHandshakes")

      const open = (opening: Opening): Effect.Effect<void> => {
        if ("opening" in opening) {
          const later = opening.opening
          return Effect.flatMap(Effect.sleep(opening.delay), () => open(later))
        }
        if ("status" in opening || "hang" in opening || "stall" in opening || "drop" in opening) {
          return HttpServer.refuse(incoming, opening)
        }
        return Effect.sync(() =>
          webSockets.handleUpgrade(incoming, socket, head, (webSocket) => {
            settled()
            converse({ webSocket, socket, close: (code, reason) => webSocket.close(code, reason) }, opening)
          })
        )
      }
      const opened = Effect.suspend(() => {
        if (request.path !== `${prefix}/ws`) return HttpServer.refuse(incoming, notFound)
        if (refused(request)) return HttpServer.refuse(incoming, unauthorized)
        return Effect.flatMap(pick<Opening>(current.ws ?? { accept: true }, request), open)
      })
      server.run(
        Effect.catchAllDefect(opened, (defect) => HttpServer.refuse(incoming, HttpServer.scriptFailed(defect)))
      )
    }

    const converse = (peer: Peer, opening: Accepted): void => {
      const { webSocket } = peer
      const session = accepted++
      const full = current.capacity !== undefined && holding.size >= current.capacity
      sockets.add(peer)
      if (!full) holding.add(peer)
      const unasked = full ? atCapacity : unaskedOf(opening)
      const act = inTurn(server.run)
      let opens = true
      let index = 0

      const openingReply = (): Reply => {
        if ("reply" in opening) return opening.reply
        if ("error" in opening) return { send: { type: "error", data: opening.error } }
        count("sessions")
        return { send: { type: "state", data: current.opened ?? freshState } }
      }
      const reply = (frame: Frame): Effect.Effect<Reply> =>
        Effect.suspend(() => {
          const { replies = [] } = current
          if (typeof replies !== "function") return Effect.succeed(replies[frame.index] ?? exhausted(frame))
          const made = replies(frame)
          return Effect.isEffect(made) ? made : Effect.succeed(made)
        })
      const receive = (text: string): void => {
        const { data, type } = headOf(text)
        if (opens) {
          opens = false
          // One that was turned away may have sent it before it knew.
          if ("silent" in opening || webSocket.readyState !== webSocket.OPEN) return
          act(perform(peer, type === "state" ? openingReply() : noOpening))
          return
        }
        const frame: Frame = { session, index: index++, text, type, data }
        frames.push(frame)
        changed()
        if ("silent" in opening) return
        act(
          Effect.catchAllDefect(
            Effect.flatMap(reply(frame), (made) => perform(peer, made)),
            (defect) => perform(peer, errorFrame("SCRIPT_FAILED", Cause.pretty(Cause.die(defect))))
          )
        )
      }

      // A socket's end is told by its close; what went wrong before is the client's to tell.
      webSocket.on("error", () => webSocket.terminate())
      webSocket.on("ping", () => count("pings"))
      webSocket.on("message", (data) => receive(data.toString()))
      webSocket.on("close", (code, reason) => {
        sockets.delete(peer)
        holding.delete(peer)
        closes.push({ session, code, reason: reason.toString("utf8") })
        changed()
      })
      if (unasked !== undefined) act(perform(peer, unasked))
      changed()
    }

    const server = yield* HttpServer.make({
      answer,
      arrived: () => {
        count("pendingRequests")
        return () => count("pendingRequests", -1)
      },
      upgrade
    })
    if (script.absent === true) yield* server.stop

    return {
      url: `http://127.0.0.1:${server.port}${prefix}`,
      seen,
      awaitSeen,
      awaitFrames: (wanted) =>
        Effect.map(
          awaitSeen((so) => so.frames.length >= wanted),
          (so) => so.frames
        ),
      awaitNoSockets: Effect.asVoid(awaitSeen((so) => so.openSockets === 0 && so.pendingHandshakes === 0)),
      update: (changes) =>
        Effect.sync(() => {
          current = { ...current, ...changes }
        }),
      push: (reply) =>
        Effect.withClock(
          Effect.forEach(Array.from(sockets), (peer) => perform(peer, reply), { discard: true }),
          clock
        ),
      stop: server.stop,
      start: server.start
    }
  })

type Accepted = Exclude<Opening, Answer | { readonly opening: Opening }>

const unaskedOf = (opening: Accepted): Reply | undefined => {
  if ("unasked" in opening) return opening.unasked
  return "close" in opening ? opening : undefined
}

/** What the container answers by itself, the health apart. */
const ownAnswer = (script: Script, route: string, request: HttpRequest): Answer => {
  const environments = script.environments ?? ["scripted"]
  if (route === "GET /list_environments") return { body: environments }
  if (route === "POST /mcp") {
    const tools = script.tools?.[request.query.get("surface") ?? ""]
    return {
      body: {
        jsonrpc: "2.0",
        id: 1,
        ...(tools === undefined ? { error: { code: -32602, message: "no such surface" } } : { result: { tools } })
      }
    }
  }
  if (environments.some((name) => route === `POST /${encodeURIComponent(name)}/tasks`)) {
    const body = Either.getOrUndefined(Json.parse(request.body))
    const split = Json.isObject(body) && typeof body.split === "string" ? body.split : ""
    const tasks = script.tasks?.[split]
    return tasks === undefined ? { status: 404, body: { detail: "no such split" } } : { body: { tasks } }
  }
  return notFound
}

const isList = <A>(scripted: A | ReadonlyArray<Timed<A>>): scripted is ReadonlyArray<Timed<A>> =>
  Array.isArray(scripted)

const errorFrame = (code: string, message: string): Reply => ({ send: { type: "error", data: { code, message } } })

const atCapacity: Reply = {
  many: [errorFrame("CAPACITY_REACHED", "one session at a time"), { close: 1000 }]
}

const noOpening = errorFrame("NO_OPENING_STATE", "the first frame has to be a state")

const exhausted = (frame: Frame): Reply =>
  errorFrame("SCRIPT_EXHAUSTED", `the script has no reply to frame ${frame.index} of session ${frame.session}`)

const notFound: Answer = { status: 404, body: { detail: "Not Found" } }

const unauthorized: Answer = { status: 401, body: { detail: "Unauthorized" } }
