/** One client's socket: reads its frames, one at a time and in order, and answers each. */

import * as Json from "@miroir-effect/core/Json"
import * as Text from "@miroir-effect/core/Text"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import type * as World from "../World.js"
import type { Catalog } from "./catalog.js"
import * as Episode from "./episode.js"
import type { Socket } from "./httpServer.js"

const { FrameError } = Episode

interface Reply {
  readonly type: string
  readonly data: Json.JsonObject
}

/** What a container is busy with, for who has to tell what could not be ended. */
export interface Activity {
  /** Undefined between two frames. */
  current: string | undefined
}

/** Answers until it is interrupted. */
export const serve = <State, T extends World.Task, R>(
  world: World.World<State, T, R>,
  catalog: Catalog<State, T, R>,
  socket: Socket,
  activity: Activity
): Effect.Effect<never, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    const connection = yield* Effect.scope
    let current: { readonly episode: Episode.Episode<R>; readonly scope: Scope.CloseableScope } | undefined

    const noEpisode = new FrameError({ code: "NO_EPISODE", message: "There is no episode: reset first." })

    const underWay = Effect.suspend(() => (current === undefined ? noEpisode : Effect.succeed(current.episode)))

    const underWayAs = (id: Json.Json | undefined) =>
      Effect.filterOrFail(
        Effect.flatMap(isText(id) ? Effect.succeed(id) : invalid("episode_id has to be a string"), () => underWay),
        (episode) => episode.id === id,
        (episode) =>
          new FrameError({
            code: "EPISODE_MISMATCH",
            message: `The episode under way is ${episode.id}, not ${String(id)}.`
          })
      )

    const reset = (data: Json.JsonObject) =>
      Effect.gen(function* () {
        const { coworkers, episode_id: id, max_seconds = null, task_id } = data
        if (!isText(task_id)) return yield* invalid("task_id has to be a string")
        if (!isText(id)) return yield* invalid("episode_id has to be a string")
        if (max_seconds !== null && !(typeof max_seconds === "number" && max_seconds > 0)) {
          return yield* invalid("max_seconds has to be a number above 0, or null")
        }
        const entry = catalog.entries.get(task_id)
        if (entry === undefined) {
          return yield* new FrameError({
            code: "UNKNOWN_TASK",
            message: `There is no task ${JSON.stringify(task_id)}.`
          })
        }
        if (current !== undefined) {
          const { scope } = current
          current = undefined
          yield* Scope.close(scope, Exit.void)
        }
        const scope = yield* Scope.fork(connection, ExecutionStrategy.sequential)
        const options = { id, maxSeconds: max_seconds, coworkers: Json.truthy(coworkers) }
        const episode = yield* Episode.start(world, catalog, entry, options).pipe(
          Scope.extend(scope),
          Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
        )
        current = { episode, scope }
        const { task_hash: _, id: __, ...observation } = entry.listing
        return { observation: { task_id, ...observation }, reward: null, done: false }
      })

    const step = (data: Json.JsonObject) =>
      Effect.gen(function* () {
        const { arguments: args, metadata, tool_name, type } = data
        if (type !== "call_tool") return yield* invalid('a step\'s data.type has to be "call_tool"')
        if (!isText(tool_name)) return yield* invalid("tool_name has to be a string")
        if (!Json.isObject(args)) return yield* invalid("arguments has to be an object")
        const episode = yield* underWayAs(Json.isObject(metadata) ? metadata.episode_id : undefined)
        return yield* episode.step(tool_name, args)
      })

    const coworkerReply = (data: Json.JsonObject) =>
      Effect.gen(function* () {
        const { coworker, text } = data
        if (!isText(coworker)) return yield* invalid("coworker has to be a string")
        if (typeof text !== "string") return yield* invalid("text has to be a string")
        const episode = yield* underWay
        return yield* episode.coworkerReply(coworker, text)
      })

    const noneYet = { episode_id: null, step_count: 0, done: false, task_id: null }

    const dispatch = (
      type: string,
      data: Json.JsonObject
    ): Effect.Effect<Reply, Episode.FrameError, R | Scope.Scope> => {
      const as = Effect.map((data: Json.JsonObject): Reply => ({ type: replyTypes[type] ?? type, data }))
      switch (type) {
        case "state":
          return as(current === undefined ? Effect.succeed(noneYet) : current.episode.state)
        case "reset":
          return as(reset(data))
        case "step":
          return as(step(data))
        case "coworkers":
          return as(Effect.flatMap(underWay, (episode) => episode.coworkers))
        case "coworker_reply":
          return as(coworkerReply(data))
        case "record":
          return as(Effect.flatMap(underWayAs(data.episode_id), (episode) => episode.record))
        default:
          return new FrameError({ code: "UNKNOWN_TYPE", message: `There is no frame of type ${JSON.stringify(type)}.` })
      }
    }

    const answer = (frame: Either.Either<string, string>) =>
      Effect.gen(function* () {
        const parsed = Either.flatMap(frame, Json.parse)
        if (Either.isLeft(parsed)) return yield* invalid(`the frame cannot be read: ${parsed.left}`)
        if (!Json.isObject(parsed.right)) return yield* invalid("the frame has to be an object")
        const { data, type } = parsed.right
        if (!isText(type)) return yield* invalid("type has to be a string")
        if (data !== undefined && data !== null && !Json.isObject(data))
          return yield* invalid("data has to be an object")
        activity.current = type === "step" ? `the tool ${named(data?.tool_name)}` : `the frame ${named(type)}`
        const reply = yield* dispatch(type, data ?? {})
        return Json.stringify({ type: reply.type, data: reply.data })
      }).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            activity.current = undefined
          })
        ),
        Effect.catchTag("FrameError", ({ code, message }) => Effect.succeed(errorFrame(code, message))),
        // A bug in a world's code is the author's to see, and no reason to take the container from its clients; an
        // interruption is one too, where it is the world's own: when we are interrupted, none of this is run.
        Effect.exit,
        Effect.flatMap(
          Exit.match({
            onSuccess: Effect.succeed,
            onFailure: (cause) =>
              Effect.as(
                Effect.logError("The world failed", cause),
                errorFrame("INTERNAL_ERROR", "The environment failed; its log says why.")
              )
          })
        )
      )

    return yield* Queue.take(socket.frames).pipe(Effect.flatMap(answer), Effect.flatMap(socket.send), Effect.forever)
  })

export const errorFrame = (code: string, message: string): string =>
  Json.stringify({ type: "error", data: { code, message } })

const replyTypes: { readonly [type: string]: string | undefined } = { reset: "observation", step: "observation" }

const named = (name: Json.Json | undefined): string => Text.visible(Json.stringify(name ?? null))

const isText = (value: Json.Json | undefined): value is string => typeof value === "string" && value !== ""

const invalid = (reason: string): Episode.FrameError =>
  new FrameError({ code: "VALIDATION_ERROR", message: `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.` })
