/**
 * A catalog of values, without a container.
 *
 * @since 0.1.0
 */

import * as Catalog from "@miroir-effect/core/Catalog"
import { HttpStatusError, InvalidUrls, ToolsError } from "@miroir-effect/core/MiroirError"
import type { Task, Tool } from "@miroir-effect/core/Protocol"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { missing } from "./internal/answers.js"

/**
 * What a catalog of values has.
 *
 * @since 0.1.0
 * @category models
 */
export interface Contents {
  /** By split. Another split is a 404. */
  readonly tasks?: Readonly<Record<string, ReadonlyArray<Task>>>
  /** By surface; under `""` where none is asked for. Another surface is a `ToolsError`. */
  readonly tools?: Readonly<Record<string, ReadonlyArray<Tool>>>
  /** `miroir` if not given. */
  readonly dialect?: "miroir" | "openenv"
  /** Told at once; an unhealthy container did not answer. */
  readonly health?: Catalog.Health["health"]
}

/**
 * The same tasks, tools and health at every URL. What is not given dies with the method's name.
 *
 * @since 0.1.0
 * @category layers
 */
export const of = ({ dialect = "miroir", health, tasks, tools }: Contents): Layer.Layer<Catalog.Catalog> =>
  layer({
    answering: ([first]) => (first === undefined ? new InvalidUrls({}) : Effect.succeed(first)),
    dialect: () => Effect.succeed(dialect),
    ...(tasks === undefined
      ? {}
      : {
          tasks: (url, split = "train") =>
            Effect.fromNullable(own(tasks, split)).pipe(
              Effect.mapError(() => new HttpStatusError({ url, status: 404, body: "no such split" }))
            )
        }),
    ...(tools === undefined
      ? {}
      : {
          tools: (url, surface) =>
            Effect.fromNullable(own(tools, surface ?? "")).pipe(
              Effect.mapError(() => new ToolsError({ url, rpcCode: -32602, reason: "no such surface" }))
            )
        }),
    ...(health === undefined
      ? {}
      : {
          health: () =>
            Effect.succeed(
              health === "unhealthy"
                ? { health, reason: Option.some("it did not answer"), latency: Option.none() }
                : { health, reason: Option.none(), latency: Option.some(Duration.zero) }
            )
        })
  })

/**
 * A Catalog of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Catalog.Catalog>> = {}): Layer.Layer<Catalog.Catalog> =>
  Layer.succeed(Catalog.Catalog, {
    answering: () => missing("Catalog.answering"),
    dialect: () => missing("Catalog.dialect"),
    tasks: () => missing("Catalog.tasks"),
    tools: () => missing("Catalog.tools"),
    health: () => missing("Catalog.health"),
    ...given
  })

/** Not what every object has: a split may be called `constructor`. */
const own = <A>(values: Readonly<Record<string, A>>, key: string): A | undefined =>
  Object.hasOwn(values, key) ? values[key] : undefined
