/**
 * The tool calls of an assistant message, as models and their servers really write them, and the message as it can go
 * back to its server.
 */

import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Json from "../Json.js"
import { InvalidArguments } from "../MiroirError.js"
import type { AssistantMessage } from "../Policy.js"
import { shown } from "./text.js"

/** A call as a message has it. */
export interface Call {
  /** None where the message gives none that can be used. */
  readonly id: string | undefined
  /** Empty where the message gives none. */
  readonly name: string
  /** The text that the model wrote, every digit of it; `{}` where it wrote none. */
  readonly arguments: string
  /** Where the arguments are no JSON object: what the model is told of it, as a sentence. They must not reach the env. */
  readonly problem: string | undefined
}

/** The calls of a message, in order. */
export const readCalls = (message: Json.JsonObject): ReadonlyArray<Call> => writtenCalls(message).map(readCall)

/** A message as it goes back to its server, and its calls with the ids that it has there. */
export interface GoingBack {
  readonly message: AssistantMessage
  readonly calls: ReadonlyArray<Call & { readonly id: string }>
}

/**
 * The message with nothing added and nothing taken away, but for what no server could make sense of: a call without an id,
 * or with that of a call before it, gets one; a name that is no text is replaced by an empty one, and arguments that are no
 * JSON object by `{}`; and a `function_call`
 * of the older API becomes the tool call that it is, since a tool message answers no other.
 *
 * `position` is where the message stands in its conversation, from 0.
 */
export const goingBack = (message: AssistantMessage, position: number): GoingBack => {
  const written = writtenCalls(message)
  if (written.length === 0) return { message, calls: [] }
  const read = written.map(readCall)
  const taken = new Set(read.map(({ id }) => id))
  const given = new Set<string>()
  const calls = read.map((call, index) => {
    const id = call.id === undefined || given.has(call.id) ? minted(position, index, taken) : call.id
    given.add(id)
    taken.add(id)
    return { ...call, id }
  })
  const { function_call: _, ...rest } = message
  const asItCame: AssistantMessage = hasToolCalls(message) ? message : { ...rest, role: "assistant" }
  return {
    message: {
      ...asItCame,
      tool_calls: calls.map(({ id }, index) => rewritten(written[index] ?? null, id)),
      ...(Json.isObject(asItCame.function_call) ? { function_call: repaired(asItCame.function_call) } : {})
    },
    calls
  }
}

const hasToolCalls = ({ tool_calls }: Json.JsonObject): boolean => Json.isArray(tool_calls) && tool_calls.length > 0

/** Some servers send both: then the older one says what the first of the newer ones says. */
const writtenCalls = (message: Json.JsonObject): ReadonlyArray<Json.Json> => {
  const { function_call, tool_calls } = message
  if (Json.isArray(tool_calls) && tool_calls.length > 0) return tool_calls
  return Json.isObject(function_call) && Json.truthy(function_call.name)
    ? [{ type: "function", function: function_call }]
    : []
}

const readCall = (written: Json.Json): Call => {
  const { function: called, id } = Json.isObject(written) ? written : {}
  const { arguments: args, name } = Json.isObject(called) ? called : {}
  const text = argumentsText(args)
  const tool = typeof name === "string" ? name : ""
  const reason = whyNoObject(text)
  return {
    id: typeof id === "string" && id !== "" ? id : undefined,
    name: tool,
    arguments: text,
    problem: reason === undefined ? undefined : new InvalidArguments({ tool, reason }).message
  }
}

/** A text by the API; some servers send the object itself. */
const argumentsText = (args: Json.Json | undefined): string => {
  if (isNone(args)) return "{}"
  return typeof args === "string" ? args : Json.stringify(args)
}

const isNone = (args: Json.Json | undefined): args is null | undefined | string =>
  args === undefined || args === null || (typeof args === "string" && args.trim() === "")

/** Strictly: a NaN that an env might read would be refused by the server that the message goes back to. */
const whyNoObject = (text: string): string | undefined => {
  const strict = Either.try({
    try: (): Json.Json => JSON.parse(text),
    catch: (error) => (error instanceof Error ? shown(error.message) : "it is no JSON")
  })
  if (Either.isLeft(strict)) return strict.left
  if (!Json.isObject(strict.right)) return "it is another JSON value"
  return Option.getOrUndefined(Either.getLeft(Json.parse(text)))
}

const rewritten = (written: Json.Json, id: string): Json.JsonObject => {
  const { function: called, ...rest } = Json.isObject(written) ? written : { type: "function" }
  return { ...rest, id, function: repaired(called) }
}

/** Servers that read the calls of a conversation answer those that they cannot read with an error, for ever. */
const repaired = (called: Json.Json | undefined): Json.Json => {
  if (!Json.isObject(called)) return { name: "", arguments: "{}" }
  const named = typeof called.name === "string" ? called : { ...called, name: "" }
  return isNone(named.arguments) || whyNoObject(argumentsText(named.arguments)) !== undefined
    ? { ...named, arguments: "{}" }
    : named
}

/** Nine letters and digits: Mistral's models and their chat templates take no other id. */
const minted = (position: number, index: number, taken: ReadonlySet<string | undefined>): string => {
  const digits = (value: number): string => value.toString(36).padStart(4, "0")
  for (let salt = 0; ; salt++) {
    const id = `c${digits(position)}${digits(index + salt)}`
    if (!taken.has(id)) return id
  }
}
