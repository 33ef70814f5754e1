/** What a program does about failures; README.md shows it. */
// #region errors
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

/** Plays a task; once more on a new lease where the connection was lost. None where no container is free. */
export const reward = (urls: ReadonlyArray<string>, taskId: string) =>
  Effect.gen(function* () {
    const leasing = yield* Leasing.Leasing
    const session = yield* leasing.lease({ urls, waitBusy: false })
    yield* session.reset(taskId)
    const finished = yield* session.finish
    return Option.some(finished.reward)
  }).pipe(
    Effect.scoped,
    Effect.retry({ times: 1, while: (error) => error._tag === "ConnectionLost" }),
    Effect.catchTag("NoFreeContainer", (error) => Effect.as(Effect.logWarning(error.message), Option.none()))
  )
// #endregion
