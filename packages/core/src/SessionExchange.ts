/**
 * The exchange: a frame out, its reply in, one at a time over one connection.
 * Callers queue in the order they came; what breaks the pairing of frames and
 * replies breaks the exchange for good.
 *
 * An exchange is the hot path of every rollout, so that it is one `Effect.async`
 * over plain callbacks: no queue, no race, no timer where nobody set one.
 *
 * @since 0.1.0
 */

import type * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type * as Tracer from "effect/Tracer"
import * as BaseUrl from "./BaseUrl.js"
import { acquireRelease } from "./internal/finalizer.js"
import { withoutCredential } from "./internal/http.js"
import { ifTraced } from "./internal/ifTraced.js"
import { type ConnectionFailed, ConnectionLost, EnvError, type ExchangeError, UnexpectedReply } from "./MiroirError.js"
import * as Protocol from "./Protocol.js"
import * as Telemetry from "./Telemetry.js"
import * as Transport from "./Transport.js"

/**
 * One question to the env: the frame, and how its reply is read. What `decode` sets aside of a reply it does in the
 * moment the reply arrives, so that an interruption can't part the two. Where the reply is not what was asked for, the left
 * side says in a few words why; or it is the loss of a connection that is up but leads nowhere any more. Either breaks the
 * exchange.
 *
 * @since 0.1.0
 * @category models
 */
export interface Ask<A> {
  readonly request: Protocol.Request
  readonly decode: (reply: Protocol.Reply) => Either.Either<A, string | ConnectionLost>
  /** What an error frame means here: an answer all the same, the failure that it is if not given, or the connection's loss. */
  readonly onError?: (error: EnvError) => Either.Either<A, EnvError | ConnectionLost>
}

/**
 * Asks one question.
 *
 * @since 0.1.0
 * @category models
 */
export type AskFn = <A>(ask: Ask<A>) => Effect.Effect<A, ExchangeError>

/**
 * A connection on which questions are asked.
 *
 * @since 0.1.0
 * @category models
 */
export interface Exchange {
  /** The container's base URL. */
  readonly url: string
  /**
   * Waits for its turn, then asks. Interrupted while it queues, it has sent nothing; interrupted after its frame was
   * sent, it breaks the exchange, since the late reply would answer the next question.
   */
  readonly ask: AskFn
  /** As `ask`, with the question made in the moment its turn comes; where none is made, the left side is the failure. */
  readonly askIf: <A, E>(
    type: Protocol.RequestType,
    make: () => Either.Either<Ask<A>, E>
  ) => Effect.Effect<A, E | ExchangeError>
  /** Waits for its turn and keeps it for all that `body` asks. */
  readonly hold: <A, E, R>(body: (ask: AskFn) => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** The failure that every question meets from now on, where there is one. */
  readonly broken: Effect.Effect<Option.Option<ConnectionLost | UnexpectedReply>>
  /** Sets the span that exchanges are children of, and what their spans are annotated with. */
  readonly watchAs: (span: Tracer.AnySpan | undefined, attributes: Readonly<Record<string, unknown>>) => void
}

/**
 * Opens connections to containers, on which one question is asked at a time.
 *
 * @since 0.1.0
 * @category services
 */
export class SessionExchange extends Context.Tag("@miroir-effect/core/SessionExchange")<
  SessionExchange,
  {
    /** Opens a connection for exchanges; it is closed with the scope. */
    readonly open: (
      base: BaseUrl.BaseUrl,
      token: Option.Option<Redacted.Redacted>
    ) => Effect.Effect<Exchange, ConnectionFailed, Scope.Scope>
  }
>() {}

/**
 * What all exchanges have in common.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** How long a frame that nobody asked for may be followed by a close, which then explains it. Default 250 ms. */
  readonly strayGrace: Duration.DurationInput
}

/**
 * The settings that hold where none are given.
 *
 * @since 0.1.0
 * @category settings
 */
export const defaults: Settings = { strayGrace: Duration.millis(250) }

