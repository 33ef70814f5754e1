/**
 * The wire, as pure functions: the frames that go to an env's WebSocket, what
 * has to be in its replies, and the shapes that its HTTP calls answer with.
 *
 * The protocol is OpenEnv's (PyPI `openenv`, `/ws`) with the frames that Miroir
 * environments add: `coworkers`, `coworker_reply` and `record`. JSON in text
 * frames, one request in flight, one reply to each, in order.
 *
 * @since 0.1.0
 */

import * as Either from "effect/Either"
import * as Json from "./Json.js"
import { EnvError, UnexpectedReply } from "./MiroirError.js"

/**
 * A set of tools that an env offers.
 *
 * @since 0.1.0
 * @category models
 */
export type Surface = "api" | "mcp" | "code"

/**
 * A task as the catalog lists it. Keys that are not named here are kept.
 *
 * @since 0.1.0
 * @category models
 */
export type Task = Json.JsonObject & {
  readonly id: string
  /** Changes whenever the task does; calibrations and traces are bound to it. */
  readonly task_hash: string
  /** What the policy is asked to do; empty where only the first observation of an episode tells it: see `Session.prompt`. */
  readonly instruction: string
  // In an interface it would be an error in projects without exactOptionalPropertyTypes: JSON has no undefined.
  /** What else a reset says for this task: see `Session.ResetOptions`. */
  readonly reset?: Json.JsonObject
}

/**
 * A tool as MCP's `tools/list` gives it. Keys that are not named here are kept.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tool extends Json.JsonObject {
  readonly name: string
}

/**
 * A message of a chat, as `chat/completions` takes it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatMessage extends Json.JsonObject {
  /** `system`, `user`, `assistant` or `tool`. */
  readonly role: string
}

/**
 * A coworker who is to speak, and the chat that a model has to continue for them.
 *
 * @since 0.1.0
 * @category models
 */
export interface CoworkerTurn {
  /** The name that `coworker_reply` wants. */
  readonly coworker: string
  readonly messages: ReadonlyArray<ChatMessage>
}

/**
 * What a step answered. The observation may hold `error: {message, …}`: the tool's answer to the policy, no
 * failure of the call.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepResult {
  /** What the policy gets to see. */
  readonly observation: Json.Json
  /** As the env sent it: a number, or null where this step was not rewarded. */
  readonly reward: Json.Json
  /** Whether the episode is over. */
  readonly done: boolean
}

/**
 * The types of frames that a client sends.
 *
 * @since 0.1.0
 * @category models
 */
export type RequestType = "state" | "reset" | "step" | "coworkers" | "coworker_reply" | "record" | "mcp"

/**
 * A frame to be sent: its type, for whoever names it in an error or a span, and its text.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly type: RequestType
  readonly text: string
}

/**
 * A reply that is no error: its `data`, and the whole frame's text, which alone has every digit as it was sent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Reply {
  readonly data: Json.Json | undefined
  readonly text: string
}

/**
 * Asks the env for its state; it has no data. It also opens a session.
 *
 * @since 0.1.0
 * @category requests
 */
export const state: Request = { type: "state", text: '{"type":"state"}' }

/**
 * Asks which coworkers are to speak; it has no data.
 *
 * @since 0.1.0
 * @category requests
 */
export const coworkers: Request = { type: "coworkers", text: '{"type":"coworkers"}' }

/**
 * Begins an episode of a task.
 *
 * @since 0.1.0
 * @category requests
 */
export const reset = (data: {
  readonly taskId: string
  /** A fresh uuid4 as 32 hex digits. */
  readonly episodeId: string
  /** Whole seconds, or null for the env's own limit. */
  readonly maxSeconds: number | null
  /** Whether somebody answers for the coworkers. */
  readonly coworkers: boolean
}): Request => ({
  type: "reset",
  text: JSON.stringify({
    type: "reset",
    data: {
      task_id: data.taskId,
      episode_id: data.episodeId,
      max_seconds: data.maxSeconds,
      coworkers: data.coworkers
    }
  })
})

/**
 * A step that calls a tool. `args` is the text of a JSON object and goes out as it is, so that a model's digits do.
 *
 * @since 0.1.0
 * @category requests
 */
export const step = (data: {
  readonly toolName: string
  readonly args: string
  readonly episodeId: string
}): Request => ({
  type: "step",
  text: `{"type":"step","data":{"type":"call_tool","tool_name":${JSON.stringify(data.toolName)},"arguments":${data.args},"metadata":{"episode_id":${JSON.stringify(data.episodeId)}}}}`
})

