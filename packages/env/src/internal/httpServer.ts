/** HTTP and WebSockets on one port, as Effects: all that is known here of node:http and ws. */

import * as Http from "node:http"
import type { Duplex } from "node:stream"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import { type RawData, type WebSocket, WebSocketServer } from "ws"

export interface Head {
  readonly method: string
  /** Percent-encoded, as it came. */
  readonly path: string
  readonly query: URLSearchParams
  readonly authorization: Option.Option<string>
}

export interface Request extends Head {
  readonly body: string
}

export interface Response {
  readonly status: number
  /** JSON text. */
  readonly body: string
  readonly headers?: { readonly [name: string]: string }
}

export interface Socket {
  /** False from the moment that either side has begun to close it. */
  readonly isOpen: () => boolean
  /** What comes in; left: why it is no text. Where more than `maxWaiting` are not taken, the socket is closed. */
  readonly frames: Queue.Dequeue<Either.Either<string, string>>
  /** Waits until the system has taken it: what a client does not read is not heaped up here. */
  readonly send: (text: string) => Effect.Effect<void>
  readonly close: (code: number) => void
}

export class CannotListen extends Data.TaggedError("CannotListen")<{ readonly reason: string }> {}

/** Bytes of a request's body; the calls that there are need a few hundred. */
const maxBody = 1_048_576

/** Milliseconds that a peer has to answer our close frame, before the connection is cut. */
const closeTimeout = 1000

/**
 * Frames of a socket that wait for the one before them; clients of this protocol wait for each answer. A socket that is
 * paused instead would not tell of pongs, nor that its client is gone.
 */
const maxWaiting = 16

/** RFC 6455, section 7.4.1. */
const goingAway = 1001
const policyViolation = 1008

/** Of the registry that it set up: what servers commonly close with where pings go unanswered. */
const internalError = 1011

/**
 * Serves until the scope closes: then sockets are closed with 1001, all else is cut, and what runs is interrupted. Succeeds
 * with the port.
 */
export const serve = <R>(options: {
  readonly host: string
  readonly port: number
  readonly onRequest: (request: Request) => Effect.Effect<Response, never, R>
  /** The response that refuses a handshake. */
  readonly refusal: (handshake: Head) => Option.Option<Response>
  /** Between two pings; zero or infinity turns them off. */
  readonly pingInterval: Duration.DurationInput
  /** A client that answers no ping within this is closed. */
  readonly pongTimeout: Duration.DurationInput
  /** Interrupted once the socket is closed. */
  readonly onSocket: (socket: Socket) => Effect.Effect<void, never, R>
  /** How long the scope's end waits for what was interrupted. */
  readonly shutdownGrace: Duration.DurationInput
  /** Run where that is not enough: what goes on then is left to itself. */
  readonly onLeft: Effect.Effect<void>
}): Effect.Effect<number, CannotListen, R | Scope.Scope> =>
  Effect.gen(function* () {
    // Closed by the server's release, which does not wait for it for ever.
    const running = yield* Scope.make()
    const fork = yield* Scope.extend(FiberSet.makeRuntime<R>(), running)
    // @types/ws does not know closeTimeout and maxFragments.
    const settings = { noServer: true, perMessageDeflate: false, maxPayload: 0, maxFragments: 0, closeTimeout }
    const sockets = new WebSocketServer(settings)

    const onRequest = (request: Http.IncomingMessage, response: Http.ServerResponse) =>
      Effect.gen(function* () {
        const body = yield* Effect.tryPromise(() => bodyOf(request))
        const answer = Option.isNone(body)
          ? { status: 413, body: '{"code":"TOO_LARGE","message":"The body is too large."}' }
          : yield* options.onRequest({ ...headOf(request), body: body.value })
        response.writeHead(answer.status, { "content-type": "application/json", ...answer.headers })
        response.end(answer.body)
      }).pipe(
        Effect.catchTag("UnknownException", (error) => Effect.logDebug("A request broke off", Cause.fail(error))),
        Effect.catchAllDefect((defect) =>
          Effect.zipRight(
            Effect.logError("A request could not be answered", Cause.die(defect)),
            Effect.sync(() => response.writeHead(500).end())
          )
        )
      )

    const onUpgrade = (request: Http.IncomingMessage, stream: Duplex, head: Buffer): void => {
      stream.on("error", () => stream.destroy())
      const refusal = options.refusal(headOf(request))
      if (Option.isSome(refusal)) refuse(stream, refusal.value)
      else sockets.handleUpgrade(request, stream, head, (socket) => fork(onSocket(socket)))
    }

    const onSocket = (socket: WebSocket): Effect.Effect<void, never, R> =>
      Effect.gen(function* () {
        const frames = yield* Queue.dropping<Either.Either<string, string>>(maxWaiting)
        const closed = yield* Deferred.make<void>()
        socket.on("message", (data) => {
          if (!frames.unsafeOffer(textOf(data))) socket.close(policyViolation, `more than ${maxWaiting} frames wait`)
        })
        // ws closes the socket by itself; without a listener the error would end the process.
        socket.on("error", (error) => fork(Effect.logDebug("A socket failed", Cause.fail(error))))
        socket.once("close", () => Deferred.unsafeDone(closed, Effect.void))
        const taken = options.onSocket({
          isOpen: () => socket.readyState === socket.OPEN,
          frames,
          // Where it fails, the socket is closed, and this interrupted.
          send: (text) => Effect.async((resume) => socket.send(text, () => resume(Effect.void))),
          close: (code) => socket.close(code)
        })
        yield* Effect.all([taken, keepAlive(socket, options)], { concurrency: "unbounded" }).pipe(
          Effect.zipRight(Deferred.await(closed)),
          Effect.raceFirst(Deferred.await(closed))
        )
      })

    const listening = Effect.async<Http.Server, CannotListen>((resume) => {
      const server = Http.createServer((request, response) => fork(onRequest(request, response)))
      server.on("upgrade", onUpgrade)
      server.once("error", (error) => resume(new CannotListen({ reason: error.message })))
      server.listen(options.port, options.host, () => resume(Effect.succeed(server)))
    })

    const hangUp = (server: Http.Server) =>
      Effect.async<void>((resume) => {
        // It calls back when the last connection has ended, WebSockets included.
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
        for (const socket of sockets.clients) socket.close(goingAway)
      })

    const interruptAll = Effect.gen(function* () {
      const ending = yield* Effect.forkDaemon(Scope.close(running, Exit.void))
      const ended = yield* Effect.timeoutOption(Effect.interruptible(Fiber.await(ending)), options.shutdownGrace)
      if (Option.isNone(ended)) yield* options.onLeft
    })

    const server = yield* Effect.acquireRelease(listening, (server) => Effect.zipRight(hangUp(server), interruptAll))
    const address = server.address()
    return typeof address === "object" && address !== null ? address.port : options.port
  })

