import { assert, describe, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Tracer from "effect/Tracer"
import { leasing } from "./layers.js"
import { watching } from "./support/watching.js"

const observation = { observation: {}, reward: null, done: true }

const parentOf = (span: Tracer.Span): string | undefined =>
  Option.getOrUndefined(span.parent)?._tag === "Span" ? Option.getOrThrow(span.parent).spanId : undefined

describe("what there is to watch", () => {
  it.scopedLive("spans tell of lease, episode and exchange, and hold no secret", () =>
    Effect.gen(function* () {
      const token = "tok-7d20e4"
      const container = yield* ScriptedContainer.make({
        token,
        replies: ({ type }) =>
          type === "record"
            ? { send: { type, data: { reward: 1, metadata: {} } } }
            : type === "coworkers"
              ? { send: { type: "error", data: { code: "NO_MODEL", message: `Bearer was ${token.length} long` } } }
              : { send: { type, data: observation } }
      })
      const program = Effect.gen(function* () {
        const { lease } = yield* Leasing.Leasing
        const session = yield* lease({ urls: [container.url], waitBusy: false, token: Redacted.make(token) })
        yield* session.reset("t-1")
        yield* Effect.ignore(session.coworkers)
        yield* session.step("submit")
        yield* session.finish
        return yield* session.episodeId
      })
      const { exit, seen, spans } = yield* watching(Effect.scoped(program))
      const episode_id = Option.getOrThrow(yield* Effect.flatten(Effect.succeed(exit)))
      const attributesOf = (name: string) =>
        spans.filter((span) => span.name === name).map(({ attributes }) => Object.fromEntries(attributes))
      const of = { container: container.url, task_id: "t-1", episode_id }

      assert.deepStrictEqual(attributesOf("miroir.lease"), [{ container: container.url }])
      assert.deepStrictEqual(attributesOf("miroir.episode"), [of])
      assert.deepStrictEqual(attributesOf("miroir.exchange"), [
        { container: container.url, type: "state" },
        { ...of, type: "reset" },
        { ...of, type: "coworkers", code: "NO_MODEL" },
        { ...of, type: "step" },
        { ...of, type: "record" }
      ])
      const episode = spans.find(({ name }) => name === "miroir.episode")
      const exchanges = spans.filter(({ name }) => name === "miroir.exchange")
      assert.deepStrictEqual(new Set(exchanges.slice(1).map(parentOf)), new Set([episode?.spanId]))
      assert.isTrue(spans.every(({ status }) => status._tag === "Ended"))
      assert.notInclude(seen, token)
    }).pipe(Effect.provide(leasing()))
  )

  it.scopedLive("metrics count leases, waiters, probes, exchanges and losses", () =>
    Effect.gen(function* () {
      const read = Effect.gen(function* () {
        const { count: steps } = yield* Metric.value(Telemetry.exchange.step)
        const { count: waits } = yield* Metric.value(Telemetry.leaseWait)
        return {
          held: (yield* Metric.value(Telemetry.leasesHeld)).value,
          waiting: (yield* Metric.value(Telemetry.leaseWaiters)).value,
          probes: (yield* Metric.value(Telemetry.probes)).count,
          lost: (yield* Metric.value(Telemetry.connectionsLost)).count,
          steps,
          waits
        }
      })
      const before = yield* read
      const since = Effect.map(read, (now) => ({
        held: now.held - before.held,
        waiting: now.waiting - before.waiting,
        probes: now.probes - before.probes,
        lost: now.lost - before.lost,
        steps: now.steps - before.steps,
        waits: now.waits - before.waits
      }))

      const container = yield* ScriptedContainer.make({
        replies: ({ index }) => (index < 2 ? { send: { data: observation } } : { close: 1011 })
      })
      const { lease } = yield* Leasing.Leasing
      const options = { urls: [container.url], waitBusy: true }
      yield* Effect.scoped(
        Effect.gen(function* () {
          const session = yield* lease(options)
          yield* session.reset("t")
          yield* session.step("x")
          assert.deepStrictEqual(yield* since, { held: 1, waiting: 0, probes: 1, lost: 0, steps: 1, waits: 1 })
          yield* Effect.ignore(session.step("y"))
        })
      )
      assert.deepStrictEqual(yield* since, { held: 0, waiting: 0, probes: 1, lost: 1, steps: 1, waits: 1 })

      yield* container.update({ health: { hang: true } })
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* Effect.forkScoped(lease(options))
          yield* container.awaitSeen(({ pendingRequests }) => pendingRequests === 1)
          assert.strictEqual((yield* since).waiting, 1)
        })
      )
      assert.strictEqual((yield* since).waiting, 0)
    }).pipe(Effect.provide(leasing()))
  )
})
