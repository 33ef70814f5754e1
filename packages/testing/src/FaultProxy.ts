/**
 * A proxy that stands before a server, a scripted container, a real one or a model, and is at fault when it is told to:
 * it refuses, hangs, cuts, answers with rubbish, at whatever phase of an episode.
 *
 *     const proxy = yield* FaultProxy.make(container.url)
 *     yield* proxy.inject("step", "cut")
 *     yield* proxy.inject("record", { close: 1012 })
 *
 * What is faulty is the answer: the request has reached the server behind, as with a network that fails at the worst
 * moment. Only a handshake that meets a fault does not reach it.
 *
 * The proxy runs on the live clock, also in a test that runs on a TestClock.
 *
 * @since 0.1.0
 */

import type * as Http from "node:http"
import * as Effect from "effect/Effect"
import { constUndefined } from "effect/Function"
import type * as Scope from "effect/Scope"
import { WebSocket, WebSocketServer } from "ws"
import { forward, toAnswer } from "./internal/forward.js"
import { headOf } from "./internal/frames.js"
import * as HttpServer from "./internal/httpServer.js"
import { inTurn, type Peer, perform } from "./internal/perform.js"
import { reset } from "./internal/reset.js"
import * as Spoilt from "./internal/spoilt.js"
import * as Watched from "./internal/watched.js"
import type { Answer, HttpRequest } from "./ScriptedContainer.js"

const anywhere = ["refuse", "hang", "half-open", "cut", "torn", "garbage"] as const
const ofJson = ["truncated", "nested", "lacking", "huge", "drips"] as const
const ofPages = ["html", "empty", "endless"] as const
const ofHttp = [...anywhere, ...ofJson, ...ofPages] as const
const ofHandshake = [...anywhere, "lacking", ...ofPages] as const
const ofFrame = [...anywhere, ...ofJson, "twice", "unasked"] as const
const ofEnd = ["hang", "half-open", "cut", "torn", "garbage", "huge", "unasked"] as const

/**
 * Closes the WebSocket with this code; 1006, which stands for no close frame, ends the TCP connection without one. At the
 * handshake: it is completed first. At the close: this code is the answer.
 *
 * @since 0.1.0
 * @category models
 */
export interface CloseFault {
  readonly close: number
  readonly reason?: string
}

/**
 * Answers with this status and a JSON body that says no more.
 *
 * @since 0.1.0
 * @category models
 */
export interface StatusFault {
  readonly status: number
  readonly location?: string
}

/**
 * A fault of an HTTP answer: its name, or a status.
 *
 * - `refuse`: the connection is cut, and no new one is taken until all is healed; for `health`, from the injection on
 * - `hang`: there is no answer; `half-open`: nor is anything read any more, and no ping answered
 * - `cut`: the connection is reset (RST); `torn`: after the first half of the answer
 * - `garbage`: what comes is of another protocol, or no text
 * - `truncated`: half of the JSON; `nested`: JSON of 400,000 brackets; `lacking`: JSON without all that is needed
 * - `huge`: the answer with 150 MB more in it; `drips`: in packets of one byte
 * - `html`: a page; `empty`: no body; `endless`: a body without end
 *
 * @since 0.1.0
 * @category models
 */
export type HttpFault = (typeof ofHttp)[number] | StatusFault

/**
 * A fault of a handshake: a name as with `HttpFault`, a status, or a close as soon as it is done. `html` and `endless` are
 * answers instead of a handshake, with 200 and 401; `empty` is an end without any answer; `lacking` is a handshake
 * without the proof that the server understood it.
 *
 * @since 0.1.0
 * @category models
 */
export type HandshakeFault = (typeof ofHandshake)[number] | StatusFault | CloseFault

/**
 * A fault of a reply on the WebSocket: a name as with `HttpFault`, or a close. `twice` is two replies to one frame, `unasked` a
 * frame behind the reply that nobody asked for.
 *
 * @since 0.1.0
 * @category models
 */
export type FrameFault = (typeof ofFrame)[number] | CloseFault

/**
 * A fault of the answer to the client's close frame: a name as with `FrameFault`, or another code. `unasked`, `garbage` and
 * `huge` are frames that come in its place.
 *
 * @since 0.1.0
 * @category models
 */
export type EndFault = (typeof ofEnd)[number] | CloseFault

