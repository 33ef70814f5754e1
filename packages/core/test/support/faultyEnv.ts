/** An env behind a proxy that is at fault: what the tests of faults play on, and what they look at afterwards. */
import * as Json from "@miroir-effect/core/Json"
import type * as FaultProxy from "@miroir-effect/testing/FaultProxy"
import type * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { Counting } from "./counting.js"
import { turn } from "./pauses.js"

/** An env that knows all frames; a step's observation is its arguments, and the tool `submit` ends an episode. */
export const env: ScriptedContainer.Script = {
  capacity: 1,
  tools: { "": [{ name: "look" }] },
  replies: ({ data, type }) => {
    switch (type) {
      case "coworkers":
        return { send: { type, data: { turns: [] } } }
      case "coworker_reply":
        return { send: { type, data: { status: 200 } } }
      case "state":
        return { send: { type, data: { done: false } } }
      case "record":
        return { send: { type, data: { task_id: "t1", reward: 1, metadata: { task_hash: "h1", success: true } } } }
      default: {
        const { arguments: observation = {}, tool_name: tool } = Json.isObject(data) ? data : {}
        return { send: { type: "observation", data: { observation, reward: null, done: tool === "submit" } } }
      }
    }
  }
}

/** Rejections that nobody handles, from now on until the scope's end. */
const unhandled = Effect.acquireRelease(
  Effect.sync(() => {
    const reasons: Array<unknown> = []
    const onReason = (reason: unknown): void => {
      reasons.push(reason)
    }
    process.on("unhandledRejection", onReason)
    process.on("uncaughtExceptionMonitor", onReason)
    return { reasons, onReason }
  }),
  ({ onReason }) =>
    Effect.sync(() => {
      process.off("unhandledRejection", onReason)
      process.off("uncaughtExceptionMonitor", onReason)
    })
).pipe(Effect.map(({ reasons }) => reasons))

/** So long may a server's socket stay open after the end of its client. */
const atMost = "5 seconds"

interface Watched {
  readonly proxies: ReadonlyArray<FaultProxy.FaultProxy>
  readonly containers?: ReadonlyArray<ScriptedContainer.ScriptedContainer>
}

/**
 * Plays something to its end, which closes all of the client's, and dies where anything is left then: a fiber, a socket on
 * a server's side, a rejection that nobody handles.
 */
export const leavingNothing = <A, E, R>(
  play: Effect.Effect<A, E, R>,
  { containers = [], proxies }: Watched
): Effect.Effect<Exit.Exit<A, E>, never, R> =>
  Effect.gen(function* () {
    const reasons = yield* unhandled
    const supervisor = new Counting()
    // A fiber of its own, so that what its fibers are children of ends.
    const fiber = yield* Effect.fork(Effect.supervised(play, supervisor))
    const exit = yield* fiber.await
    // A server that does not read notices nothing.
    for (const proxy of proxies) yield* proxy.heal
    const gone = (whose: string, none: Effect.Effect<void>) =>
      Effect.timeoutFail(none, { duration: atMost, onTimeout: () => `${whose} has a socket open` })
    yield* Effect.all(
      [
        ...proxies.map(({ awaitNoConnections }) => gone("a proxy", awaitNoConnections)),
        ...containers.map(({ awaitNoSockets }) => gone("a container", awaitNoSockets))
      ],
      { concurrency: "unbounded" }
    ).pipe(
      Effect.zipRight(
        Effect.iterate(0, {
          while: (turns) => supervisor.alive > 0 && turns < 1000,
          body: (turns) => Effect.as(turn, turns + 1)
        })
      ),
      Effect.filterOrFail(
        () => supervisor.alive === 0,
        () => `${supervisor.alive} fibers are left`
      ),
      Effect.filterOrFail(
        () => reasons.length === 0,
        () => `nobody handled ${String(reasons[0])}`
      ),
      Effect.catchAll((what) =>
        Effect.dieMessage(`${what} after ${Exit.isSuccess(exit) ? "a success" : String(exit.cause)}`)
      )
    )
    return exit
  }).pipe(Effect.scoped)
