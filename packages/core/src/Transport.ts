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
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { WebSocket } from "ws"
import * as BaseUrl from "./BaseUrl.js"
import { withoutCredential } from "./internal/http.js"
import { networkReason } from "./internal/networkReason.js"
import { ConnectionFailed, ConnectionLost } from "./MiroirError.js"

/**
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
}

/**
 * @since 0.1.0
 * @category settings
 */
export const defaults: Settings = {
  handshakeTimeout: Duration.seconds(30),
  pingInterval: Duration.seconds(20),
  maxMissedPings: 3,
  closeTimeout: Duration.seconds(2)
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
  /** The connection is over; called once, and last. */
  readonly onClose: (error: ConnectionLost) => void
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
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Partial<Settings> = {}): Context.Tag.Service<Transport> => {
  const settings: Settings = { ...defaults, ...options }
  return {
    open: (base, token) =>
      handshake(base, token, settings).pipe(
        Effect.timeoutFail({
          duration: settings.handshakeTimeout,
          onTimeout: () =>
            new ConnectionFailed({
              url: base.href,
              reason: `no handshake within ${Duration.format(settings.handshakeTimeout)}`
            })
        }),
        Effect.tap((socket) => keepAlive(socket, settings))
      )
  }
}

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Partial<Settings>): Layer.Layer<Transport> => Layer.succeed(Transport, make(options))

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
  )
})

/**
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = Layer.effect(Transport, Effect.map(config, make))

const maxRedirects = 5

/** Opens a socket, and follows a few redirects: the token goes to the base URL's own origin only. */
const handshake = (
  base: BaseUrl.BaseUrl,
  token: Option.Option<Redacted.Redacted>,
  settings: Settings
): Effect.Effect<Socket, ConnectionFailed, Scope.Scope> => {
  const start = BaseUrl.webSocket(base)
  const authorization = BaseUrl.authorization(base, token)
  const scrub = withoutCredential(authorization)
  const failed = (reason: string) => new ConnectionFailed({ url: base.href, reason })
  const follow = (address: string, redirects: number): Effect.Effect<Socket, ConnectionFailed, Scope.Scope> =>
    Effect.gen(function* () {
      const own = new URL(address).origin === new URL(start).origin
      // The socket is the scope's before its handshake is awaited, so that no interruption can lose it.
      const socket = yield* Effect.acquireRelease(
        Effect.try({
          try: () => new Socket(base.href, connect(address, own ? authorization : Option.none(), settings), scrub),
          catch: () => failed("the token has a character that no header can hold")
        }),
        (socket) => socket.shutdown(settings.closeTimeout)
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

const connect = (address: string, authorization: Option.Option<Redacted.Redacted>, settings: Settings): WebSocket => {
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
  return new WebSocket(address, options)
}

/** A `ws` socket as a `Connection`, from before its handshake to its end. */
class Socket implements Connection {
  private listener: Listener | undefined
  private early: Array<string | undefined> = []
  private lost: ConnectionLost | undefined
  private closing = false
  private failure: string | undefined
  private readonly closed = Deferred.unsafeMake<void>(FiberId.none)
  private readonly handshake = Deferred.unsafeMake<string | undefined, ConnectionFailed>(FiberId.none)
  /** The handshake's end: nothing, or the location that it was redirected to. */
  readonly opened = Deferred.await(this.handshake)
  /** Pings sent since the last pong. */
  unanswered = 0

  constructor(
    readonly url: string,
    private readonly socket: WebSocket,
    /** Takes the credential out of what the server says. */
    scrub: (text: string) => string
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
      this.end(
        this.closing
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
    if (this.socket.readyState === WebSocket.CONNECTING) this.socket.terminate()
    else this.socket.close(1000)
  }

  ping(): void {
    if (this.socket.readyState !== WebSocket.OPEN) return
    this.unanswered++
    this.socket.ping()
  }

  /** Ends the connection for the listener now, and cuts the socket. */
  cut(error: ConnectionLost): void {
    this.end(error)
    this.socket.terminate()
  }

  shutdown(timeout: Duration.DurationInput): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.close()
      // Beside the waiting, not in a race with it: a race takes two fibers, and this stands between two leases.
      const cut = Effect.delay(
        Effect.sync(() => this.socket.terminate()),
        timeout
      )
      return Effect.flatMap(Effect.fork(Effect.interruptible(cut)), (timer) =>
        Effect.zipRight(Deferred.await(this.closed), Fiber.interrupt(timer))
      )
    })
  }

  private end(error: ConnectionLost): void {
    if (this.lost !== undefined) return
    this.lost = error
    this.listener?.onClose(error)
  }

  private onMessage(data: WebSocket.RawData, isBinary: boolean): void {
    if (this.lost !== undefined) return
    const bytes = Buffer.isBuffer(data) ? data : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)])
    if (bytes.length > constants.MAX_STRING_LENGTH) {
      this.cut(
        new ConnectionLost({ url: this.url, reason: `a message of ${bytes.length} bytes is too long for a text` })
      )
      return
    }
    const text = isBinary && !isUtf8(bytes) ? undefined : bytes.toString("utf8")
    if (this.listener === undefined) this.early.push(text)
    else this.listener.onFrame(text)
  }
}

/** Pings for as long as the scope lasts. */
const keepAlive = (socket: Socket, settings: Settings): Effect.Effect<void, never, Scope.Scope> => {
  const interval = Duration.decode(settings.pingInterval)
  if (Duration.toMillis(interval) === 0 || !Duration.isFinite(interval)) return Effect.void
  const beat = Effect.sync(() => {
    if (socket.unanswered < settings.maxMissedPings) return socket.ping()
    socket.cut(
      new ConnectionLost({
        url: socket.url,
        reason: `${settings.maxMissedPings} pings in a row went unanswered; where a gateway drops them, raise or turn off pingInterval (MIROIR_PING_INTERVAL)`
      })
    )
  })
  return beat.pipe(Effect.delay(interval), Effect.forever, Effect.forkScoped, Effect.asVoid)
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
