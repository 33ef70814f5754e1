/** One episode of a task: its state, its budgets, its grade and its record. */

import type * as Json from "@miroir-effect/core/Json"
import type { CoworkerTurn } from "@miroir-effect/core/Protocol"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as World from "../World.js"
import type { Catalog, Entry } from "./catalog.js"

/** What becomes an error frame. */
export class FrameError extends Data.TaggedError("FrameError")<{
  readonly code: string
  readonly message: string
}> {}

/** Its effects give the `data` of the reply. */
export interface Episode<R> {
  readonly id: string
  readonly state: Effect.Effect<Json.JsonObject, never, R>
  readonly step: (toolName: string, args: Json.JsonObject) => Effect.Effect<Json.JsonObject, FrameError, R>
  readonly coworkers: Effect.Effect<Json.JsonObject, never, R>
  readonly coworkerReply: (coworker: string, text: string) => Effect.Effect<Json.JsonObject, never, R>
  readonly record: Effect.Effect<Json.JsonObject, FrameError, R>
}

interface Ending {
  readonly reward: number | null
  readonly record: Json.JsonObject
}

export const start = <State, T extends World.Task, R>(
  world: World.World<State, T, R>,
  catalog: Catalog<State, T, R>,
  entry: Entry<T>,
  options: { readonly id: string; readonly maxSeconds: number | null; readonly coworkers: boolean }
): Effect.Effect<Episode<R>, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    const { hash, split, task } = entry
    const random = Random.make(hash)
    const seeded = <A, E, R2>(effect: Effect.Effect<A, E, R2>) => Effect.withRandom(effect, random)
    const asked = yield* Clock.currentTimeMillis
    const state = yield* seeded(world.reset(task, { coworkers: options.coworkers }))
    const started = yield* Clock.currentTimeMillis
    const deadline = options.maxSeconds === null ? Number.POSITIVE_INFINITY : started + options.maxSeconds * 1000

    // Requests of a socket are answered one at a time, so these need no lock.
    let steps = 0
    let toolErrors = 0
    let ending: Ending | undefined
    let told = false

    const grade: Effect.Effect<World.Grade, World.GradeError, R> = Effect.flatMap(
      seeded(Effect.suspend(() => world.grade(state, task))),
      (given) =>
        given.reward === null || Number.isFinite(given.reward)
          ? Effect.succeed(given)
          : Effect.fail(new World.GradeError({ message: `the reward ${given.reward} is not finite` }))
    )

    const end = (how: "submit" | "max_steps" | "max_seconds"): Effect.Effect<void, never, R> =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const { harm, metadata, reward, success } = yield* Effect.catchTag(grade, "GradeError", (error) =>
          Effect.as(Effect.logWarning(`The episode could not be graded: ${error.message}`), {
            reward: null,
            success: false,
            harm: false,
            metadata: { void_reason: error.message }
          })
        )
        ending = {
          reward,
          record: {
            task_id: task.id,
            episode_id: options.id,
            reward,
            metadata: { ...metadata, task_hash: hash, split, success, harm, ended: how },
            diagnostics: { steps, tool_errors: toolErrors },
            timings: { episode_s: (Math.min(now, deadline) - started) / 1000, reset_s: (started - asked) / 1000 }
          }
        }
      })

    /** Nothing changes the state between requests: it is soon enough to look at the clock when one comes. */
    const expire = Effect.flatMap(Clock.currentTimeMillis, (now) =>
      ending === undefined && now >= deadline ? end("max_seconds") : Effect.void
    )

    const stepped = (toolName: string, answer: Answer): Json.JsonObject => {
      if (ending !== undefined) told = true
      return {
        observation: { tool_name: toolName, ...answer },
        reward: ending?.reward ?? null,
        done: ending !== undefined
      }
    }

    const call = (toolName: string, args: Json.JsonObject): Effect.Effect<Answer, World.ToolError, R> => {
      const tool = catalog.tools.get(toolName)
      return tool === undefined
        ? Effect.fail(unknownTool(toolName, [...catalog.tools.keys()]))
        : Effect.map(seeded(Effect.suspend(() => tool.call(args, state))), (result) => ({ result, error: null }))
    }

    /** The answer; none where the time was up before the tool was done. */
    const inTime = (answer: Effect.Effect<Answer, never, R>): Effect.Effect<Option.Option<Answer>, never, R> =>
      options.maxSeconds === null
        ? Effect.asSome(answer)
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.timeoutOption(answer, Duration.millis(deadline - now))
          )

    return {
      id: options.id,

      state: Effect.map(expire, () => ({
        episode_id: options.id,
        step_count: steps,
        done: ending !== undefined,
        task_id: task.id
      })),

      step: (toolName, args) =>
        Effect.gen(function* () {
          yield* expire
          if (ending !== undefined) {
            if (told) return yield* new FrameError({ code: "EPISODE_OVER", message: "The episode is over: reset." })
            return stepped(toolName, timeIsUp)
          }
          steps += 1
          if (toolName === "submit") {
            yield* end("submit")
            return stepped(toolName, { result: "submitted", error: null })
          }
          const answer = yield* call(toolName, args).pipe(
            Effect.catchTag("ToolError", ({ message, type }) => {
              toolErrors += 1
              return Effect.succeed<Answer>({ result: null, error: { type, message } })
            }),
            inTime
          )
          if (Option.isNone(answer)) yield* end("max_seconds")
          else if (task.max_steps !== undefined && steps >= task.max_steps) yield* end("max_steps")
          return stepped(
            toolName,
            Option.getOrElse(answer, () => timeIsUp)
          )
        }),

      coworkers: Effect.gen(function* () {
        yield* expire
        const turns =
          world.coworkers !== undefined && options.coworkers && ending === undefined
            ? yield* seeded(world.coworkers.turns(state))
            : []
        return { turns: turns.map(turnAsJson) }
      }),

      coworkerReply: (coworker, text) =>
        Effect.gen(function* () {
          yield* expire
          const taken =
            world.coworkers !== undefined && options.coworkers && ending === undefined
              ? yield* seeded(world.coworkers.reply(state, coworker, text))
              : false
          return { status: taken ? 200 : 404 }
        }),

      record: Effect.flatMap(expire, () =>
        ending === undefined
          ? new FrameError({ code: "NOT_DONE", message: "The episode is not over: submit first." })
          : Effect.succeed(ending.record)
      )
    }
  })

type Answer =
  | { readonly result: Json.Json; readonly error: null }
  | { readonly result: null; readonly error: { readonly type: string; readonly message: string } }

const timeIsUp: Answer = {
  result: null,
  error: { type: "time_limit", message: "The episode's time was up before this call was done." }
}

const unknownTool = (name: string, names: ReadonlyArray<string>): World.ToolError =>
  new World.ToolError({
    type: "unknown_tool",
    message: `There is no tool ${JSON.stringify(name)}; there are ${[...names, "submit"].join(", ")}.`
  })

const turnAsJson = ({ coworker, messages }: CoworkerTurn): Json.JsonObject => ({ coworker, messages })
