/**
 * The conversation of an episode, in two forms: as it goes to the policy, where calls have ids and arguments that can be read,
 * and as it came, for the record.
 */

import type * as Json from "../Json.js"
import type { Turn } from "../Policy.js"
import type { ChatMessage } from "../Protocol.js"
import { saysNothing } from "./chatMessage.js"
import * as ToolCalls from "./toolCalls.js"

export class Conversation {
  private readonly going: Array<ChatMessage>
  private readonly came: Array<ChatMessage>
  private readonly choices: Array<Json.Json> = []
  private readonly usage: Array<Json.Json> = []
  private readonly answers: Array<Json.Json> = []
  private readonly empty: Array<Json.JsonObject> = []

  constructor(prompt: string) {
    const first: ChatMessage = { role: "user", content: prompt }
    this.going = [first]
    this.came = [first]
  }

  /** As it goes to the policy, which may keep it. */
  get toPolicy(): ReadonlyArray<ChatMessage> {
    return [...this.going]
  }

  /** As it came: assistant messages as the policy gave them, tool messages as they were sent. */
  get messages(): ReadonlyArray<ChatMessage> {
    return this.came
  }

  /** Takes up a message of the policy, and gives its calls. */
  take({ choice, message, rest, usage }: Turn): ReadonlyArray<ToolCalls.Call & { readonly id: string }> {
    const { calls, message: going } = ToolCalls.goingBack(message, this.going.length)
    this.going.push(going)
    this.came.push(message)
    this.choices.push(choice ?? null)
    this.usage.push(usage ?? null)
    this.answers.push(rest ?? null)
    return calls
  }

  /** Keeps an empty message, which is no part of the conversation since it is asked for again. */
  drop({ choice, message, usage }: Turn): void {
    this.empty.push({ before: this.came.length, choice: choice ?? { message }, usage: usage ?? null })
  }

  /** Answers a call. */
  answer(id: string, content: string | ReadonlyArray<Json.JsonObject>): void {
    const message: ChatMessage = { role: "tool", tool_call_id: id, content }
    this.going.push(message)
    this.came.push(message)
  }

  /** For the record: choices, usage and what else came with them are of the assistant messages, in their order. */
  get record(): Json.JsonObject {
    const { answers, choices, empty, came: messages, usage } = this
    return {
      messages,
      choices,
      usage,
      ...(answers.every((answer) => answer === null) ? {} : { answers }),
      ...(empty.length === 0 ? {} : { empty })
    }
  }
}

/** Whether a message says nothing and calls nothing. */
export const isEmpty = ({ message }: Turn): boolean => saysNothing(message)
