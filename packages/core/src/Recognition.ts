/**
 * Which dialect a container's server speaks, found out while its session is opened:
 * by what it does, not by what it is called.
 *
 * @since 0.1.0
 */

import type * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as BaseUrl from "./BaseUrl.js"
import * as Dialect from "./Dialect.js"
import { askSchema } from "./internal/openEnvHttp.js"
import * as Json from "./Json.js"
import type { ConnectionFailed } from "./MiroirError.js"
import * as OpenEnv from "./OpenEnv.js"

/**
 * A container whose opening `state` was answered.
 *
 * @since 0.1.0
 * @category models
 */
export interface Opened {
  readonly base: BaseUrl.BaseUrl
  readonly token: Option.Option<Redacted.Redacted>
  /** The `data` of the answer. */
  readonly state: Json.Json
  /** Whether the container's health told `leased`, be it true or false, when it was asked last. */
  readonly tellsLeased: boolean
}

/**
 * Finds out a container's dialect. It has no deadline of its own: `Leasing` has one.
 *
 * @since 0.1.0
 * @category models
 */
export type Recognition = (opened: Opened) => Effect.Effect<Dialect.Dialect, ConnectionFailed, HttpClient.HttpClient>

/**
 * Miroir or OpenEnv. A `state` that tells `done`, on a container whose health tells `leased`, is a Miroir env's. (OpenEnv's
 * health never does; its states are the envs' own, and may tell `done` too.) Otherwise `GET /schema` is asked: a JSON object
 * with the schema of an action is an OpenEnv server's answer; anything else that is an answer leaves it at Miroir. Where the
 * server cannot answer (no connection, or a status from 500 on but for 501), that is the failure, since a wrong guess would spoil
 * the episodes.
 *
 * @since 0.1.0
 * @category recognition
 */
export const auto =
  (settings?: Partial<OpenEnv.Settings>): Recognition =>
  (opened) =>
    opened.tellsLeased && Json.isObject(opened.state) && opened.state.done !== undefined
      ? Effect.succeed(Dialect.miroir)
      : Effect.flatMap(
          askSchema(opened),
          Option.match({
            onNone: () => Effect.succeed(Dialect.miroir),
            onSome: (actions) => OpenEnv.make(actions, settings)
          })
        )

/**
 * OpenEnv, whatever the container tells. Where there is no schema its steps are calls of tools.
 *
 * @since 0.1.0
 * @category recognition
 */
export const openEnv =
  (settings?: Partial<OpenEnv.Settings>): Recognition =>
  (opened) =>
    Effect.flatMap(askSchema(opened), (found) =>
      OpenEnv.make(
        Option.getOrElse(found, (): OpenEnv.Actions => ({ _tag: "Tools" })),
        settings
      )
    )

/**
 * One dialect for all, without a question.
 *
 * @since 0.1.0
 * @category recognition
 */
export const always =
  (dialect: Dialect.Dialect): Recognition =>
  () =>
    Effect.succeed(dialect)
