/** What a test says a stub answers: the next of a list, or what a function makes of the call. */

import * as Effect from "effect/Effect"

/** An error of this library is an effect that fails with itself, so that it can stand among the answers as it is. */
export type Answers<Call, A, E> = ReadonlyArray<A | Effect.Effect<A, E>> | ((call: Call) => A | Effect.Effect<A, E>)

/** Dies with the name of a method that the test has given no answer for. */
export const missing = (method: string): Effect.Effect<never> =>
  Effect.dieMessage(`${method} was called, but the test gave no answer for it`)

export const answering = <Call, A, E>(
  method: string,
  answers: Answers<Call, A, E> | undefined
): ((call: Call) => Effect.Effect<A, E>) => {
  let calls = 0
  return (call) =>
    Effect.suspend(() => {
      if (answers === undefined) return missing(method)
      if (typeof answers === "function") return toEffect(answers(call))
      const index = calls++
      const answer = answers[index]
      return answer === undefined
        ? Effect.dieMessage(
            `${method} was called more often than the ${answers.length} times that the test gave answers for`
          )
        : toEffect(answer)
    })
}

export const toEffect = <A, E>(answer: A | Effect.Effect<A, E>): Effect.Effect<A, E> =>
  isEffect(answer) ? answer : Effect.succeed(answer)

const isEffect = <A, E>(answer: A | Effect.Effect<A, E>): answer is Effect.Effect<A, E> => Effect.isEffect(answer)
