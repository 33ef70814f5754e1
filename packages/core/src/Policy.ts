/**
 * A policy: given the conversation and the tools, it gives the next assistant
 * message. What is rolled out and calibrated is a policy.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Json from "./Json.js"
import type { PolicyFailed } from "./MiroirError.js"
import type { ChatMessage, Task, Tool } from "./Protocol.js"

/**
 * A tool call as `chat/completions` has it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ToolCall extends Json.JsonObject {
  readonly id: string
  readonly type: "function"
  readonly function: {
    readonly name: string
    /** The text of a JSON object. */
    readonly arguments: string
  }
}

/**
 * An assistant message. Without a tool call it ends the episode.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssistantMessage extends ChatMessage {
  readonly role: "assistant"
  readonly content: string | null
  readonly tool_calls?: ReadonlyArray<ToolCall>
}

/**
 * A moment of an episode in which the policy has to speak.
 *
 * @since 0.1.0
 * @category models
 */
export interface Moment {
  readonly task: Task
  /** Which of the task's rollouts this is, from 0. */
  readonly attempt: number
  /** The conversation: the prompt, then assistant and tool messages in turn. */
  readonly messages: ReadonlyArray<ChatMessage>
  readonly tools: ReadonlyArray<Tool>
}

/**
 * @since 0.1.0
 * @category services
 */
export class Policy extends Context.Tag("@miroir-effect/core/Policy")<
  Policy,
  {
    /** The policy's name, which goes into the records and the calibration. */
    readonly model: string
    readonly next: (moment: Moment) => Effect.Effect<AssistantMessage, PolicyFailed>
  }
>() {}

/**
 * What a scripted policy calls next.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call {
  readonly tool: string
  readonly args: Json.JsonObject
}

/**
 * A policy without a model: `calls` says which tools to call next; none ends the episode.
 *
 * @since 0.1.0
 * @category layers
 */
export const scripted = (
  model: string,
  calls: (moment: Moment) => ReadonlyArray<Call> | Effect.Effect<ReadonlyArray<Call>, PolicyFailed>
): Layer.Layer<Policy> =>
  Layer.succeed(Policy, {
    model,
    next: (moment) =>
      Effect.suspend(() => {
        const made = calls(moment)
        return Effect.map(Effect.isEffect(made) ? made : Effect.succeed(made), (list) => toMessage(moment, list))
      })
  })

const toMessage = ({ messages }: Moment, calls: ReadonlyArray<Call>): AssistantMessage => ({
  role: "assistant",
  content: null,
  ...(calls.length === 0
    ? {}
    : {
        tool_calls: calls.map(({ args, tool }, index) => ({
          id: `call_${messages.length}_${index}`,
          type: "function",
          function: { name: tool, arguments: Json.stringify(args) }
        }))
      })
})
