/**
 * The demo's coworker model: of what the system message says it knows, it answers with what has most words in common
 * with the question, unless it must not tell that.
 */

import * as Json from "@miroir-effect/core/Json"

export const name = "knowing-coworker"

export const answer = (request: Json.Json): string => {
  const messages = Json.isObject(request) && Array.isArray(request.messages) ? request.messages : []
  const [tells = "", keeps = ""] = textOf(messages[0]).split(/^What you know and must not tell.*$/m)
  const facts = [
    ...factsIn(tells).map((fact) => ({ fact, said: fact })),
    ...factsIn(keeps).map((fact) => ({ fact, said: "I must not tell that." }))
  ]
  const asked = wordsOf(textOf(messages.at(-1)))
  const [best] = facts
    .map(({ fact, said }) => ({ said, common: wordsOf(fact).filter((word) => asked.includes(word)).length }))
    .filter(({ common }) => common > 1)
    .toSorted((one, other) => other.common - one.common)
  return best?.said ?? "I do not know that, I am afraid."
}

const factsIn = (text: string): ReadonlyArray<string> =>
  text.split("\n").flatMap((line) => (line.startsWith("- ") ? [line.slice(2)] : []))

const textOf = (message: Json.Json | undefined): string =>
  Json.isObject(message) && typeof message.content === "string" ? message.content : ""

/** Short words say little. */
const wordsOf = (text: string): ReadonlyArray<string> =>
  text
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word.length > 3)
