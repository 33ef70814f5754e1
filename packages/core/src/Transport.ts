/**
 * The socket: opens a WebSocket to a container and hands over its frames. The one
 * file that imports `ws`; what the frames mean is not known here.
 *
 * `ws` is wrapped by hand, since Effect's own `Socket` has no pings, tells neither
 * a handshake's status nor a clean close, and cannot send headers.
 *
 * @since 0.1.0
 */

import { constants, isUtf8 } from "node:buffer"
import { isIP, type Socket as NetSocket } from "node:net"
import { connect as connectTls } from "node:tls"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import { constVoid } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { WebSocket } from "ws"
import * as BaseUrl from "./BaseUrl.js"
import { acquireRelease } from "./internal/finalizer.js"
import { withoutCredential } from "./internal/http.js"
import { networkReason } from "./internal/networkReason.js"
import * as Proxies from "./internal/proxies.js"
import * as Timers from "./internal/timers.js"
import { ConnectionFailed, ConnectionLost } from "./MiroirError.js"

/**
 * What all connections of a transport have in common.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** How long a handshake may take, its redirects included. Default 30 s. */
  readonly handshakeTimeout: Duration.DurationInput
  /** Between pings. Zero or infinity turns them off. Default 20 s. */
  readonly pingInterval: Duration.DurationInput
  /** So many pings in a row unanswered break the connection. Default 3. */
  readonly maxMissedPings: number
  /** How long a close may take before the socket is cut. Default 2 s. */
  readonly closeTimeout: Duration.DurationInput
  /** Whether the proxies of HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY are left aside. Default false. */
  readonly direct: boolean
}

/**
 * The settings that hold where none are given.
 *
 * @since 0.1.0
 * @category settings
 */
export const defaults: Settings = {
  handshakeTimeout: Duration.seconds(30),
  pingInterval: Duration.seconds(20),
  maxMissedPings: 3,
  closeTimeout: Duration.seconds(2),
  direct: false
}

/**
 * Who hears of what comes over a connection.
 *
 * @since 0.1.0
 * @category models
 */
export interface Listener {
  /** A text frame, or a binary one that holds UTF-8; `undefined` for one that does not. */
  readonly onFrame: (text: string | undefined) => void
  /** The connection is over; called once, and last. The error is made where it is wanted: after a close of ours it is not. */
  readonly onClose: (error: () => ConnectionLost) => void
}

/**
 * An open connection. Plain functions, since every exchange passes through here.
 *
 * @since 0.1.0
 * @category models
 */
export interface Connection {
  /** Sends a text frame. On a connection that is over it does nothing: the listener has been told. */
  readonly send: (text: string) => void
  /** Sets the listener, who is at once told what came before. */
  readonly listen: (listener: Listener) => void
  /** Begins to close. The scope's end does so too, and waits for it. */
  readonly close: () => void
}

/**
 * Opens WebSockets to containers.
 *
 * @since 0.1.0
 * @category services
 */
export class Transport extends Context.Tag("@miroir-effect/core/Transport")<
  Transport,
  {
    /**
     * Opens a connection to `ws(s)://HOST[/PATH]/ws` of a base URL. It is closed with the scope: a close frame, up
     * to `closeTimeout` for the peer's, then a cut.
     */
    readonly open: (
      base: BaseUrl.BaseUrl,
      token: Option.Option<Redacted.Redacted>
    ) => Effect.Effect<Connection, ConnectionFailed, Scope.Scope>
  }
>() {}

