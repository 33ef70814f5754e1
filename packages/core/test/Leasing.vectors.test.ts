import { assert, describe, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { leasing } from "./layers.js"
import { leases } from "./vectors.js"

describe("leases agree with the Python client", () => {
  for (const vector of leases) {
    it.scopedLive(vector.name, () =>
      Effect.gen(function* () {
        const containers = yield* Effect.forEach(vector.containers, ScriptedContainer.make)
        const urls = containers.map(({ url }) => url)
        const { lease } = yield* Leasing.Leasing
        const outcome = yield* Effect.either(
          lease({ urls, waitBusy: vector.wait_busy, timeout: `${vector.timeout_s} seconds` })
        )
        const got = Either.match(outcome, {
          onRight: (session) => ({ leased: urls.indexOf(session.url) }),
          onLeft: (error) =>
            error._tag === "NoFreeContainer"
              ? { error: error.code, busy: error.leased, total: error.total, unhealthy: error.unhealthy }
              : error._tag === "EnvError"
                ? { error: error.code, message: error.reason }
                : { error: error.code }
        })
        const expected = vector.outcomes_seen.map(({ rounds_s: _, ...outcome }) => outcome)
        assert.deepInclude(expected, got)
      }).pipe(Effect.provide(leasing()))
    )
  }
})
