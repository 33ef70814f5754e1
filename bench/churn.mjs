/** Many fibers that want few containers: what `lease-churn` and each process of `lease-processes` runs. */
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { leasing } from "./leasing.mjs"

/** What an episode takes. */
export const episode = 200

/** Runs `episodes` of them in each of `fibers`, each on a lease of its own. */
export const churn = ({ urls, fibers, episodes, token }) => {
  const one = Effect.gen(function* () {
    const { lease } = yield* Leasing.Leasing
    const session = yield* lease({ urls, waitBusy: true })
    yield* session.reset("bench")
    yield* Effect.sleep(episode)
  }).pipe(Effect.scoped)
  return Effect.runPromise(
    Effect.forEach(Array.from({ length: fibers }), () => Effect.repeatN(one, episodes - 1), {
      concurrency: "unbounded",
      discard: true
    }).pipe(Effect.provide(leasing({ token: token === undefined ? undefined : Redacted.make(token) })))
  )
}
