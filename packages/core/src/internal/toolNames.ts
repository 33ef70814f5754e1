/**
 * The names of tools in `chat/completions`. MCP's may have dots and slashes, and 128 characters; OpenAI's API, and what was
 * made after it, takes letters, digits, `_` and `-`, and 64 of them, and answers any other name with an error for ever.
 */

import * as Json from "../Json.js"
import type { AssistantMessage } from "../Policy.js"
import type { ChatMessage, Tool } from "../Protocol.js"

export interface ToolNames {
  /** What a tool is called there. */
  readonly there: (name: string) => string
  /** A conversation as it goes there. */
  readonly going: (messages: ReadonlyArray<ChatMessage>) => ReadonlyArray<ChatMessage>
  /** A message that came from there. */
  readonly came: (message: AssistantMessage) => AssistantMessage
}

const isTaken = (name: string): boolean => /^[\w-]{1,64}$/.test(name)

const asTheyAre: ToolNames = { there: (name) => name, going: (messages) => messages, came: (message) => message }

/** A name that is not taken gets one that is, and that no other tool has; the others stay. */
export const make = (tools: ReadonlyArray<Tool>): ToolNames => {
  const names = new Set(tools.map(({ name }) => name))
  const odd = [...names].filter((name) => !isTaken(name))
  if (odd.length === 0) return asTheyAre
  const there = new Map<string, string>()
  const here = new Map<string, string>()
  for (const name of odd) {
    const plain = name.replace(/[^\w-]/gu, "_") || "tool"
    let other = plain.slice(0, 64)
    for (let count = 2; names.has(other) || here.has(other); count++) {
      const suffix = `_${count}`
      other = plain.slice(0, 64 - suffix.length) + suffix
    }
    there.set(name, other)
    here.set(other, name)
  }
  const mapped = (names: ReadonlyMap<string, string>) => (name: string) => names.get(name) ?? name
  return {
    there: mapped(there),
    going: (messages) => messages.map((message) => ({ ...message, ...renamed(message, mapped(there)) })),
    came: (message) => ({ ...message, ...renamed(message, mapped(here)) })
  }
}

/** The members of a message that name tools, with other names. */
const renamed = ({ function_call, tool_calls }: ChatMessage, rename: (name: string) => string): Json.JsonObject => ({
  ...(Json.isArray(tool_calls)
    ? {
        tool_calls: tool_calls.map((call) =>
          Json.isObject(call) && Json.isObject(call.function)
            ? { ...call, function: renamedFunction(call.function, rename) }
            : call
        )
      }
    : {}),
  ...(Json.isObject(function_call) ? { function_call: renamedFunction(function_call, rename) } : {})
})

const renamedFunction = (called: Json.JsonObject, rename: (name: string) => string): Json.JsonObject =>
  typeof called.name === "string" ? { ...called, name: rename(called.name) } : called