/**
 * The service, on a `Transport`; settings that are not given are the `defaults`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Partial<Settings> = {}
): Effect.Effect<Context.Tag.Service<SessionExchange>, never, Transport.Transport> =>
  Effect.map(Transport.Transport, (transport) => {
    const settings: Settings = { ...defaults, ...options }
    return {
      open: (base, token) =>
        Effect.flatMap(Effect.all([transport.open(base, token), Effect.clock]), ([connection, clock]) =>
          acquireRelease(
            Effect.sync(
              () =>
                new LiveExchange(
                  base.href,
                  connection,
                  clock,
                  withoutCredential(BaseUrl.authorization(base, token)),
                  settings
                )
            ),
            (exchange) => exchange.shutdown
          )
        )
    }
  })

/**
 * The service as a layer, with the `defaults`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<SessionExchange, never, Transport.Transport> = Layer.effect(SessionExchange, make())

/**
 * What a reply, or an error frame, is to who asked. Any failure but an `EnvError` breaks the exchange.
 *
 * @since 0.1.0
 * @category replies
 */
export const readAnswer = <A>(
  url: string,
  ask: Ask<A>,
  reply: Either.Either<Protocol.Reply, ExchangeError>
): Either.Either<A, ExchangeError> => {
  if (Either.isRight(reply)) {
    return Either.mapLeft(ask.decode(reply.right), (left) =>
      typeof left === "string" ? new UnexpectedReply({ url, request: ask.request.type, reason: left }) : left
    )
  }
  const { left } = reply
  return left._tag === "EnvError" && ask.onError !== undefined ? ask.onError(left) : Either.left(left)
}

/** The code of a failure, for the span it ends; a failure that is the caller's own may have none. */
const annotateCode = (error: unknown): Effect.Effect<void> =>
  typeof error === "object" && error !== null && "code" in error
    ? Effect.annotateCurrentSpan("code", error.code)
    : Effect.void

type Broken = ConnectionLost | UnexpectedReply

/** A caller's turn: `start` is called once, when it comes. */
interface Turn {
  start: () => void
}

/** The question whose reply is awaited. */
interface Pending {
  readonly type: Protocol.RequestType
  readonly since: bigint
  readonly onReply: (reply: Either.Either<Protocol.Reply, ExchangeError>) => void
}

class LiveExchange implements Exchange {
  /** The failure of all questions from now on, made when one first meets it: after a scope's end none does. */
  private broke: (() => Broken) | undefined
  private pending: Pending | undefined
  /** A frame that nobody asked for, until it is known whether the socket closes behind it. */
  private stray: string | undefined
  /** Whether nothing was asked yet: a stray error is then the answer to the opening question. */
  private fresh = true
  /** The last frame, where it was an error: a close behind it was announced by it. */
  private lastError: EnvError | undefined
  private readonly over = Deferred.unsafeMake<void>(FiberId.none)
  private current: Turn | undefined
  private readonly queue: Array<Turn> = []
  private advancing = false
  private span: Tracer.AnySpan | undefined
  private attributes: Readonly<Record<string, unknown>>

  constructor(
    readonly url: string,
    private readonly connection: Transport.Connection,
    private readonly clock: Clock.Clock,
    /** Takes the credential, which a server may echo, out of what goes into an error. */
    private readonly scrub: (text: string) => string,
    private readonly settings: Settings
  ) {
    this.attributes = { container: url }
    connection.listen({ onFrame: (text) => this.onFrame(text), onClose: (error) => this.onClose(error) })
  }

  readonly ask: AskFn = (ask) => this.askIf(ask.request.type, () => Either.right(ask))

