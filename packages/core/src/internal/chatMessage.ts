/** The message of a completion, as servers really send it: its text for a reader, or all of it for a conversation. */

import * as Either from "effect/Either"
import * as Json from "../Json.js"
import type { Turn } from "../Policy.js"
import { type CompletionFailed, failed, repeatable } from "./chatAnswer.js"
import { readCalls } from "./toolCalls.js"

/** What is made of a completion, a JSON object that reports no error. */
export type Reader<A> = (completion: Json.JsonObject) => Either.Either<A, CompletionFailed>

interface Choice {
  readonly choice: Json.JsonObject
  readonly message: Json.JsonObject
}

const readChoice: Reader<Choice> = (completion) => {
  if (!Json.isArray(completion.choices)) return Either.left(failed("malformed", "the answer has no choices"))
  const choice = completion.choices[0]
  if (choice === undefined) return Either.left(failed("empty", "the answer has no choice"))
  if (!Json.isObject(choice)) return Either.left(failed("malformed", "its choice is no object"))
  // Servers of the older completions API put the text into the choice.
  const message: Json.Json | undefined =
    choice.message ?? (typeof choice.text === "string" ? { content: choice.text } : null)
  return Json.isObject(message)
    ? Either.right({ choice, message })
    : Either.left(failed("malformed", "its choice has no message"))
}

/** The text of a completion: not trimmed, less a leading block of reasoning. */
export const readText: Reader<string> = (completion) => {
  const read = readChoice(completion)
  if (Either.isLeft(read)) return Either.left(read.left)
  const { choice, message } = read.right
  const parts = textParts(message.content)
  if (parts === undefined) return Either.left(failed("malformed", "its message has no content that is known here"))
  const refusal = refusalIn(choice, message)
  if (refusal !== undefined) return Either.left(failed("refused", refusal))
  const text = withoutReasoning(parts.text)
  if (isSaid(text)) return Either.right(text)
  const why =
    choice.finish_reason === "length"
      ? "it ran out of tokens before it said anything; let it use more"
      : Json.truthy(message.tool_calls)
        ? "it called a tool instead of speaking"
        : "its message has no text"
  return Either.left(failed("empty", why))
}

/**
 * The message of a completion as it came. An answer without one is asked for again: nothing was said in it. `maxTokens`
 * is what a message may have, where that is known.
 */
export const readTurn =
  (maxTokens: number | undefined): Reader<Turn> =>
  (completion) => {
    const read = readChoice(completion)
    if (Either.isLeft(read)) return Either.left(repeatable(read.left.reason, read.left.detail))
    const { choice, message } = read.right
    if (typeof choice.finish_reason === "string" && cut.test(choice.finish_reason)) {
      return Either.left(repeatable("empty", `the server broke off (${choice.finish_reason})`))
    }
    const hasCalls = readCalls(message).length > 0
    const refusal = refusalIn(choice, message)
    if (refusal !== undefined && !hasCalls) return Either.left(failed("refused", refusal))
    const { choices: _, usage, ...rest } = completion
    if (choice.finish_reason === "length" && saysNothing(message) && !isSpent(usage, maxTokens)) {
      return Either.left(failed("empty", "it had no room left to say anything", "context"))
    }
    return Either.right({
      message: { ...message, role: "assistant" },
      choice,
      ...(Json.isObject(usage) ? { usage } : {}),
      rest
    })
  }

/** Whether a message has no call and no text but reasoning. */
export const saysNothing = (message: Json.JsonObject): boolean =>
  readCalls(message).length === 0 && !isSaid(withoutReasoning(textParts(message.content)?.text ?? ""))

/** Whether a message used up what it may have, so that it was not the context that stopped it; so too where no usage is told. */
const isSpent = (usage: Json.Json | undefined, maxTokens: number | undefined): boolean => {
  if (maxTokens === undefined) return false
  const used = Json.isObject(usage) ? usage.completion_tokens : undefined
  return typeof used !== "number" || used >= maxTokens
}

/** What vLLM and SGLang say of a request that was aborted, DeepSeek and Zhipu of one that failed half-way, and Mistral. */
const cut = /^(abort|error|insufficient_system_resource|network_error|timeout)/i

/** OpenAI's reason, and what Gemini, Anthropic, Zhipu and AWS make of it. */
const stoppedByFilter = /^(content_filter|refusal|sensitive|safety|blocklist|prohibited|guardrail)/i

const refusalIn = (choice: Json.JsonObject, message: Json.JsonObject): string | undefined =>
  [message.refusal, ...(textParts(message.content)?.refusals ?? [])].find(isSaid) ??
  (typeof choice.finish_reason === "string" && stoppedByFilter.test(choice.finish_reason)
    ? "a content filter stopped it"
    : undefined)

const isSaid = (value: Json.Json | undefined): value is string => typeof value === "string" && value.trim() !== ""

/** A content is a text, null, or a list of parts, some of which (reasoning, images) are no text for the reader. */
const textParts = (
  content: Json.Json | undefined
): { readonly text: string; readonly refusals: ReadonlyArray<string> } | undefined => {
  if (content === undefined || content === null) return { text: "", refusals: [] }
  if (typeof content === "string") return { text: content, refusals: [] }
  if (!Json.isArray(content)) return undefined
  let text = ""
  const refusals: Array<string> = []
  for (const part of content) {
    const { refusal, text: said, type = "text" } = Json.isObject(part) ? part : { text: part }
    if (typeof refusal === "string") refusals.push(refusal)
    if ((type === "text" || type === "output_text") && typeof said === "string") text += said
  }
  return { text, refusals }
}

/**
 * Some templates open the block in the prompt, so that only its end is in the text. A block that does not end has no
 * text behind it. The blank lines that part it from the text go with it.
 */
const withoutReasoning = (text: string): string => {
  const closes = text.indexOf("</think>")
  const opens = text.indexOf("<think>")
  const leads = opens >= 0 && text.slice(0, opens).trim() === ""
  if (closes < 0) return leads ? "" : text
  return leads || opens < 0 || closes < opens ? text.slice(closes + "</think>".length).trimStart() : text
}
