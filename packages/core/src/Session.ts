/**
 * A session: a container that is ours for as long as its socket is open, and the
 * episodes that are run on it, one after the other.
 *
 * @since 0.1.0
 */

import { randomUUID } from "node:crypto"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Tracer from "effect/Tracer"
import type * as Dialect from "./Dialect.js"
import type { EpisodeRecord } from "./EpisodeRecord.js"
import { addFinalizer } from "./internal/finalizer.js"
import * as Json from "./Json.js"
import {
  type ConnectionLost,
  type ExchangeError,
  type FinishError,
  InvalidArguments,
  NoEpisode,
  type StepError,
  type UnexpectedReply
} from "./MiroirError.js"
import * as Protocol from "./Protocol.js"
import type { Ask, Exchange } from "./SessionExchange.js"

/**
 * What a reset may say beside the task.
 *
 * @since 0.1.0
 * @category models
 */
export interface ResetOptions {
  /** The env's limit on the episode, in seconds, of which it gets whole ones; default null, the env's own. */
  readonly maxSeconds?: number | null | undefined
  /** Whether somebody answers for the coworkers; default false. */
  readonly coworkers?: boolean | undefined
  /** The version of the task, `Task.task_hash`, for an env whose records are made here; Miroir envs tell it themselves. */
  readonly taskHash?: string | undefined
  /**
   * What else the task has its reset say, `Task.reset`, for envs that take such keys (OpenEnv's `seed`, `split` and
   * `index`); Miroir envs get none of it. A key that is null leaves that key out: `{ task_id: null }` sends no task_id.
   */
  readonly extra?: Json.JsonObject | undefined
}

/**
 * What `finish` gives.
 *
 * @since 0.1.0
 * @category models
 */
export interface Finished {
  /** Null where the rollout is void: the env could not grade it, or gave no finite number. */
  readonly reward: number | null
  /** By Python's idea of truth; false where the record does not tell. */
  readonly success: boolean
  /** The record's `metadata`. */
  readonly metadata: Json.JsonObject
  /** All that the env says of the episode, to be saved by `Traces`. */
  readonly record: EpisodeRecord
}

/**
 * The operations of a session. One exchange is under way at a time; callers queue in the order they came.
 *
 * A call that is interrupted while it queues has sent nothing. One that is interrupted, or times out, after its frame
 * was sent breaks the session: every later call fails with `ConnectionLost`. No exchange has a deadline unless the
 * caller sets one, with `Effect.timeout` around the call.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** The container's base URL. */
  readonly url: string
  /** The `data` of the reply to the `state` that opened the session. */
  readonly opened: Json.Json
  /**
   * The episode, from a reset that succeeded to the beginning of the next; it outlives done and finish.
   */
  readonly episodeId: Effect.Effect<Option.Option<string>>
  /** Begins an episode of a task and gives its first observation. */
  readonly reset: (taskId: string, options?: ResetOptions) => Effect.Effect<Json.Json, ExchangeError>
  /**
   * Whether the env has said that the episode is over: by the last step that it answered, or, on an OpenEnv server, by its
   * answer to the reset. Nothing is sent; false where there is no episode.
   */
  readonly isOver: Effect.Effect<boolean>
  /**
   * Calls a tool. The arguments are a JSON object, or the text of one, which goes to the env digit by digit. A step
   * after done is still sent.
   */
  readonly step: (toolName: string, args?: Json.JsonObject | string) => Effect.Effect<Protocol.StepResult, StepError>
  /** The coworkers who are to speak now; none, and nothing is sent, where the env knows of no coworkers. */
  readonly coworkers: Effect.Effect<ReadonlyArray<Protocol.CoworkerTurn>, ExchangeError>
  /**
   * Speaks for a coworker, and gives the status that the env answers with. Where `episodeId` is given and that episode
   * has been replaced by the time the call's turn comes, or where the env knows of no coworkers, nothing is sent and the
   * result is none.
   */
  readonly coworkerReply: (
    coworker: string,
    text: string,
    options?: { readonly episodeId?: string | undefined }
  ) => Effect.Effect<Option.Option<number | null>, ExchangeError>
  /** The env's own state. */
  readonly state: Effect.Effect<Json.JsonObject, ExchangeError>
  /**
   * Ends the episode where it has not ended, and gets its reward and record. It may be called again, also after a
   * failure that left the session sound.
   */
  readonly finish: Effect.Effect<Finished, FinishError>
  /** Whether the env has always a tool `submit`, listed or not. */
  readonly hasSubmit: boolean
  /** The content of the tool message that a model is shown of a step's observation: a text, or content parts. */
  readonly show: (observation: Json.Json) => string | ReadonlyArray<Json.JsonObject>
  /** The first message to a policy that is to play an episode, of its task and of what the reset answered. */
  readonly prompt: (opening: Dialect.Opening) => string
  /** The failure that every call meets from now on; none while the session is sound. */
  readonly broken: Effect.Effect<Option.Option<ConnectionLost | UnexpectedReply>>
}

/**
 * A session as a service, for programs whose parts all play on the same one. Layers of `Leasing` do not give it.
 *
 * @since 0.1.0
 * @category services
 */
export class Session extends Context.Tag("@miroir-effect/core/Session")<Session, Service>() {}

/** An episode whose reset succeeded. */
interface Current {
  readonly id: string
  readonly episode: Dialect.Episode
}