  readonly askIf = <A, E>(
    type: Protocol.RequestType,
    make: () => Either.Either<Ask<A>, E>
  ): Effect.Effect<A, E | ExchangeError> =>
    this.watched(
      type,
      Effect.async<A, E | ExchangeError>((resume) => {
        const finish = (answer: Effect.Effect<A, E | ExchangeError>) => {
          resume(answer)
          this.leave(turn)
        }
        const turn: Turn = {
          start: () => {
            let ask: Either.Either<Ask<A>, E>
            try {
              ask = make()
            } catch (defect) {
              // What a dialect throws is a defect of who asks; the queue goes on.
              finish(Effect.die(defect))
              return
            }
            if (Either.isLeft(ask)) finish(Effect.fail(ask.left))
            else this.send(ask.right, finish)
          }
        }
        this.enter(turn)
        return Effect.sync(() => {
          if (this.current === turn) this.break(this.interrupted(type))
          this.leave(turn)
        })
      })
    )

  readonly hold: Exchange["hold"] = (body) =>
    Effect.uninterruptibleMask((restore) => {
      const turn: Turn = { start: () => {} }
      const leave = Effect.sync(() => this.leave(turn))
      const acquire = Effect.async<void>((resume) => {
        turn.start = () => resume(Effect.void)
        this.enter(turn)
      })
      // An interruption may fall between the granting and its being noticed: the turn is given back all the same.
      return restore(acquire).pipe(
        Effect.onInterrupt(() => leave),
        Effect.andThen(Effect.ensuring(restore(body(this.askInTurn)), leave))
      )
    })

  readonly broken = Effect.sync(() => Option.fromNullable(this.broke?.()))

  /** No question is answered from here on; the connection is closed by its own finalizer. */
  readonly shutdown = Effect.sync(() => {
    this.pendingFails(() => new ConnectionLost({ url: this.url, reason: "the session's scope was closed" }))
  })

  watchAs(span: Tracer.AnySpan | undefined, attributes: Readonly<Record<string, unknown>>): void {
    this.span = span
    this.attributes = attributes
  }

  /** Asks for a caller who holds the turn. */
  private readonly askInTurn: AskFn = <A>(ask: Ask<A>) =>
    this.watched(
      ask.request.type,
      Effect.async<A, ExchangeError>((resume) => {
        let answered = false
        this.send(ask, (answer) => {
          answered = true
          resume(answer)
        })
        // No reply is late that has come.
        return Effect.sync(() => {
          if (!answered) this.break(this.interrupted(ask.request.type))
        })
      })
    )

  private watched<A, E>(type: Protocol.RequestType, self: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return ifTraced(self, (self) =>
      Effect.withSpan(Effect.tapError(self, annotateCode), "miroir.exchange", {
        captureStackTrace: false,
        kind: "client",
        parent: this.span,
        attributes: { ...this.attributes, type }
      })
    )
  }

  private enter(turn: Turn): void {
    this.queue.push(turn)
    this.advance()
  }

  private leave(turn: Turn): void {
    if (this.current === turn) {
      this.current = undefined
      this.advance()
    } else {
      const place = this.queue.indexOf(turn)
      if (place >= 0) this.queue.splice(place, 1)
    }
  }

  /** A loop, not a recursion: on a broken exchange every turn is over as soon as it starts. */
  private advance(): void {
    if (this.advancing) return
    this.advancing = true
    while (this.current === undefined) {
      this.current = this.queue.shift()
      if (this.current === undefined) break
      this.current.start()
    }
    this.advancing = false
  }

  private send<A>(ask: Ask<A>, done: (answer: Effect.Effect<A, ExchangeError>) => void): void {
    if (this.broke !== undefined) {
      done(Effect.fail(this.broke()))
      return
    }
    const { request } = ask
    const onReply: Pending["onReply"] = (reply) => done(this.read(ask, reply))
    if (this.stray !== undefined) {
      const early = this.fresh ? this.decodeReply(request.type, this.stray) : undefined
      if (early !== undefined && Either.isLeft(early)) onReply(early)
      else done(this.settleStray(request))
      return
    }
    this.fresh = false
    this.pending = { type: request.type, since: this.clock.unsafeCurrentTimeNanos(), onReply }
    this.connection.send(request.text)
  }

