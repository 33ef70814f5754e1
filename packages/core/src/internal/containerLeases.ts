/** How the workers of a run come by containers: patiently, as long as there is hope. */

import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type * as Scope from "effect/Scope"
import * as Leasing from "../Leasing.js"
import type { LeaseError } from "../MiroirError.js"
import type * as Session from "../Session.js"
import { steadyMillis } from "./steadyTime.js"

export interface Options {
  readonly leasing: Context.Tag.Service<Leasing.Leasing>
  readonly containers: Leasing.Containers
  readonly timeout: Duration.DurationInput | undefined
  /** Between two tries where containers refuse: the first pause, and the longest that it grows to. */
  readonly pause: Duration.DurationInput
  readonly longestPause: Duration.DurationInput
  /** Comes when a container is not needed any more. */
  readonly awaitNoNeed: Effect.Effect<void>
}

/** All leases of a run. */
interface Leases {
  readonly granted: number
  readonly held: number
  /** Since when none is held. */
  readonly idleSince: number
}

/**
 * Leases a container; none where it is not needed any more. It fails where a whole timeout long nobody in the run had one, or
 * where containers refuse from the beginning.
 */
export const make = (
  options: Options
): Effect.Effect<Effect.Effect<Option.Option<Session.Service>, LeaseError, Scope.Scope>> =>
  Effect.gen(function* () {
    const { awaitNoNeed, containers, leasing, timeout } = options
    const leases = yield* Ref.make<Leases>({ granted: 0, held: 0, idleSince: yield* steadyMillis })
    const patience = Duration.toMillis(timeout ?? Leasing.defaults.timeout)
    const longest = Duration.toMillis(options.longestPause)

    const count = Ref.update(leases, ({ granted, held, idleSince }) => ({
      granted: granted + 1,
      held: held + 1,
      idleSince
    }))
    const discount = Effect.flatMap(steadyMillis, (now) =>
      Ref.update(leases, ({ granted, held, idleSince }) => ({
        granted,
        held: held - 1,
        idleSince: held === 1 ? now : idleSince
      }))
    )

    /** Whether nothing is to be hoped for from another try. */
    const isHopeless = (error: LeaseError, before: Leases, after: Leases, now: number): boolean => {
      if (error._tag === "InvalidUrls") return true
      if (before.held > 0 || after.granted > before.granted) return false
      return error._tag === "NoFreeContainer" || after.granted === 0 || now - after.idleSince >= patience
    }

    const lease = (pause: number): Effect.Effect<Option.Option<Session.Service>, LeaseError, Scope.Scope> =>
      Effect.gen(function* () {
        const before = yield* Ref.get(leases)
        const leased = yield* Effect.raceFirst(
          Effect.asSome(
            leasing.lease({ ...containers, waitBusy: true, ...(timeout === undefined ? {} : { timeout }) })
          ),
          Effect.as(awaitNoNeed, Option.none())
        ).pipe(Effect.either)
        if (leased._tag === "Right") {
          if (Option.isSome(leased.right)) yield* Effect.acquireRelease(count, () => discount)
          return leased.right
        }
        const error = leased.left
        const after = yield* Ref.get(leases)
        if (isHopeless(error, before, after, yield* steadyMillis)) return yield* error
        const how = after.held > 0 ? "Going on with those that are leased." : "Trying again."
        yield* Effect.logWarning(`${error.message} ${how}`)
        // Where none was free, the time for a lease was pause enough.
        if (error._tag === "NoFreeContainer") return yield* lease(pause)
        yield* Effect.raceFirst(Effect.sleep(Duration.millis(pause)), awaitNoNeed)
        return yield* lease(Math.min(longest, pause * 2))
      })
    return lease(Duration.toMillis(options.pause))
  })
