/** An HTTP proxy on loopback, real enough for tunnels (CONNECT) and for plain calls. */
import * as Http from "node:http"
import * as Net from "node:net"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

interface Asked {
  readonly method: string
  /** `HOST:PORT` of a tunnel, the whole URL of a call. */
  readonly target: string
  readonly credentials: string | undefined
}

export interface ConnectProxy {
  /** Without userinfo. */
  readonly url: string
  readonly asked: ReadonlyArray<Asked>
  /** Waits until nobody is connected to it. */
  readonly idle: Effect.Effect<void>
}

export interface Script {
  /** `USER:PASSWORD` that it wants; without it, 407. */
  readonly credentials?: string
  /** In the place of all else: a status, these bytes, bytes without end, an end, or nothing at all. */
  readonly answer?: number | string | "endless" | "cut" | "hang"
}

/** Every name leads to 127.0.0.1: what is asked of `env.example` comes through the proxy or not at all. */
export const make = ({ answer, credentials }: Script = {}): Effect.Effect<ConnectProxy, never, Scope.Scope> =>
  Effect.gen(function* () {
    const asked: Array<Asked> = []
    const sockets = new Set<Net.Socket>()
    const wanted = credentials === undefined ? undefined : `Basic ${Buffer.from(credentials).toString("base64")}`

    /** Whether the request may pass; if not, it has been dealt with. */
    const passes = ({ headers, method = "", socket, url = "" }: Http.IncomingMessage): boolean => {
      const authorization = headers["proxy-authorization"]
      asked.push({
        method,
        target: url,
        credentials: authorization && Buffer.from(authorization.slice("Basic ".length), "base64").toString()
      })
      const status = answer ?? (wanted === undefined || authorization === wanted ? undefined : 407)
      if (status === undefined) return true
      if (typeof status === "number") {
        // What it says is not to be believed: a server's text is shown with care, a proxy's not at all.
        socket.end(`HTTP/1.1 ${status} \u001b[31mNo\r\ncontent-length: 6\r\n\r\nproxy!`)
      } else if (status === "endless") {
        socket.write("HTTP/1.1 200 OK\r\n")
        const more = (): void => {
          while (!socket.destroyed && socket.write(`x-more: ${"x".repeat(1000)}\r\n`));
        }
        socket.on("drain", more)
        more()
      } else if (status === "cut") {
        socket.destroy()
      } else if (status !== "hang") {
        socket.end(status)
      }
      return false
    }

    const server = Http.createServer((request, response) => {
      if (!passes(request)) return
      const { host, pathname, port, search } = new URL(request.url ?? "")
      const { "proxy-authorization": _, ...headers } = request.headers
      const passed = Http.request({
        host: "127.0.0.1",
        port,
        method: request.method,
        path: pathname + search,
        headers: { ...headers, host },
        agent: false
      })
      passed.on("error", () => response.destroy())
      passed.on("response", (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      request.pipe(passed)
    })
    server.on("connect", (request: Http.IncomingMessage, socket: Net.Socket) => {
      if (!passes(request)) {
        // The server has let go of the socket: without this nobody notices that the client went.
        socket.resume().on("end", () => socket.destroy())
        return
      }
      const port = Number(request.url?.replace(/^.*:/, ""))
      const way = Net.connect(port, "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
        socket.pipe(way)
        way.pipe(socket)
      })
      for (const [one, other] of [
        [socket, way],
        [way, socket]
      ] as const) {
        one.on("error", () => other.destroy())
        one.on("close", () => other.destroy())
      }
    })
    server.on("connection", (socket) => {
      sockets.add(socket)
      socket.on("error", () => socket.destroy())
      socket.on("close", () => sockets.delete(socket))
    })

    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.sync(() => {
          for (const socket of sockets) socket.destroy()
          server.close()
        })
    )
    const address = server.address()
    const turn = Effect.async<void>((resume) => {
      setTimeout(() => resume(Effect.void), 1)
    })
    return {
      url: `http://127.0.0.1:${typeof address === "object" ? address?.port : address}`,
      asked,
      idle: Effect.repeat(turn, { until: () => sockets.size === 0 }).pipe(Effect.asVoid)
    }
  })

/** Runs an effect with these variables in the process's environment, and no other that names proxies. */
export const withVariables =
  (variables: Readonly<Record<string, string>>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const before = Object.entries(process.env).filter(([name]) => /_proxy$/i.test(name))
        for (const [name] of before) delete process.env[name]
        Object.assign(process.env, variables)
        return before
      }),
      () => effect,
      (before) =>
        Effect.sync(() => {
          for (const name of Object.keys(variables)) delete process.env[name]
          Object.assign(process.env, Object.fromEntries(before))
        })
    )