/**
 * Any fault, which is plain data.
 *
 * @since 0.1.0
 * @category models
 */
export type Fault = HttpFault | HandshakeFault | FrameFault | EndFault

const framePhases = ["opening", "reset", "step", "state", "coworkers", "coworker_reply", "record"] as const

/**
 * A phase in which the reply to a frame is awaited: the opening `state`, or a frame of this type.
 *
 * @since 0.1.0
 * @category models
 */
export type FramePhase = (typeof framePhases)[number]

/**
 * Where an exchange belongs: `GET /health`, any other HTTP call, the handshake, a frame, or the client's close.
 *
 * @since 0.1.0
 * @category models
 */
export type Phase = "health" | "call" | "handshake" | FramePhase | "close"

/**
 * What faults a phase can have.
 *
 * @since 0.1.0
 * @category models
 */
export type FaultOf<P extends Phase> = P extends "health" | "call"
  ? HttpFault
  : P extends "handshake"
    ? HandshakeFault
    : P extends "close"
      ? EndFault
      : FrameFault

const statuses = [301, 401, 403, 404, 408, 429, 500, 502, 503].map((status): StatusFault => ({ status }))
const closes = [1000, 1001, 1006, 1009, 1011, 1012, 1013].map((close): CloseFault => ({ close }))
const frameFaults: ReadonlyArray<FrameFault> = [...ofFrame, ...closes]

/**
 * Each phase with the faults that are worth trying there, to be gone through by tests.
 *
 * @since 0.1.0
 * @category faults
 */
export const faults: { readonly [P in Phase]: ReadonlyArray<FaultOf<P>> } = {
  health: [...ofHttp, ...statuses],
  call: [...ofHttp, ...statuses],
  handshake: [...ofHandshake, ...statuses, ...closes],
  opening: frameFaults,
  reset: frameFaults,
  step: frameFaults,
  state: frameFaults,
  coworkers: frameFaults,
  coworker_reply: frameFaults,
  record: frameFaults,
  close: [...ofEnd, ...closes]
}

/**
 * A fault's name, for people.
 *
 * @since 0.1.0
 * @category faults
 */
export const nameOf = (fault: Fault): string =>
  typeof fault === "string" ? fault : "close" in fault ? `close ${fault.close}` : `status ${fault.status}`

/**
 * A fault that has struck.
 *
 * @since 0.1.0
 * @category models
 */
export interface Strike {
  readonly phase: Phase
  readonly fault: Fault
}

/**
 * What a proxy has seen since it was made.
 *
 * @since 0.1.0
 * @category models
 */
export interface Seen {
  /** How many exchanges of each phase began. */
  readonly exchanges: Readonly<Record<Phase, number>>
  /** In order. */
  readonly strikes: ReadonlyArray<Strike>
  /** TCP connections of clients that are open now. */
  readonly connections: number
  /** The WebSockets among them. */
  readonly webSockets: number
}

/**
 * When an injected fault strikes.
 *
 * @since 0.1.0
 * @category models
 */
export interface When {
  /** After so many exchanges of the phase that are let pass; default 0. */
  readonly after?: number
  /** How often; default once. */
  readonly times?: number
}

/**
 * A proxy at work.
 *
 * @since 0.1.0
 * @category models
 */
export interface FaultProxy {
  /** The base URL to be used instead of the server's own. */
  readonly url: string
  /** Has exchanges of a phase meet a fault: the next one, if not said otherwise. Several faults of a phase strike in turn. */
  readonly inject: <P extends Phase>(phase: P, fault: FaultOf<P>, when?: When) => Effect.Effect<void>
  /** Forgets what is still to strike, ends what is half open, and takes new connections again. */
  readonly heal: Effect.Effect<void>
  readonly seen: Effect.Effect<Seen>
  /** Completes as soon as the proxy has seen what `holds` asks for; it is asked after every event. */
  readonly awaitSeen: (holds: (seen: Seen) => boolean) => Effect.Effect<Seen>
  /** Completes as soon as no client has a connection. */
  readonly awaitNoConnections: Effect.Effect<void>
}

/**
 * How a proxy is set up.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /**
   * Asked at each exchange that no injected fault meets; what it gives strikes. A fault that makes no sense in the phase
   * is none.
   */
  readonly fault?: (phase: Phase) => Fault | undefined
}

