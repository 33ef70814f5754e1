/**
 * Rollouts that nobody plays.
 *
 * @since 0.1.0
 */

import type { RolloutError } from "@miroir-effect/core/MiroirError"
import * as Rollout from "@miroir-effect/core/Rollout"
import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { missing, toEffect } from "./internal/answers.js"

/**
 * What happens in a run: events, in order. An effect stands for its result; so does an error, which is an effect that
 * fails with itself, and ends the run.
 *
 * @since 0.1.0
 * @category models
 */
export type Events = ReadonlyArray<Rollout.Event | Effect.Effect<Rollout.Event, RolloutError>>

/**
 * Runs that consist of these events, or of those that a function makes of the plan. Nothing is played and nothing saved.
 *
 * @since 0.1.0
 * @category layers
 */
export const canned = (events: Events | ((plan: Rollout.Plan) => Events)): Layer.Layer<Rollout.Rollout> =>
  layer({
    run: (plan) =>
      Stream.suspend(() =>
        Stream.mapEffect(Stream.fromIterable(typeof events === "function" ? events(plan) : events), toEffect)
      )
  })

/**
 * A Rollout of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Rollout.Rollout>> = {}): Layer.Layer<Rollout.Rollout> =>
  Layer.succeed(Rollout.Rollout, {
    run: () => Stream.fromEffect(missing("Rollout.run")),
    preview: () => missing("Rollout.preview"),
    ...given
  })