/** Pings until one goes unanswered: a client that is gone without a word must not hold its container for ever. */
const keepAlive = (
  socket: WebSocket,
  settings: { readonly pingInterval: Duration.DurationInput; readonly pongTimeout: Duration.DurationInput }
): Effect.Effect<void> => {
  const interval = Duration.decode(settings.pingInterval)
  if (Duration.toMillis(interval) === 0 || !Duration.isFinite(interval)) return Effect.void
  const pong = Effect.async<boolean>((resume) => {
    const onPong = () => resume(Effect.succeed(true))
    socket.once("pong", onPong)
    socket.ping()
    return Effect.sync(() => socket.off("pong", onPong))
  })
  const late = Effect.as(Effect.zipRight(Effect.sleep(settings.pongTimeout), socketsRead), false)
  return Effect.raceFirst(pong, late).pipe(
    Effect.delay(interval),
    Effect.repeat({ while: (answered) => answered }),
    Effect.andThen(Effect.sync(() => socket.close(internalError, "keepalive ping timeout")))
  )
}

/** Where a world's code has held up the process, the timers go off before the pong is read that came meanwhile. */
const socketsRead = Effect.async<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

const headOf = (request: Http.IncomingMessage): Head => {
  // A proxy's client may send the whole URL.
  const [path = "", query = ""] = (request.url ?? "").replace(/^https?:\/\/[^/?]*/i, "").split("?", 2)
  return {
    method: request.method ?? "",
    path,
    query: new URLSearchParams(query),
    authorization: Option.fromNullable(request.headers.authorization)
  }
}

/** None where it is too large: the rest is read all the same, since a client may not listen before all is sent. */
const bodyOf = async (request: Http.IncomingMessage): Promise<Option.Option<string>> => {
  const chunks: Array<Buffer> = []
  let length = 0
  for await (const chunk of request) {
    const bytes = Buffer.from(chunk)
    length += bytes.length
    if (length <= maxBody) chunks.push(bytes)
  }
  return length > maxBody ? Option.none() : Option.some(Buffer.concat(chunks).toString("utf8"))
}

const refuse = (stream: Duplex, response: Response): void => {
  const headers = {
    "content-type": "application/json",
    "content-length": `${Buffer.byteLength(response.body)}`,
    connection: "close",
    ...response.headers
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const reason = Http.STATUS_CODES[response.status] ?? ""
  // A client that leaves its end open must not keep the server from closing.
  stream.once("finish", () => stream.destroy())
  stream.end(`HTTP/1.1 ${response.status} ${reason}\r\n${lines.join("")}\r\n${response.body}`)
}

/** Binary frames of UTF-8 count as text; ws itself checks the text ones. */
const textOf = (data: RawData): Either.Either<string, string> =>
  Either.try({
    try: () =>
      new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
        Array.isArray(data) ? Buffer.concat(data) : data
      ),
    catch: () => "it is no UTF-8 text"
  })
