/**
 * The seam between a session and a family of servers: how an episode begins,
 * steps and ends there, and where its record comes from. The rest of the session
 * does not know it. Here stands the seam, and the dialect of Miroir environments.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { EpisodeRecord } from "./EpisodeRecord.js"
import * as Json from "./Json.js"
import { type ExchangeError, NotGraded } from "./MiroirError.js"
import * as Prompt from "./Prompt.js"
import * as Protocol from "./Protocol.js"
import type { Ask, AskFn } from "./SessionExchange.js"

/**
 * What an episode begins with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Beginning {
  readonly taskId: string
  /** The version of the task, where the caller told it: a dialect that makes the record itself puts it there. */
  readonly taskHash: string | undefined
  /** A fresh uuid4 as 32 hex digits. */
  readonly episodeId: string
  /** Whole seconds, or null for the env's own limit. */
  readonly maxSeconds: number | null
  /** Whether somebody answers for the coworkers. */
  readonly coworkers: boolean
  /** What else the task has its reset say, for an env that takes such keys. */
  readonly extra: Json.JsonObject
}

/**
 * One episode as a dialect plays it. It keeps what it needs of the replies, from the first step on.
 *
 * @since 0.1.0
 * @category models
 */
export interface Episode {
  /** The reset, whose answer is the first observation. */
  readonly reset: Ask<Json.Json>
  /** Whether the env has said that the episode is over: in the last step that it answered; an OpenEnv server's reset may say so. */
  readonly isOver: () => boolean
  /** A step; `args` is the text of a JSON object. */
  readonly step: (toolName: string, args: string) => Ask<Protocol.StepResult>
  /** Ends the episode where it has not ended, and gets its record. `ask` holds the session's queue meanwhile. */
  readonly finish: (ask: AskFn) => Effect.Effect<EpisodeRecord, ExchangeError | NotGraded>
}

/**
 * What the first message to a policy is made of.
 *
 * @since 0.1.0
 * @category models
 */
export interface Opening {
  readonly task: Protocol.Task
  /** The reset's. */
  readonly observation: Json.Json
  /** What the policy is offered. */
  readonly tools: ReadonlyArray<Protocol.Tool>
  readonly day: Prompt.Day
}

/**
 * What a family of servers does its own way.
 *
 * @since 0.1.0
 * @category models
 */
export interface Dialect {
  readonly name: string
  /** Whether the env knows of coworkers. Where it does not, nobody is asked about them, and none is ever to speak. */
  readonly hasCoworkers: boolean
  /** Whether there is always a tool `submit`, listed or not. */
  readonly hasSubmit: boolean
  /**
   * What a model is shown of a step's observation: the content of the tool message, a text or content parts as
   * `chat/completions` has them.
   */
  readonly show: (observation: Json.Json) => string | ReadonlyArray<Json.JsonObject>
  /** The first message to a policy. */
  readonly prompt: (opening: Opening) => string
  /** `url` is the container's, for errors. */
  readonly episode: (url: string, beginning: Beginning) => Episode
}

/**
 * Miroir environments: `state` tells whether the episode is done, the tool `submit` ends it, `record` gives the record.
 *
 * @since 0.1.0
 * @category dialects
 */
export const miroir: Dialect = {
  name: "miroir",
  hasCoworkers: true,
  hasSubmit: true,
  show: Json.stringify,
  prompt: ({ day, observation, task }) => {
    const told = Json.isObject(observation) ? observation.instruction : undefined
    const instruction = task.instruction || (typeof told === "string" ? told : Json.stringify(observation))
    return Prompt.prompt({ ...task, instruction }, day)
  },
  episode: (url, beginning) => {
    const { episodeId } = beginning
    let isOver = false
    const step: Episode["step"] = (toolName, args) => ({
      request: Protocol.step({ toolName, args, episodeId }),
      decode: ({ data }) =>
        Either.map(Protocol.decodeStep(data), (result) => {
          // A step that fails does not come here: it leaves the last good one in force.
          isOver = result.done
          return result
        })
    })
    const submit: Ask<Protocol.StepResult> = {
      request: Protocol.step({ toolName: "submit", args: "{}", episodeId }),
      decode: (reply) => Either.flatMap(saysDone(reply), () => step("submit", "{}").decode(reply))
    }
    const state: Ask<boolean> = { request: Protocol.state, decode: saysDone }
    const record: Ask<EpisodeRecord> = {
      request: Protocol.record(episodeId),
      decode: ({ data, text }) => EpisodeRecord.make(data, () => Json.memberText(text, "data") ?? text)
    }
    return {
      reset: { request: Protocol.reset(beginning), decode: ({ data }) => Protocol.decodeReset(data) },
      isOver: () => isOver,
      step,
      finish: (ask) =>
        Effect.gen(function* () {
          if (isOver || (yield* ask(state))) return yield* ask(record)
          const submitted = yield* Effect.either(ask(submit))
          if (Either.isLeft(submitted)) {
            // The time may have run out in between: then the refusal does not matter.
            if (!(yield* ask(state))) return yield* Effect.fail(submitted.left)
          } else if (!submitted.right.done) {
            const reason = Protocol.observationError(submitted.right.observation)
            return yield* new NotGraded({ url, episodeId, ...(reason === undefined ? {} : { reason }) })
          }
          return yield* ask(record)
        })
    }
  }
}

const saysDone = ({ data }: Protocol.Reply): Either.Either<boolean, string> =>
  Json.isObject(data) && data.done !== undefined
    ? Either.right(Json.truthy(data.done))
    : Either.left("it does not say whether the episode is done")