/**
 * The service; settings that are not given are the `defaults`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Partial<Settings> = {}): Effect.Effect<Context.Tag.Service<Transport>> =>
  Effect.map(Timers.make, (timers) => {
    const settings: Settings = { ...defaults, ...options }
    const proxies = settings.direct ? undefined : Proxies.fromEnvironment()
    return {
      open: (base, token) => {
        const late = Effect.suspend(
          () =>
            new ConnectionFailed({
              url: base.href,
              reason: `no handshake within ${Duration.format(settings.handshakeTimeout)}${through(base, proxies)}`
            })
        )
        return timers
          .within(handshake(base, token, settings, proxies, timers), settings.handshakeTimeout, late)
          .pipe(Effect.tap((socket) => Effect.sync(() => socket.keepAlive())))
      }
    }
  })

/**
 * The service as a layer, with settings given here.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Partial<Settings>): Layer.Layer<Transport> => Layer.effect(Transport, make(options))

/**
 * Settings from the environment: MIROIR_HANDSHAKE_TIMEOUT, MIROIR_PING_INTERVAL and MIROIR_CLOSE_TIMEOUT, durations
 * such as `20 seconds`, and MIROIR_MAX_MISSED_PINGS.
 *
 * @since 0.1.0
 * @category layers
 */
export const config: Config.Config<Settings> = Config.all({
  handshakeTimeout: Config.duration("MIROIR_HANDSHAKE_TIMEOUT").pipe(
    Config.withDefault(defaults.handshakeTimeout),
    Config.withDescription("How long a WebSocket handshake may take.")
  ),
  pingInterval: Config.duration("MIROIR_PING_INTERVAL").pipe(
    Config.withDefault(defaults.pingInterval),
    Config.withDescription("Time between pings; `0 seconds` turns them off.")
  ),
  maxMissedPings: Config.integer("MIROIR_MAX_MISSED_PINGS").pipe(
    Config.withDefault(defaults.maxMissedPings),
    Config.withDescription("So many unanswered pings in a row break the connection.")
  ),
  closeTimeout: Config.duration("MIROIR_CLOSE_TIMEOUT").pipe(
    Config.withDefault(defaults.closeTimeout),
    Config.withDescription("How long a close may take before the socket is cut.")
  ),
  direct: Config.succeed(defaults.direct)
})

/**
 * The service as a layer, with the settings of `config`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = Layer.effect(Transport, Effect.flatMap(config, make))

const maxRedirects = 5

/** Opens a socket, and follows a few redirects: the token goes to the base URL's own origin only. */
const handshake = (
  base: BaseUrl.BaseUrl,
  token: Option.Option<Redacted.Redacted>,
  settings: Settings,
  proxies: Proxies.Proxies | undefined,
  timers: Timers.Timers
): Effect.Effect<Socket, ConnectionFailed, Scope.Scope> => {
  const start = BaseUrl.webSocket(base)
  const authorization = BaseUrl.authorization(base, token)
  const scrub = withoutCredential(authorization)
  const failed = (reason: string) => new ConnectionFailed({ url: base.href, reason })
  const follow = (address: string, redirects: number): Effect.Effect<Socket, ConnectionFailed, Scope.Scope> =>
    Effect.gen(function* () {
      const own = new URL(address).origin === new URL(start).origin
      const proxy = proxies?.(new URL(address))
      const way = proxy === undefined ? undefined : yield* tunnel(proxy, base, new URL(address))
      // The socket is the scope's before its handshake is awaited, so that no interruption can lose it.
      const socket = yield* acquireRelease(
        Effect.try({
          try: () => {
            const socket = connect(address, own ? authorization : Option.none(), settings, way)
            return new Socket(base.href, socket, scrub, settings, timers)
          },
          catch: () => failed("the token has a character that no header can hold")
        }),
        (socket) => socket.shutdown
      )
      const location = yield* socket.opened
      if (location === undefined) return socket
      if (redirects === 0) return yield* failed(`more than ${maxRedirects} redirects`)
      if (!URL.canParse(location, address)) return yield* failed("redirected to what is no URL")
      const next = new URL(location, address)
      next.protocol = next.protocol.replace(/^http/, "ws")
      if (!/^wss?:$/.test(next.protocol)) return yield* failed("redirected to what is no http(s) URL")
      // `ws` would send the one as credentials, and refuses the other.
      next.username = ""
      next.password = ""
      next.hash = ""
      return yield* follow(next.href, redirects - 1)
    })
  return follow(start, maxRedirects)
}