/**
 * Starts a proxy on a free port of 127.0.0.1, before a server with this base URL. Closing the scope cuts its connections
 * and stops it at once.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (target: string, options: Options = {}): Effect.Effect<FaultProxy, never, Scope.Scope> =>
  Effect.gen(function* () {
    const base = new URL(target)
    const { changed, until } = Watched.make()
    const exchanges: Record<Phase, number> = { ...noExchanges }
    const strikes: Array<Strike> = []
    const fronts = new Set<Front>()
    let injected: ReadonlyArray<Injected> = []
    let heals = 0

    /** Counts an exchange, and gives the fault that strikes its answer, unless all is healed before that comes. */
    const enter = (phase: Phase): (() => Fault | undefined) => {
      exchanges[phase]++
      const next = injected.find((one) => one.phase === phase)
      let fault: Fault | undefined
      if (next === undefined) fault = options.fault?.(phase)
      else if (next.after > 0) next.after--
      else {
        fault = next.fault
        next.times--
        if (next.times <= 0) injected = injected.filter((one) => one !== next)
      }
      if (fault !== undefined && !isOf(phase, fault)) fault = undefined
      if (fault !== undefined) strikes.push({ phase, fault })
      if (fault === "refuse") server.run(server.shut)
      changed()
      const since = heals
      return () => (heals === since ? fault : undefined)
    }

    const answer = (request: HttpRequest): Effect.Effect<Answer> =>
      Effect.suspend(() => {
        const struck = enter(request.path.endsWith("/health") ? "health" : "call")
        return Effect.map(forward(base, request), (whole) => {
          const fault = struck()
          return fault === undefined ? whole : Spoilt.answer(whole, fault)
        })
      })

    const webSockets = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      maxPayload: 0,
      maxFragments: 0,
      autoPong: false,
      WebSocket: Front
    })

    const upgrade = (incoming: Http.IncomingMessage, head: Buffer): void => {
      const { socket } = incoming
      const onEnd = (): void => {
        socket.end()
      }
      socket.on("error", () => socket.destroy())
      socket.on("end", onEnd)
      const accept = (meet: (peer: Peer, front: Front) => void): void => {
        socket.off("end", onEnd)
        webSockets.handleUpgrade(incoming, socket, head, (front) => {
          fronts.add(front)
          front.on("error", () => front.terminate())
          front.on("close", () => {
            fronts.delete(front)
            changed()
          })
          meet({ webSocket: front, socket, close: (code, reason) => front.say(code, reason) }, front)
        })
      }
      const fault = enter("handshake")()
      if (fault === undefined) {
        const back = connect(base, incoming)
        const leave = (): void => back.terminate()
        const cut = (): void => reset(socket)
        socket.once("close", leave)
        back.once("close", cut)
        back.on("error", () => back.terminate())
        back.once("unexpected-response", (_request, response) =>
          server.run(Effect.flatMap(toAnswer(response), (refusal) => HttpServer.refuse(incoming, refusal)))
        )
        back.once("open", () =>
          // Where the client is leaving, there is nobody to be coupled.
          accept((peer, front) => {
            socket.off("close", leave)
            back.off("close", cut)
            couple(peer, front, back)
          })
        )
      } else if (typeof fault === "object" && "close" in fault) {
        accept((peer) => server.run(perform(peer, fault)))
      } else {
        server.run(Spoilt.handshake(incoming, fault))
      }
    }

    /** Passes on what comes from either side, until one of them is gone. */
    const couple = (peer: Peer, front: Front, back: WebSocket): void => {
      const act = inTurn(server.run)
      /** What the next replies are to meet. */
      const awaited: Array<() => Fault | undefined> = []
      let opens = true
      front.on("message", (data, isBinary) => {
        const type = headOf(data.toString()).type
        const phase = opens ? "opening" : framePhases.find((known) => known === type)
        opens = false
        awaited.push(phase === undefined ? constUndefined : enter(phase))
        back.send(data, { binary: isBinary }, ignore)
      })
      back.on("message", (data, isBinary) => {
        const fault = awaited.shift()?.()
        const text = data.toString()
        const whole = isBinary ? { binary: text } : { raw: text }
        act(perform(peer, fault === undefined ? whole : Spoilt.reply(text, fault)))
      })
      front.on("ping", (data) => back.ping(data, undefined, ignore))
      back.on("pong", (data) => front.pong(data, undefined, ignore))
      back.on("ping", (data) => front.ping(data, undefined, ignore))
      front.on("pong", (data) => back.pong(data, undefined, ignore))
      front.onPeerClose = (code, reason) => {
        const fault = enter("close")()
        act(fault === undefined ? Effect.sync(() => front.say(code, reason)) : Spoilt.end(peer, fault))
        closeWith(code, reason, back)
      }
      front.once("close", (code, reason) => closeWith(code, reason.toString(), back))
      back.once("close", (code, reason) => {
        if (front.readyState !== WebSocket.OPEN || front.isLeft) return
        act(perform(peer, code === 1005 ? { close: 1000 } : { close: code, reason: reason.toString() }))
      })
    }

    const server = yield* HttpServer.make({ answer, arrived: () => () => {}, upgrade, connections: changed })

    const look = (): Seen => ({ exchanges, strikes, connections: server.sockets.size, webSockets: fronts.size })
    const seen = Effect.sync(() => ({ ...look(), exchanges: { ...exchanges }, strikes: Array.from(strikes) }))
    const awaitSeen = (holds: (seen: Seen) => boolean) =>
      Effect.zipRight(
        until(() => holds(look())),
        seen
      )
    return {
      url: `http://127.0.0.1:${server.port}${base.pathname.replace(/\/+$/, "")}`,
      inject: (phase, fault, { after = 0, times = 1 } = {}) =>
        Effect.suspend(() => {
          injected = [...injected, { phase, fault, after, times }]
          // Who is to be refused at the first call must find nobody.
          return fault === "refuse" && phase === "health" && after === 0 ? server.shut : Effect.void
        }),
      heal: Effect.suspend(() => {
        injected = []
        heals++
        for (const front of fronts) if (front.isPaused) front.terminate()
        for (const socket of server.sockets) socket.resume()
        return server.start
      }),
      seen,
      awaitSeen,
      awaitNoConnections: Effect.asVoid(awaitSeen(({ connections }) => connections === 0))
    }
  })

