/**
 * An exchange without a socket: questions are answered in the same process, one at a time. It breaks where a real
 * one does. Unlike a connection it can die, so that a test sees at once what it forgot to script.
 */

import * as Json from "@miroir-effect/core/Json"
import { ConnectionLost, type EnvError, type UnexpectedReply } from "@miroir-effect/core/MiroirError"
import type * as Protocol from "@miroir-effect/core/Protocol"
import { type Ask, type AskFn, type Exchange, readAnswer } from "@miroir-effect/core/SessionExchange"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"

export type Env = (request: Protocol.Request) => Effect.Effect<Json.Json, EnvError | ConnectionLost>

export const make = (url: string, env: Env): Effect.Effect<Exchange, never, Scope.Scope> => {
  const turns = Effect.unsafeMakeSemaphore(1)
  let broke: ConnectionLost | UnexpectedReply | undefined
  const lose = (reason: string) =>
    Effect.sync(() => {
      broke ??= new ConnectionLost({ url, reason })
    })

  const askInTurn: AskFn = <A>(ask: Ask<A>) =>
    Effect.suspend(() => {
      if (broke !== undefined) return Effect.fail(broke)
      const { request } = ask
      return env(request).pipe(
        Effect.onInterrupt(() => lose(`closed by us, since a ${request.type} was interrupted before its reply`)),
        Effect.map((data) => ({ data, text: Json.stringify({ type: request.type, data }) })),
        Effect.either,
        Effect.flatMap((reply) => readAnswer(url, ask, reply)),
        Effect.tapError((error) =>
          Effect.sync(() => {
            if (error._tag !== "EnvError") broke ??= error
          })
        )
      )
    })

  const exchange: Exchange = {
    url,
    ask: (ask) => turns.withPermits(1)(askInTurn(ask)),
    askIf: (_type, made) => turns.withPermits(1)(Effect.flatMap(Effect.suspend(made), askInTurn)),
    hold: (body) => turns.withPermits(1)(Effect.suspend(() => body(askInTurn))),
    broken: Effect.sync(() => Option.fromNullable(broke)),
    // The exchanges of a stub have no spans.
    watchAs: () => {}
  }
  return Effect.acquireRelease(Effect.succeed(exchange), () => lose("the session's scope was closed"))
}