  private read<A>(ask: Ask<A>, reply: Either.Either<Protocol.Reply, ExchangeError>): Effect.Effect<A, ExchangeError> {
    let answer: Either.Either<A, ExchangeError>
    try {
      answer = readAnswer(this.url, ask, reply)
    } catch (defect) {
      // As above; thrown on, it would end the process, since this runs in the socket's callback.
      return Effect.die(defect)
    }
    if (Either.isRight(answer)) return Effect.succeed(answer.right)
    if (answer.left._tag !== "EnvError") this.break(answer.left)
    return Effect.fail(answer.left)
  }

  private decodeReply(type: Protocol.RequestType, text: string): ReturnType<typeof Protocol.decodeReply> {
    const reply = Protocol.decodeReply(this.url, type, text)
    if (Either.isRight(reply) || reply.left._tag !== "EnvError") return reply
    const { code, details, reason, url } = reply.left
    return Either.left(
      new EnvError({
        url,
        code: this.scrub(code),
        reason: this.scrub(reason),
        ...(details === undefined ? {} : { details: this.scrub(details) })
      })
    )
  }

  private onFrame(text: string | undefined): void {
    if (this.broke !== undefined) return
    const { pending } = this
    if (pending === undefined) {
      this.stray ??= text ?? ""
      return
    }
    this.pending = undefined
    const nanos = this.clock.unsafeCurrentTimeNanos() - pending.since
    Telemetry.exchange[pending.type].unsafeUpdate(Number(nanos) / 1e9, [])
    const reply =
      text === undefined
        ? Either.left(
            new UnexpectedReply({ url: this.url, request: pending.type, reason: "a binary frame that is no UTF-8" })
          )
        : this.decodeReply(pending.type, text)
    this.lastError = undefined
    if (Either.isLeft(reply)) {
      if (reply.left._tag === "EnvError") this.lastError = reply.left
      else this.break(reply.left)
    }
    pending.onReply(reply)
  }

  private onClose(lost: () => ConnectionLost): void {
    if (this.broke !== undefined) return
    const error = lost()
    const stray = this.stray === undefined ? undefined : this.decodeReply("state", this.stray)
    const announced =
      stray !== undefined && Either.isLeft(stray) && stray.left._tag === "EnvError" ? stray.left : this.lastError
    this.break(
      announced === undefined
        ? error
        : new ConnectionLost({
            url: error.url,
            reason: error.reason,
            ...(error.closeCode === undefined ? {} : { closeCode: error.closeCode }),
            ...(error.closeReason === undefined ? {} : { closeReason: error.closeReason }),
            announced: { code: announced.code, reason: announced.reason }
          })
    )
  }

  /** Waits a moment for the close that may stand behind a frame that nobody asked for. */
  private settleStray(request: Protocol.Request): Effect.Effect<never, ExchangeError> {
    return Deferred.await(this.over).pipe(
      Effect.timeoutOption(this.settings.strayGrace),
      Effect.andThen(
        Effect.suspend(() => {
          const error = new UnexpectedReply({
            url: this.url,
            request: request.type,
            reason: "a frame had come that nobody asked for"
          })
          this.break(error)
          return Effect.fail(this.broke?.() ?? error)
        })
      )
    )
  }

  private interrupted(type: Protocol.RequestType): ConnectionLost {
    return new ConnectionLost({
      url: this.url,
      reason: `closed by us, since a ${type} was interrupted or timed out before its reply`
    })
  }

  /** Ends the exchange for good: for who waits, for who queues and for who comes, and on the wire. */
  private break(error: Broken): void {
    if (this.broke !== undefined) return
    Telemetry.connectionsLost.unsafeUpdate(1, [])
    this.pendingFails(() => error)
    this.connection.close()
  }

  private pendingFails(make: () => Broken): void {
    if (this.broke !== undefined) return
    let made: Broken | undefined
    const error = () => {
      made ??= make()
      return made
    }
    this.broke = error
    Deferred.unsafeDone(this.over, Effect.void)
    const { pending } = this
    this.pending = undefined
    pending?.onReply(Either.left(error()))
  }
}
