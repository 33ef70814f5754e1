/**
 * The demo's policy: it knows how each of the office's tasks is solved, and makes mistakes. Which ones is drawn from a
 * seed, by task and attempt, so that a demo can be run again.
 */

import * as Json from "@miroir-effect/core/Json"
import * as Policy from "@miroir-effect/core/Policy"
import * as OfficeOracle from "@miroir-effect/env/OfficeOracle"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Layer from "effect/Layer"
import * as Random from "effect/Random"

export interface Settings {
  readonly seed: number
  /** How likely a mistake is, in each step that has room for one. */
  readonly mistakes: number
}

export const model = "clumsy-office-policy"

export const layer = ({ mistakes, seed }: Settings): Layer.Layer<Policy.Policy> =>
  Policy.scripted(model, ({ attempt, messages, task }) =>
    Effect.gen(function* () {
      const calls = yield* Effect.forEach(OfficeOracle.steps(task.id), (step) =>
        Effect.gen(function* () {
          const slips = (yield* Random.next) < mistakes && step.mistakes.length > 0
          return slips ? (step.mistakes[yield* Random.nextIntBetween(0, step.mistakes.length)] ?? step) : step
        })
      )
      const call = calls[messages.filter(({ role }) => role === "assistant").length]
      if (call === undefined) return [{ tool: "submit", args: {} }]
      return [{ tool: call.tool, args: OfficeOracle.argumentsOf(call, lastObservation(messages.at(-1))) }]
    }).pipe(Effect.withRandom(Random.make(`${seed}/${task.id}/${attempt}`)))
  )

const lastObservation = (message: Json.JsonObject | undefined): Json.Json => {
  const text = message?.role === "tool" ? message.content : undefined
  return typeof text === "string" ? Either.getOrElse(Json.parse(text), () => null) : null
}