interface Injected {
  readonly phase: Phase
  readonly fault: Fault
  after: number
  times: number
}

const noExchanges: Readonly<Record<Phase, number>> = {
  health: 0,
  call: 0,
  handshake: 0,
  opening: 0,
  reset: 0,
  step: 0,
  state: 0,
  coworkers: 0,
  coworker_reply: 0,
  record: 0,
  close: 0
}

/** The client's end of a WebSocket, whose close frame `ws` would answer by itself. */
class Front extends WebSocket {
  /** Hears of a close frame that is to be answered. */
  onPeerClose: ((code: number, reason: string) => void) | undefined
  /** Whether it has come. */
  isLeft = false

  /** `ws` calls this for the answer. */
  override close(code?: number, reason?: string | Buffer): void {
    if (this.onPeerClose === undefined || this.isLeft || this.readyState !== WebSocket.OPEN) super.close(code, reason)
    else {
      this.isLeft = true
      this.onPeerClose(code ?? 1000, reason?.toString() ?? "")
    }
  }

  /** Sends a close frame, its own or the answer to the client's. */
  say(code: number, reason?: string): void {
    super.close(code, reason)
  }
}

/** The same handshake with the server behind. */
const connect = (base: URL, incoming: Http.IncomingMessage): WebSocket => {
  const { authorization } = incoming.headers
  const address = new URL(incoming.url ?? "", base)
  address.protocol = base.protocol.replace("http", "ws")
  const options = { followRedirects: false, perMessageDeflate: false, maxPayload: 0, maxFragments: 0, autoPong: false }
  return new WebSocket(address, { ...options, headers: authorization === undefined ? {} : { authorization } })
}

const closeWith = (code: number, reason: string, socket: WebSocket): void => {
  if (socket.readyState !== WebSocket.OPEN) return
  if (code === 1005 || code === 1006) socket.terminate()
  else socket.close(code, reason)
}

const isOf = (phase: Phase, fault: Fault): boolean => {
  if (typeof fault === "string") return faults[phase].some((known) => known === fault)
  const isHttp = phase === "health" || phase === "call"
  return "close" in fault ? !isHttp : isHttp || phase === "handshake"
}

const ignore = (): void => {}
