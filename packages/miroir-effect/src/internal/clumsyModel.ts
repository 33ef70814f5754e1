/**
 * The demo's policy, as a chat model behind an endpoint: it knows how each of the office's tasks is solved, and makes
 * mistakes. Which ones is drawn from the seed that comes with a request, so that a demo can be run again.
 */

import * as Json from "@miroir-effect/core/Json"
import type { Task } from "@miroir-effect/core/Protocol"
import * as OfficeOracle from "@miroir-effect/env/OfficeOracle"
import type * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Random from "effect/Random"

export const name = "clumsy-office-policy"

/** `mistakes`: how likely one is, in each step that has room for it. */
export const answer =
  (tasks: ReadonlyArray<Task>, mistakes: number) =>
  ({ body }: ChatEndpoint.ChatRequest): Effect.Effect<ChatEndpoint.ChatAnswer> =>
    Effect.gen(function* () {
      const request = Json.isObject(body) ? body : {}
      const messages = Json.isArray(request.messages) ? request.messages.filter(Json.isObject) : []
      const prompt = messages[0]?.content
      const task = tasks.find(({ instruction }) => typeof prompt === "string" && prompt.startsWith(instruction))
      if (task === undefined) return { status: 400, body: { error: { message: "No such task." } } }
      const steps = yield* Effect.forEach(OfficeOracle.steps(task.id), (step) =>
        Effect.gen(function* () {
          const slips = (yield* Random.next) < mistakes && step.mistakes.length > 0
          return slips ? (step.mistakes[yield* Random.nextIntBetween(0, step.mistakes.length)] ?? step) : step
        })
      ).pipe(Effect.withRandom(Random.make(`${Json.stringify(request.seed ?? null)}/${task.id}`)))
      const step = steps[messages.filter(({ role }) => role === "assistant").length]
      const call =
        step === undefined
          ? { tool: "submit" }
          : { tool: step.tool, args: OfficeOracle.argumentsOf(step, observationIn(messages.at(-1))) }
      // About four characters are a token. Not those of ids, which are other ones each time.
      const said = messages.map(({ content }) => (typeof content === "string" ? content.length : 0))
      const prompt_tokens = Math.ceil(said.reduce((sum, length) => sum + length, 0) / 4)
      const completion_tokens = 20
      const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
      return { calls: [call], usage }
    })

const observationIn = (message: Json.JsonObject | undefined): Json.Json =>
  message?.role === "tool" && typeof message.content === "string"
    ? Either.getOrElse(Json.parse(message.content), () => null)
    : null