/** A connection through a proxy. It is the scope's from its beginning on, so that no interruption can lose it. */
const tunnel = (proxy: Proxies.Proxy, base: BaseUrl.BaseUrl, target: URL) =>
  Effect.gen(function* () {
    const made = Deferred.unsafeMake<NetSocket, ConnectionFailed>(FiberId.none)
    yield* Effect.acquireRelease(
      Effect.sync(() =>
        Proxies.tunnel(proxy, target, (tunnel) => {
          const failed = ({ reason }: { readonly reason: string }) => new ConnectionFailed({ url: base.href, reason })
          Deferred.unsafeDone(made, Either.mapLeft(tunnel, failed))
        })
      ),
      (cut) => Effect.sync(cut)
    )
    return yield* Deferred.await(made)
  })

const through = (base: BaseUrl.BaseUrl, proxies: Proxies.Proxies | undefined): string => {
  const proxy = proxies?.(new URL(BaseUrl.webSocket(base)))
  return proxy === undefined ? "" : ` through the proxy ${proxy.name}`
}

const connect = (
  address: string,
  authorization: Option.Option<Redacted.Redacted>,
  settings: Settings,
  way: NetSocket | undefined
): WebSocket => {
  // @types/ws lacks the last three. A zero means no limit; `closeTimeout` has ws cut a peer that ignores a close.
  const options: WebSocket.ClientOptions & Record<"closeTimeout" | "maxFragments" | "maxBufferedChunks", number> = {
    headers: Option.match(authorization, {
      onNone: () => ({}),
      onSome: (value) => ({ authorization: Redacted.value(value) })
    }),
    followRedirects: false,
    perMessageDeflate: false,
    maxPayload: 0,
    maxFragments: 0,
    maxBufferedChunks: 0,
    // A longer timer than this one, Node fires at once.
    closeTimeout: Math.min(Duration.toMillis(settings.closeTimeout), 2 ** 31 - 1)
  }
  if (way === undefined) return new WebSocket(address, options)
  const { hostname, protocol } = new URL(address)
  const host = hostname.replace(/^\[|\]$/g, "")
  const secured = () => connectTls({ socket: way, host, servername: isIP(host) === 0 ? host : "" })
  return new WebSocket(address, { ...options, createConnection: protocol === "wss:" ? secured : () => way })
}

/** A `ws` socket as a `Connection`, from before its handshake to its end. */
class Socket implements Connection {
  private listener: Listener | undefined
  private early: Array<string | undefined> = []
  private lost: (() => ConnectionLost) | undefined
  private closing = false
  private failure: string | undefined
  private readonly closed = Deferred.unsafeMake<void>(FiberId.none)
  private readonly handshake = Deferred.unsafeMake<string | undefined, ConnectionFailed>(FiberId.none)
  /** The handshake's end: nothing, or the location that it was redirected to. */
  readonly opened = Deferred.await(this.handshake)
  /** Pings sent since the last pong. */
  private unanswered = 0
  private stopPings: Timers.Cancel = constVoid

  constructor(
    private readonly url: string,
    private readonly socket: WebSocket,
    /** Takes the credential out of what the server says. */
    scrub: (text: string) => string,
    private readonly settings: Settings,
    private readonly timers: Timers.Timers
  ) {
    const answered = (answer: Effect.Effect<string | undefined, ConnectionFailed>) =>
      Deferred.unsafeDone(this.handshake, answer)
    // This listener stays for the socket's whole life: an error that nobody hears would end the process.
    socket.on("error", (error) => {
      this.failure ??= "code" in error ? networkReason(error) : undefined
      answered(new ConnectionFailed({ url, reason: this.failure ?? "the answer was no WebSocket handshake" }))
    })
    socket.once("unexpected-response", (request, response) => {
      const status = response.statusCode ?? 0
      const { location } = response.headers
      request.destroy()
      socket.terminate()
      answered(
        [301, 302, 303, 307, 308].includes(status) && location !== undefined
          ? Effect.succeed(location)
          : new ConnectionFailed({ url, status, reason: `the handshake was answered with ${status}` })
      )
    })
    socket.once("open", () => answered(Effect.succeed(undefined)))
    socket.on("message", (data, isBinary) => this.onMessage(data, isBinary))
    socket.on("pong", () => {
      this.unanswered = 0
    })
    socket.once("close", (code, reason) => {
      const { closing } = this
      this.end(() =>
        closing
          ? new ConnectionLost({ url, reason: "it was closed by us" })
          : new ConnectionLost({
              url,
              reason: code === 1006 && this.failure !== undefined ? this.failure : closeMeaning(code),
              closeCode: code,
              ...(reason.length === 0 ? {} : { closeReason: scrub(reason.toString("utf8")) })
            })
      )
      Deferred.unsafeDone(this.closed, Effect.void)
    })
  }

