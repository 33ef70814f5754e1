/**
 * The HTTP server on loopback that both stubs stand on: it answers as it is told, badly too, and goes at once
 * when its scope closes. Its clock is the live one, since it plays a peer out there: a test's TestClock must
 * not stop it.
 */

import * as Http from "node:http"
import type * as Net from "node:net"
import * as Json from "@miroir-effect/core/Json"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import type * as Scope from "effect/Scope"
import { reset } from "./reset.js"

export interface HttpRequest {
  readonly method: string
  /** Without the query, still percent-encoded. */
  readonly path: string
  readonly query: URLSearchParams
  /** Names in lower case. */
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
}

export interface Answer {
  /** 200 if not said. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** The `Location` header, for a redirect. */
  readonly location?: string
  /** A body as JSON. */
  readonly body?: Json.Json
  /** A body as it is; wins over `body`. */
  readonly text?: string
  /** Wait before answering. */
  readonly delay?: Duration.DurationInput
  /** Never answer. */
  readonly hang?: boolean
  /** Never answer, and read no more from the connection either, so that not even its close is noticed. */
  readonly stall?: boolean
  /** Cut the connection without an answer, by a reset (RST). */
  readonly drop?: boolean
  /** Cut the connection in the middle of the body. */
  readonly cut?: boolean
  /** So many blank lines come before the body, as from a server that keeps the connection alive. */
  readonly blanks?: number
  /** The body comes byte by byte, with this pause after each. */
  readonly drip?: Duration.DurationInput
  /** After the body more comes, a little at a time, and never an end. */
  readonly endless?: boolean
}

export interface HttpServer {
  readonly port: number
  /** Listens again, on the same port; waits where somebody else has it. */
  readonly start: Effect.Effect<void>
  /** Cuts all connections and listens no more. */
  readonly stop: Effect.Effect<void>
  /** Takes no new connection; those that are there stay. */
  readonly shut: Effect.Effect<void>
  /** The connections that are open. */
  readonly sockets: ReadonlySet<Net.Socket>
  /** Runs an effect on the live clock until it ends or the server's scope closes. */
  readonly run: (effect: Effect.Effect<void>) => void
}

export interface Handlers {
  readonly answer: (request: HttpRequest) => Effect.Effect<Answer>
  /** A request has come; the returned function is called once its connection is done with it. */
  readonly arrived: () => () => void
  readonly upgrade?: (request: Http.IncomingMessage, head: Buffer) => void
  /** A connection has come or gone. */
  readonly connections?: () => void
}

export const make = (handlers: Handlers): Effect.Effect<HttpServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    const fork = yield* FiberSet.makeRuntime<never>()
    const live = Clock.make()
    const run = (effect: Effect.Effect<void>): void => {
      fork(Effect.withClock(effect, live))
    }
    const sockets = new Set<Net.Socket>()
    const server = Http.createServer((request, response) => {
      response.once("close", handlers.arrived())
      run(
        Effect.flatMap(readBody(request), (body) =>
          respond(response, orFailure(handlers.answer(toRequest(request, body))))
        )
      )
    })
    server.on("connection", (socket) => {
      sockets.add(socket)
      handlers.connections?.()
      socket.once("close", () => {
        sockets.delete(socket)
        handlers.connections?.()
      })
    })
    if (handlers.upgrade !== undefined) {
      const { upgrade } = handlers
      server.on("upgrade", (request, _socket, head) => upgrade(request, head))
    }

    const listen = (port: number): Effect.Effect<number> =>
      Effect.async<number>((resume) => {
        const onListening = (): void => {
          server.off("error", onError)
          const address = server.address()
          resume(
            typeof address === "object" && address !== null
              ? Effect.succeed(address.port)
              : Effect.dieMessage("the server has no port")
          )
        }
        const onError = (error: NodeJS.ErrnoException): void => {
          server.off("listening", onListening)
          // The port may be a client's meanwhile, for as long as its connection lives.
          const again = Effect.delay(listen(port), "20 millis")
          resume(error.code === "EADDRINUSE" ? again : Effect.die(error))
        }
        server.once("error", onError)
        server.once("listening", onListening)
        server.listen(port, "127.0.0.1")
      })
    const stop = Effect.async<void>((resume) => {
      if (server.listening) server.close(() => resume(Effect.void))
      else resume(Effect.void)
      for (const socket of sockets) socket.destroy()
    })
    const shut = Effect.sync(() => {
      server.close()
    })
    const port = yield* Effect.acquireRelease(listen(0), () => stop)
    const start = Effect.withClock(
      Effect.suspend(() => (server.listening ? Effect.void : listen(port))),
      live
    )
    return { port, start, stop, shut, sockets, run }
  })

