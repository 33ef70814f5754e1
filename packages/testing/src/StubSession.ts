/**
 * Sessions without a container. `make` is a real session whose env is a script:
 * episodes, finish and failures are as over a socket. `layer` and `of` take just
 * the methods that a test uses.
 *
 * @since 0.1.0
 */

import * as Dialect from "@miroir-effect/core/Dialect"
import * as Json from "@miroir-effect/core/Json"
import type { ConnectionLost, EnvError } from "@miroir-effect/core/MiroirError"
import type * as Protocol from "@miroir-effect/core/Protocol"
import * as Session from "@miroir-effect/core/Session"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type Answers, answering, missing } from "./internal/answers.js"
import { freshState, headOf } from "./internal/frames.js"
import * as MemoryExchange from "./internal/memoryExchange.js"

/**
 * What an env answers: the next of a list, or what a function makes of the call. An effect stands for its result;
 * so does an error, which is an effect that fails with itself: an `EnvError` is an error frame, a `ConnectionLost`
 * breaks the session. Where there is no answer the call dies.
 *
 * @since 0.1.0
 * @category models
 */
export type EnvAnswers<Call, A> = Answers<Call, A, EnvError | ConnectionLost>

/**
 * An env.
 *
 * @since 0.1.0
 * @category models
 */
export interface Script {
  /** `http://stub.invalid` if not given. */
  readonly url?: string
  /** The data of the reply to the `state` that opened the session. */
  readonly opened?: Json.Json
  /** The first observations of episodes. */
  readonly reset?: EnvAnswers<
    {
      readonly taskId: string
      readonly episodeId: string
      readonly maxSeconds: number | null
      readonly coworkers: boolean
    },
    Json.Json
  >
  /** What steps answer, the `submit` of a `finish` too; what is left out is null, and `done` false. */
  readonly step?: EnvAnswers<
    { readonly toolName: string; readonly args: Json.JsonObject; readonly episodeId: string },
    Partial<Protocol.StepResult>
  >
  /** What `state` answers; if not given, what follows from the steps: `{episode_id, step_count, done}`. */
  readonly state?: EnvAnswers<{ readonly episodeId: string | null }, Json.JsonObject>
  /** The coworkers who are to speak. */
  readonly coworkers?: EnvAnswers<{ readonly episodeId: string | null }, ReadonlyArray<Protocol.CoworkerTurn>>
  /** The statuses of what was said for them. */
  readonly coworkerReply?: EnvAnswers<{ readonly coworker: string; readonly text: string }, number | null>
  /** The records: objects with a `reward` and `metadata`. */
  readonly record?: EnvAnswers<{ readonly episodeId: string }, Json.JsonObject>
}

/**
 * A frame that the session sent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call {
  readonly type: Protocol.RequestType
  /** Undefined where the frame has none. */
  readonly data: Json.Json | undefined
}

/**
 * A session with a scripted env, and what it sent.
 *
 * @since 0.1.0
 * @category models
 */
export interface StubSession {
  /** The session, to be played on. */
  readonly session: Session.Service
  /** All that was sent so far. */
  readonly calls: Effect.Effect<ReadonlyArray<Call>>
}

/**
 * A session with a scripted env. It is lost when the scope closes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (script: Script): Effect.Effect<StubSession, never, Scope.Scope> =>
  Effect.gen(function* () {
    const calls: Array<Call> = []
    const env = envOf(script)
    const exchange = yield* MemoryExchange.make(script.url ?? "http://stub.invalid", (request) =>
      Effect.suspend(() => {
        const { data } = headOf(request.text)
        calls.push({ type: request.type, data })
        return env(request.type, Json.isObject(data) ? data : {})
      })
    )
    const session = yield* Session.make(exchange, Dialect.miroir, script.opened ?? freshState)
    return { session, calls: Effect.sync(() => Array.from(calls)) }
  })

/**
 * A session of the methods that a test gives. Any other dies with its name; `hasSubmit`, `show` and
 * `prompt`, which are no effects, are Miroir's, and `isOver` is false, so that a rollout plays.
 *
 * @since 0.1.0
 * @category constructors
 */
export const of = (given: Partial<Session.Service> = {}): Session.Service => ({
  url: "http://stub.invalid",
  opened: freshState,
  episodeId: missing("Session.episodeId"),
  reset: () => missing("Session.reset"),
  isOver: Effect.succeed(false),
  step: () => missing("Session.step"),
  coworkers: missing("Session.coworkers"),
  coworkerReply: () => missing("Session.coworkerReply"),
  state: missing("Session.state"),
  finish: missing("Session.finish"),
  hasSubmit: Dialect.miroir.hasSubmit,
  show: Dialect.miroir.show,
  prompt: Dialect.miroir.prompt,
  broken: missing("Session.broken"),
  ...given
})

/**
 * `of` as a layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given?: Partial<Session.Service>): Layer.Layer<Session.Session> =>
  Layer.succeed(Session.Session, of(given))

const envOf = (
  script: Script
): ((type: Protocol.RequestType, data: Json.JsonObject) => Effect.Effect<Json.Json, EnvError | ConnectionLost>) => {
  let episode = { id: "", steps: 0, done: false }
  const episodeId = (): string | null => (episode.id === "" ? null : episode.id)
  const reset = answering("Session.reset", script.reset)
  const step = answering("Session.step", script.step)
  const state = answering("Session.state", script.state)
  const coworkers = answering("Session.coworkers", script.coworkers)
  const coworkerReply = answering("Session.coworkerReply", script.coworkerReply)
  const record = answering("Session.finish", script.record)

  return (type, data) => {
    switch (type) {
      case "reset": {
        const id = text(data.episode_id)
        return Effect.map(
          reset({
            taskId: text(data.task_id),
            episodeId: id,
            maxSeconds: typeof data.max_seconds === "number" ? data.max_seconds : null,
            coworkers: data.coworkers === true
          }),
          (observation) => {
            episode = { id, steps: 0, done: false }
            return { observation }
          }
        )
      }
      case "step": {
        const args = Json.isObject(data.arguments) ? data.arguments : {}
        return Effect.map(step({ toolName: text(data.tool_name), args, episodeId: episode.id }), (result) => {
          const { done = false, observation = null, reward = null } = result
          episode = { ...episode, steps: episode.steps + 1, done }
          return { observation, reward, done }
        })
      }
      case "state":
        return script.state === undefined
          ? Effect.succeed({ episode_id: episodeId(), step_count: episode.steps, done: episode.done })
          : state({ episodeId: episodeId() })
      case "coworkers":
        return Effect.map(coworkers({ episodeId: episodeId() }), (turns) => ({
          turns: turns.map(({ coworker, messages }) => ({ coworker, messages }))
        }))
      case "coworker_reply":
        return Effect.map(coworkerReply({ coworker: text(data.coworker), text: text(data.text) }), (status) => ({
          status
        }))
      case "record":
        return record({ episodeId: text(data.episode_id) })
      case "mcp":
        return missing("Session.mcp")
    }
  }
}

const text = (value: Json.Json | undefined): string => (typeof value === "string" ? value : "")