  send(text: string): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text)
  }

  listen(listener: Listener): void {
    this.listener = listener
    for (const text of this.early) listener.onFrame(text)
    this.early = []
    if (this.lost !== undefined) listener.onClose(this.lost)
  }

  close(): void {
    this.closing = true
    this.stopPings()
    if (this.socket.readyState === WebSocket.CONNECTING) this.socket.terminate()
    else this.socket.close(1000)
  }

  /** Pings until the connection is over or closing. */
  keepAlive(): void {
    const { maxMissedPings, pingInterval } = this.settings
    if (this.lost !== undefined || Duration.toMillis(pingInterval) === 0) return
    this.stopPings = this.timers.after(pingInterval, () => {
      if (this.unanswered >= maxMissedPings) {
        this.cut(
          `${maxMissedPings} pings in a row went unanswered; where a gateway drops them, raise or turn off pingInterval (MIROIR_PING_INTERVAL)`
        )
        return
      }
      if (this.socket.readyState === WebSocket.OPEN) {
        this.unanswered++
        // First is read what came while this process was busy: a write to a peer that has gone would lose its close frame.
        setImmediate(() => this.socket.ping())
      }
      this.keepAlive()
    })
  }

  /** Closes, and waits for it; cuts what takes too long. */
  readonly shutdown = Effect.suspend(() => {
    this.close()
    const cancel = this.timers.after(this.settings.closeTimeout, () => this.socket.terminate())
    return Effect.map(Deferred.await(this.closed), cancel)
  })

  /** Ends the connection for the listener now, and cuts the socket. */
  private cut(reason: string): void {
    this.end(() => new ConnectionLost({ url: this.url, reason }))
    this.socket.terminate()
  }

  private end(error: () => ConnectionLost): void {
    if (this.lost !== undefined) return
    this.stopPings()
    this.lost = error
    this.listener?.onClose(error)
  }

  private onMessage(data: WebSocket.RawData, isBinary: boolean): void {
    if (this.lost !== undefined) return
    const bytes = Buffer.isBuffer(data) ? data : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)])
    if (bytes.length > constants.MAX_STRING_LENGTH) {
      this.cut(`a message of ${bytes.length} bytes is too long for a text`)
      return
    }
    const text = isBinary && !isUtf8(bytes) ? undefined : bytes.toString("utf8")
    if (this.listener === undefined) this.early.push(text)
    else this.listener.onFrame(text)
  }
}

/** RFC 6455, section 7.4.1, and the registry of close codes it set up. */
const closeMeanings: Readonly<Record<number, string>> = {
  1000: "the server closed it",
  1001: "the server is going away",
  1002: "the server saw a protocol error",
  1003: "the server cannot take such data",
  1005: "the server closed it without a code",
  1006: "it was cut without a close frame",
  1007: "a frame was no UTF-8",
  1008: "the server closed it for its policy",
  1009: "a message was too big for the server",
  1011: "the server failed, or its keepalive ping went unanswered",
  1012: "the server restarts",
  1013: "the server is overloaded; try again later"
}

const closeMeaning = (code: number): string => {
  const meaning = closeMeanings[code]
  return meaning === undefined ? `the server closed it with code ${code}` : `${meaning} (${code})`
}