/**
 * A session over an open exchange. `opened` is what the opening `state` was answered with.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function* (
  exchange: Exchange,
  dialect: Dialect.Dialect,
  opened: Json.Json
): Effect.fn.Return<Service, never, Scope.Scope> {
  const { url } = exchange
  const clock = yield* Effect.clock
  let current: Current | undefined
  let span: Tracer.Span | undefined
  /** What spans and logs are annotated with. */
  let annotations: Readonly<Record<string, string>> = { container: url }

  const endSpan = (exit: Exit.Exit<unknown, unknown>): void => {
    if (span?.status._tag === "Started") span.end(clock.unsafeCurrentTimeNanos(), exit)
  }
  yield* addFinalizer(
    Effect.flatMap(
      exchange.broken,
      Option.match({
        onNone: () => Effect.sync(() => endSpan(Exit.void)),
        onSome: (error) => {
          endSpan(Exit.fail(error))
          return Effect.annotateLogs(Effect.logDebug(error.message), annotations)
        }
      })
    )
  )

  const state: Ask<Json.JsonObject> = {
    request: Protocol.state,
    decode: ({ data }) => Protocol.decodeState(data)
  }
  const coworkers: Ask<ReadonlyArray<Protocol.CoworkerTurn>> = {
    request: Protocol.coworkers,
    decode: ({ data }) => Protocol.decodeCoworkers(data)
  }
  /** What is known without asking. */
  const unlessBroken = <A>(value: A): Effect.Effect<A, ConnectionLost | UnexpectedReply> =>
    Effect.flatMap(
      exchange.broken,
      Option.match({ onNone: () => Effect.succeed(value), onSome: (error) => Effect.fail(error) })
    )

  return {
    url,
    opened,
    broken: exchange.broken,
    hasSubmit: dialect.hasSubmit,
    show: dialect.show,
    prompt: dialect.prompt,
    episodeId: Effect.sync(() => Option.fromNullable(current?.id)),
    isOver: Effect.sync(() => current?.episode.isOver() ?? false),

    reset: (taskId, { coworkers = false, extra = {}, maxSeconds = null, taskHash } = {}) =>
      exchange.hold((ask) =>
        Effect.gen(function* () {
          current = undefined
          endSpan(Exit.void)
          const id = yield* Effect.sync(() => randomUUID().replaceAll("-", ""))
          const episode = dialect.episode(url, {
            taskId,
            taskHash,
            episodeId: id,
            maxSeconds: maxSeconds === null ? null : Math.ceil(maxSeconds),
            coworkers,
            extra
          })
          annotations = { container: url, task_id: taskId, episode_id: id }
          span = yield* Effect.makeSpan("miroir.episode", { captureStackTrace: false, attributes: annotations })
          exchange.watchAs(span, annotations)
          const { reset } = episode
          return yield* ask({
            ...reset,
            decode: (reply) =>
              Either.map(reset.decode(reply), (observation) => {
                current = { id, episode }
                return observation
              })
          }).pipe(Effect.tapErrorCause((cause) => Effect.sync(() => endSpan(Exit.failCause(cause)))))
        })
      ),

    step: (toolName, args = {}) => {
      const text = argumentsText(toolName, args)
      return Either.isLeft(text)
        ? Effect.fail(text.left)
        : exchange.askIf("step", () =>
            current === undefined
              ? Either.left(new NoEpisode({ url }))
              : Either.right(current.episode.step(toolName, text.right))
          )
    },

    coworkers: dialect.hasCoworkers ? exchange.ask(coworkers) : unlessBroken([]),

    coworkerReply: (coworker, text, options = {}) => {
      const reply: Ask<Option.Option<number | null>> = {
        request: Protocol.coworkerReply({ coworker, text }),
        decode: ({ data }) => Either.map(Protocol.decodeCoworkerReply(data), Option.some)
      }
      if (!dialect.hasCoworkers) return unlessBroken(Option.none())
      const { episodeId } = options
      return exchange
        .askIf("coworker_reply", () =>
          episodeId === undefined || current?.id === episodeId ? Either.right(reply) : Either.left(new Replaced())
        )
        .pipe(Effect.catchTag("Replaced", () => Effect.succeedNone))
    },

    state: exchange.ask(state),

    finish: exchange.hold((ask) =>
      Effect.gen(function* () {
        if (current === undefined) return yield* new NoEpisode({ url })
        const record = yield* current.episode.finish(ask)
        endSpan(Exit.void)
        return { reward: record.reward, success: record.success, metadata: record.metadata, record }
      })
    )
  }
})

/** The failure of a reply for an episode that has been replaced; it never leaves this module. */
class Replaced extends Data.TaggedError("Replaced") {}

const argumentsText = (tool: string, args: Json.JsonObject | string): Either.Either<string, InvalidArguments> => {
  const invalid = (reason: string) => Either.left(new InvalidArguments({ tool, reason }))
  if (typeof args !== "string") {
    return Either.try({
      try: () => Json.stringify(args),
      catch: () => new InvalidArguments({ tool, reason: "they contain themselves" })
    })
  }
  const parsed = Json.parse(args)
  if (Either.isLeft(parsed)) return invalid(parsed.left)
  return Json.isObject(parsed.right) ? Either.right(escaped(args)) : invalid("it is another JSON value")
}

/** UTF-8 has no half of a surrogate pair, so that one would arrive as another character; in JSON it can stand escaped. */
const escaped = (text: string): string =>
  text.isWellFormed() ? text : text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`)
