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
  /** Cut the connection without an answer. */
  readonly drop?: boolean
  /** Cut the connection in the middle of the body. */
  readonly cut?: boolean
}

export interface HttpServer {
  readonly port: number
  /** Listens again, on the same port. Dies where somebody else has taken it meanwhile. */
  readonly start: Effect.Effect<void>
  /** Cuts all connections and listens no more. */
  readonly stop: Effect.Effect<void>
  /** Runs an effect on the live clock until it ends or the server's scope closes. */
  readonly run: (effect: Effect.Effect<void>) => void
}

export interface Handlers {
  readonly answer: (request: HttpRequest) => Effect.Effect<Answer>
  /** A request has come; the returned function is called once its connection is done with it. */
  readonly arrived: () => () => void
  readonly upgrade?: (request: Http.IncomingMessage, head: Buffer) => void
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
      socket.once("close", () => sockets.delete(socket))
    })
    if (handlers.upgrade !== undefined) {
      const { upgrade } = handlers
      server.on("upgrade", (request, _socket, head) => upgrade(request, head))
    }

    const listen = (port: number): Effect.Effect<number> =>
      Effect.async<number>((resume) => {
        const onError = (error: Error): void => resume(Effect.die(error))
        server.once("error", onError)
        server.listen(port, "127.0.0.1", () => {
          server.off("error", onError)
          const address = server.address()
          resume(
            typeof address === "object" && address !== null
              ? Effect.succeed(address.port)
              : Effect.dieMessage("the server has no port")
          )
        })
      })
    const stop = Effect.async<void>((resume) => {
      if (!server.listening) return resume(Effect.void)
      server.close(() => resume(Effect.void))
      for (const socket of sockets) socket.destroy()
    })
    const port = yield* Effect.acquireRelease(listen(0), () => stop)
    return { port, start: Effect.suspend(() => (server.listening ? Effect.void : listen(port))), stop, run }
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
    if (answer.drop === true) {
      response.socket?.destroy()
      return
    }
    const bytes = Buffer.from(answer.text ?? (answer.body === undefined ? "" : Json.stringify(answer.body)))
    const half = bytes.subarray(0, bytes.length >> 1)
    response.writeHead(answer.status ?? 200, {
      "content-type": answer.text === undefined ? "application/json" : "text/plain; charset=utf-8",
      "content-length": answer.cut === true ? Math.max(1, bytes.length) : bytes.length,
      ...(answer.location === undefined ? {} : { location: answer.location }),
      ...answer.headers
    })
    if (answer.cut !== true) {
      response.end(bytes)
      return
    }
    response.write(half, () => response.socket?.destroy())
  })
