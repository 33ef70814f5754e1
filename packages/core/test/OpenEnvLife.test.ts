/**
 * What happens to sessions on stock OpenEnv servers: full ones, such that take the env away, restart, or drop a client
 * that does not answer their pings. With OPENENV_KEEPALIVE=real the last takes three minutes, at the servers' own pace.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Policy from "@miroir-effect/core/Policy"
import type * as Rollout from "@miroir-effect/core/Rollout"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { client, clientOf, run } from "./openenv/client.js"
import * as Server from "./openenv/server.js"
import { temporaryFolder } from "./support/files.js"

/** How often the server pings, how long it waits for a pong, a step, and for how long a client's loop is blocked: seconds. */
const pace =
  process.env.OPENENV_KEEPALIVE === "real"
    ? { ping: 20, patience: 20, step: 90, late: 30 }
    : { ping: 0.5, patience: 2, step: 4, late: 1.5 }

/** As a long computation does it. */
const blocked = (seconds: number) =>
  Effect.sync(() => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, seconds * 1000)
  })

/** A task of the toy, or of the number below 100 that is 49 where the seed is 0. */
const task = { id: "train-0", task_hash: "h", instruction: "What is 0 + 0?" }
const guess = { id: "seed-0", task_hash: "h", instruction: "", reset: { task_id: null, seed: 0 } }

/** Answers the toy's task in three calls; in the first attempt something else happens after the first of them. */
const pausing = (between: Effect.Effect<unknown>) =>
  Policy.scripted("pausing", ({ attempt, messages }) => {
    const said = messages.filter(({ role }) => role === "tool").length
    const call = said < 2 ? { tool: "echo", args: { message: "there?" } } : { tool: "submit", args: { answer: 0 } }
    return Effect.as(
      Effect.when(between, () => attempt === 1 && said === 1),
      [call]
    )
  })

/** How the attempts at one rollout ended, which was graded in the end. */
const attempts = (events: ReadonlyArray<Rollout.Event>) => {
  const saved = events.flatMap((event) => (event._tag === "Saved" ? [event.finished] : []))
  assert.deepStrictEqual(
    saved.map(({ success }) => success),
    [true]
  )
  return events.flatMap((event) =>
    event._tag === "Broke" || event._tag === "Failed"
      ? [event.error._tag === "ConnectionLost" ? event.error.closeCode : event.error.message]
      : []
  )
}

describe.skipIf(Server.missing !== undefined)("OpenEnv's servers", () => {
  it.scopedLive("that grant two sessions serve eight workers, two at a time, of one process or of eight", () =>
    Effect.gen(function* () {
      const [url] = yield* Server.small({ env: "toy", max_concurrent_envs: 2 })
      const counts = { now: 0, most: 0 }
      const policy = Policy.scripted("counting", ({ messages }) => {
        if (messages.length === 1) {
          counts.now++
          counts.most = Math.max(counts.most, counts.now)
          return Effect.as(Effect.sleep("20 millis"), [{ tool: "echo", args: { message: "x" } }])
        }
        counts.now--
        return [{ tool: "submit", args: { answer: 0 } }]
      })
      const worker = (rollouts: number, concurrency: number) =>
        Effect.gen(function* () {
          const traces = yield* temporaryFolder
          const events = yield* run(policy, { tasks: [task], rollouts, concurrency, urls: [url], traces })
          return events.flatMap((event) =>
            event._tag === "Saved" ? [`reward ${event.finished.reward}`] : [event._tag]
          )
        }).pipe(Effect.provide(client))
      const outcomes = yield* Effect.all([...Array.from({ length: 8 }, () => worker(2, 1)), worker(8, 8)], {
        concurrency: "unbounded"
      })
      for (const [index, rollouts] of [2, 2, 2, 2, 2, 2, 2, 2, 8].entries()) {
        const outcome = outcomes[index] ?? []
        assert.lengthOf(
          outcome.filter((each) => each === "reward 1"),
          rollouts
        )
        assert.notInclude(outcome, "Broke")
      }
      assert.deepStrictEqual(counts, { now: 0, most: 2 })
    })
  )

  it.scopedLive(
    "that take an idle session's env away are noticed by the next step, and the rollout is done again",
    () =>
      Effect.gen(function* () {
        const [url] = yield* Server.small({ env: "toy", session_timeout: 2 })
        // There is room for one session only, so that another's begins when this one has lost its env.
        const another = Effect.flatMap(Leasing.Leasing, ({ lease }) => lease({ urls: [url], waitBusy: true })).pipe(
          Effect.scoped,
          Effect.provide(client)
        )
        const traces = yield* temporaryFolder
        const events = yield* run(pausing(Effect.orDie(another)), { tasks: [task], rollouts: 1, urls: [url], traces })
        assert.deepStrictEqual(attempts(events), [undefined])
      }).pipe(Effect.provide(client))
  )

  for (const [signal, code] of [
    ["SIGKILL", 1006],
    ["SIGTERM", 1012]
  ] as const) {
    it.scopedLive(`that are ended by ${signal} and come again in the middle of a rollout have it done again`, () =>
      Effect.gen(function* () {
        const scope = yield* Effect.scope
        const server = yield* Server.toy({})
        const restart = Effect.zipRight(server.end(signal), Scope.extend(Server.toy({}, server.port), scope))
        const traces = yield* temporaryFolder
        const plan = { tasks: [task], rollouts: 1, urls: [server.url], traces }
        assert.deepStrictEqual(attempts(yield* run(pausing(restart), plan)), [code])
      }).pipe(Effect.provide(client))
    )
  }

  it.scopedLive(
    "that ping keep a client through a long step, and drop one that does not answer, which does the rollout again",
    () =>
      Effect.gen(function* () {
        const [url] = yield* Server.small({ env: "guess", ws_ping_interval: pace.ping, ws_ping_timeout: pace.patience })
        const guessing = (pause: number, between: Effect.Effect<void>) =>
          Policy.scripted("guessing", ({ attempt, messages }) => {
            const first = messages.length === 1
            const call = {
              tool: "act",
              args: first ? { number: 50, pause: attempt === 1 ? pause : 0 } : { number: 49 }
            }
            return Effect.as(
              Effect.when(between, () => attempt === 1 && !first),
              [call]
            )
          })
        const played = (pause: number, between: Effect.Effect<void>) =>
          Effect.gen(function* () {
            const traces = yield* temporaryFolder
            const plan = { tasks: [guess], rollouts: 1, urls: [url], traces }
            return attempts(yield* run(guessing(pause, between), plan))
          })
        assert.deepStrictEqual(yield* played(pace.step, Effect.void), [])
        // It depends on when the last ping was whether the next pong is too late.
        assert.oneOf((yield* played(0, blocked(pace.late))).join(), ["", "1011"])
        // There is room for one session only, so that another's begins when this one has been dropped.
        const dropped = Effect.sync(() => {
          const served = () => Server.plays({ url, reset: {}, actions: [] })
          assert.isTrue(Array.from({ length: 100 }).some(served))
        })
        assert.deepStrictEqual(yield* played(0, dropped), [1011])
        // This client pings too, which must not hide why it was dropped.
      }).pipe(Effect.provide(clientOf({ pingInterval: Duration.seconds(pace.ping), maxMissedPings: 100 }))),
    { timeout: 300_000 }
  )
})