/** Answers a handshake with something else than a WebSocket. */
export const refuse = (request: Http.IncomingMessage, answer: Answer): Effect.Effect<void> =>
  Effect.suspend(() => {
    const response = new Http.ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(request.socket)
    response.once("finish", () => request.socket.destroySoon())
    return respond(response, Effect.succeed(answer))
  })

export const toRequest = (request: Http.IncomingMessage, body: string): HttpRequest => {
  // Not `new URL`, which would resolve dots that a client should not have sent.
  const [path = "", query = ""] = (request.url ?? "").split("?", 2)
  return { method: request.method ?? "", path, query: new URLSearchParams(query), headers: request.headers, body }
}

/** What a script's own function throws is no reason to leave the client waiting: it becomes the answer, to be seen. */
export const scriptFailed = (defect: unknown): Answer => ({
  status: 500,
  text: `SCRIPT_FAILED: ${Cause.pretty(Cause.die(defect))}`
})

/** Between two pieces of a body without end. */
const endlessPause: Duration.DurationInput = "10 millis"

const orFailure = (answer: Effect.Effect<Answer>): Effect.Effect<Answer> =>
  Effect.catchAllDefect(answer, (defect) => Effect.succeed(scriptFailed(defect)))

const readBody = (request: Http.IncomingMessage): Effect.Effect<string> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.once("end", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
    // A client that left within its request waits for nothing.
    request.once("close", () => resume(Effect.interrupt))
  })

const respond = (response: Http.ServerResponse, answered: Effect.Effect<Answer>): Effect.Effect<void> =>
  Effect.gen(function* () {
    const answer = yield* answered
    if (answer.delay !== undefined) yield* Effect.sleep(answer.delay)
    if (answer.hang === true) return
    if (answer.stall === true) {
      response.socket?.pause()
      return
    }
    if (answer.drop === true) {
      if (response.socket !== null) reset(response.socket)
      return
    }
    const text = answer.text ?? (answer.body === undefined ? "" : Json.stringify(answer.body))
    const bytes = Buffer.from("\n".repeat(answer.blanks ?? 0) + text)
    const half = bytes.subarray(0, bytes.length >> 1)
    response.writeHead(answer.status ?? 200, {
      "content-type": answer.text === undefined ? "application/json" : "text/plain; charset=utf-8",
      ...(answer.endless === true
        ? {}
        : { "content-length": answer.cut === true ? Math.max(1, bytes.length) : bytes.length }),
      ...(answer.location === undefined ? {} : { location: answer.location }),
      ...answer.headers
    })
    const sent = answer.cut === true ? half : bytes
    let at = 0
    if (answer.drip !== undefined) {
      for (; at < sent.length - 1 && !response.destroyed; at++) {
        response.write(sent.subarray(at, at + 1))
        yield* Effect.sleep(answer.drip)
      }
    }
    const rest = sent.subarray(at)
    if (answer.endless === true) {
      response.write(rest)
      while (!response.destroyed) {
        response.write(" ".repeat(1024))
        yield* Effect.sleep(endlessPause)
      }
    } else if (answer.cut !== true) response.end(rest)
    else response.write(rest, () => response.socket?.destroy())
  })
