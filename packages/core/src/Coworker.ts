/**
 * The coworkers of a task: simulated people for whom a chat model speaks, behind an OpenAI-compatible
 * `chat/completions`.
 *
 * @since 0.1.0
 */

import type * as HttpClient from "@effect/platform/HttpClient"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Schedule from "effect/Schedule"
import type { Fault } from "./internal/chatAnswer.js"
import * as chat from "./internal/chatCompletions.js"
import { readText } from "./internal/chatMessage.js"
import { counted } from "./internal/text.js"
import * as Json from "./Json.js"
import { type AnswerError, CoworkerFailed, type InvalidSetting, type InvalidUrls } from "./MiroirError.js"
import type { ChatMessage } from "./Protocol.js"
import type * as Session from "./Session.js"

/**
 * The model, and how patiently it is asked.
 *
 * @since 0.1.0
 * @category models
 */
export type Settings = chat.Settings

/**
 * Three attempts in all, the second after about 0.5 s and the third after about 1 s more, with jitter. A `Retry-After`
 * lengthens a pause. Failed transport, timeouts and the statuses 408, 409, 429 and 5xx are repeated, nothing else,
 * unless the server's `x-should-retry` says otherwise.
 *
 * @since 0.1.0
 * @category models
 */
export const defaultRetry: Schedule.Schedule<unknown> = chat.defaultRetry

/**
 * The chat model that speaks for the simulated coworkers of a task.
 *
 * @since 0.1.0
 * @category services
 */
export class Coworker extends Context.Tag("@miroir-effect/core/Coworker")<
  Coworker,
  {
    /** The model's name. */
    readonly model: string

    /** What the model says next in a chat: never blank, and as it came, less a leading block of reasoning. */
    readonly complete: (messages: ReadonlyArray<ChatMessage>) => Effect.Effect<string, CoworkerFailed>

    /**
     * Lets the model speak for all coworkers whose turn it is, one after the other, and gives the number of turns that
     * were answered. The session's queue is free while the model thinks: where the episode is replaced meanwhile, the
     * text is dropped, the turns left are not answered, and the number is the smaller for it.
     */
    readonly answerCoworkers: (session: Session.Service) => Effect.Effect<number, AnswerError>
  }
>() {}

/**
 * The service, on an `HttpClient`. Fails with `InvalidUrls` where the base URL is no http(s) URL with a host,
 * and with `InvalidSetting` where a number is none that a model can have.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function* (settings: Settings) {
  const model = yield* chat.make(settings, "coworker")

  const complete = (messages: ReadonlyArray<ChatMessage>): Effect.Effect<string, CoworkerFailed> =>
    Effect.mapError(
      model.complete({ messages }, readText),
      ({ detail, fault, reason, status }) =>
        new CoworkerFailed({
          url: model.url,
          model: model.model,
          reason,
          ...(status === undefined ? {} : { status }),
          detail,
          // A chat that is too long is one episode's; what else no repeat mends would meet all of them.
          ...(fault === undefined || fault === "context" ? {} : { advice: advice[fault] })
        })
    )

  return Coworker.of({ model: settings.model, complete, answerCoworkers: answeringWith(complete) })
})

/**
 * `answerCoworkers` with any way to complete a chat.
 *
 * @since 0.1.0
 * @category constructors
 */
export const answeringWith = (
  complete: Context.Tag.Service<Coworker>["complete"]
): Context.Tag.Service<Coworker>["answerCoworkers"] =>
  Effect.fnUntraced(function* (session: Session.Service) {
    const before = yield* session.episodeId
    const turns = yield* session.coworkers
    const episodeId = yield* session.episodeId
    // None before may be a reset that had the queue then; the turns are its episode's.
    if (Option.isSome(before) && !isSame(before, episodeId)) return 0
    let answered = 0
    for (const turn of turns) {
      const text = yield* complete(turn.messages)
      const options = Option.match(episodeId, { onNone: () => ({}), onSome: (id) => ({ episodeId: id }) })
      if (Option.isNone(yield* session.coworkerReply(turn.coworker, text, options))) return answered
      answered++
    }
    return answered
  })

/**
 * The service as a layer, with settings given here.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (settings: Settings): Layer.Layer<Coworker, InvalidSetting | InvalidUrls, HttpClient.HttpClient> =>
  Layer.effect(Coworker, make(settings))

/**
 * The model from `MIROIR_COWORKER_BASE_URL` and `MIROIR_COWORKER_MODEL`, and where they are set
 * `MIROIR_COWORKER_API_KEY` and `MIROIR_COWORKER_TEMPERATURE`.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Settings> = Config.zipWith(
  chat.endpointConfig(
    {
      baseUrl: "MIROIR_COWORKER_BASE_URL",
      model: "MIROIR_COWORKER_MODEL",
      apiKey: "MIROIR_COWORKER_API_KEY"
    },
    "coworker"
  ),
  Config.nonEmptyString("MIROIR_COWORKER_TEMPERATURE").pipe(
    Config.mapOrFail((text) =>
      Number.isFinite(Number(text))
        ? Either.right(Number(text))
        : Either.left(ConfigError.InvalidData([], "Expected a number"))
    ),
    Config.withDescription("Temperature of the coworker model; the endpoint's own unless given"),
    Config.option,
    Config.map(Option.getOrUndefined)
  ),
  (endpoint, temperature) => ({ ...endpoint, temperature })
)

/**
 * The service as a layer, with the settings of `config`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<
  Coworker,
  ConfigError.ConfigError | InvalidSetting | InvalidUrls,
  HttpClient.HttpClient
> = Layer.effect(Coworker, Effect.flatMap(config, make))

/**
 * The tasks that can be played: without a model those that have coworkers are dropped, and a warning tells how many.
 *
 * @since 0.1.0
 * @category filtering
 */
export const answerable = <A extends Json.JsonObject>(
  tasks: ReadonlyArray<A>,
  hasModel: boolean
): Effect.Effect<ReadonlyArray<A>> => {
  const kept = hasModel ? tasks : tasks.filter((task) => !Json.truthy(task.coworkers))
  const dropped = tasks.length - kept.length
  return dropped === 0
    ? Effect.succeed(kept)
    : Effect.as(
        Effect.logWarning(`Left out ${counted(dropped, "task")} with coworkers, since no coworker model is given`),
        kept
      )
}

const isSame = Option.getEquivalence<string>((one, other) => one === other)

const advice: Readonly<Record<Exclude<Fault, "context">, string>> = {
  key: "Check its API key (MIROIR_COWORKER_API_KEY).",
  quota: "Raise what its account may use, or take the key of another (MIROIR_COWORKER_API_KEY).",
  address: "Check its base URL (MIROIR_COWORKER_BASE_URL) and its name (MIROIR_COWORKER_MODEL).",
  root: "Check its base URL (MIROIR_COWORKER_BASE_URL): most end in /v1; and its name (MIROIR_COWORKER_MODEL).",
  tools: "Take another model for the coworkers (MIROIR_COWORKER_MODEL).",
  request:
    "Change what it objects to: the model (MIROIR_COWORKER_MODEL) or its temperature (MIROIR_COWORKER_TEMPERATURE)."
}