/**
 * Says a text for a coworker.
 *
 * @since 0.1.0
 * @category requests
 */
export const coworkerReply = (data: { readonly coworker: string; readonly text: string }): Request => ({
  type: "coworker_reply",
  text: JSON.stringify({ type: "coworker_reply", data: { coworker: data.coworker, text: data.text } })
})

/**
 * Asks for the record of an episode that is over.
 *
 * @since 0.1.0
 * @category requests
 */
export const record = (episodeId: string): Request => ({
  type: "record",
  text: JSON.stringify({ type: "record", data: { episode_id: episodeId } })
})

/**
 * Reads a frame: a reply's data, or the error that the frame is or stands for. The type of a reply that is no
 * error is not checked.
 *
 * @since 0.1.0
 * @category replies
 */
export const decodeReply = (
  url: string,
  request: RequestType,
  text: string
): Either.Either<Reply, EnvError | UnexpectedReply> => {
  const parsed = Json.parse(text)
  if (Either.isLeft(parsed)) return Either.left(new UnexpectedReply({ url, request, reason: parsed.left }))
  const frame = Json.isObject(parsed.right) ? parsed.right : {}
  if (frame.type !== "error") return Either.right({ data: frame.data, text })
  const error = Json.isObject(frame.data) ? frame.data : {}
  const { code, message, ...more } = error
  if (typeof code !== "string") return unexpected(url, request, "its error has no code")
  return Either.left(
    new EnvError({
      url,
      code,
      reason: typeof message === "string" ? message : "",
      ...(Object.keys(more).length === 0 ? {} : { details: Json.stringify(more) })
    })
  )
}

/**
 * What a reply's data is read into: the value, or in a few words what it lacks.
 *
 * @since 0.1.0
 * @category replies
 */
export type Decoder<A> = (data: Json.Json | undefined) => Either.Either<A, string>

/**
 * The env's state: any object.
 *
 * @since 0.1.0
 * @category replies
 */
export const decodeState: Decoder<Json.JsonObject> = (data) =>
  Json.isObject(data) ? Either.right(data) : Either.left("its data is no object")

/**
 * The first observation of an episode.
 *
 * @since 0.1.0
 * @category replies
 */
export const decodeReset: Decoder<Json.Json> = (data) =>
  Json.isObject(data) && data.observation !== undefined
    ? Either.right(data.observation)
    : Either.left("it has no observation")

/**
 * A step's result. What is missing of observation and reward is null; a missing `done` is false.
 *
 * @since 0.1.0
 * @category replies
 */
export const decodeStep: Decoder<StepResult> = (data) =>
  Json.isObject(data)
    ? Either.right({
        observation: data.observation ?? null,
        reward: data.reward ?? null,
        done: Json.truthy(data.done)
      })
    : Either.left("its data is no object")

/**
 * The turns of the coworkers who are to speak, in order.
 *
 * @since 0.1.0
 * @category replies
 */
export const decodeCoworkers: Decoder<ReadonlyArray<CoworkerTurn>> = (data) => {
  const turns = Json.isObject(data) ? data.turns : undefined
  if (!Json.isArray(turns)) return Either.left("it has no turns")
  const decoded: Array<CoworkerTurn> = []
  for (const turn of turns) {
    if (!Json.isObject(turn) || typeof turn.coworker !== "string") return Either.left("a turn names no coworker")
    const { messages } = turn
    if (!Json.isArray(messages) || !messages.every(isChatMessage)) return Either.left("a turn has no chat messages")
    decoded.push({ coworker: turn.coworker, messages })
  }
  return Either.right(decoded)
}

/**
 * The status that what a coworker said is answered with.
 *
 * @since 0.1.0
 * @category replies
 */
export const decodeCoworkerReply: Decoder<number | null> = (data) => {
  const status = Json.isObject(data) ? data.status : undefined
  return status === null || typeof status === "number" ? Either.right(status) : Either.left("it has no status")
}

/**
 * The message of the error that a step's observation holds, where it holds one.
 *
 * @since 0.1.0
 * @category replies
 */
export const observationError = (observation: Json.Json): string | undefined => {
  const error = Json.isObject(observation) ? observation.error : undefined
  return Json.isObject(error) && typeof error.message === "string" ? error.message : undefined
}

const isChatMessage = (value: Json.Json): value is ChatMessage => Json.isObject(value) && typeof value.role === "string"

const unexpected = (url: string, request: RequestType, reason: string): Either.Either<never, UnexpectedReply> =>
  Either.left(new UnexpectedReply({ url, request, reason }))
