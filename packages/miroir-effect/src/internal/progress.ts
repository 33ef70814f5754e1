/** How a run of rollouts is shown: a live line on a terminal, elsewhere a line every ten seconds; at the end, one more. */

import type * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import type { EpisodeError } from "@miroir-effect/core/MiroirError"
import type { Task } from "@miroir-effect/core/Protocol"
import type * as Rollout from "@miroir-effect/core/Rollout"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as Text from "@miroir-effect/core/Text"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as Stream from "effect/Stream"
import { beside, isLive, withLiveLine } from "./liveLine.js"

/** What has come of a run. */
export interface Counts {
  /** Rollouts of the plan. */
  readonly total: number
  /** Those that are graded or void, some of them from before. */
  readonly done: number
  readonly successes: number
  readonly void: number
  /** Those that were given up. */
  readonly failed: number
  /** What the policy's model took in and gave out. */
  readonly tokens: number
}

/** How many rollouts of a task there are, some of them from before. */
export interface OfTask {
  readonly task: Task
  readonly graded: number
  readonly void: number
}

/** What has come of a run that is over. */
export interface Ended extends Counts {
  readonly tasks: ReadonlyArray<OfTask>
}

/** What goes on at one moment. */
export interface Moment extends Counts {
  readonly inFlight: number
  /** Workers that wait for a container. */
  readonly waiting: number
  readonly callsWaiting: number
  readonly callsBackingOff: number
  /** Milliseconds that are left; none while it cannot be told. */
  readonly left: number | undefined
}

/** Between two lines where none is drawn anew. */
const interval = Duration.seconds(10)

/** Runs a run to its end, shows it, and gives what came of it. */
export const following = Effect.fnUntraced(function* <E, R>(
  events: Stream.Stream<Rollout.Event, E, R>
): Effect.fn.Return<Ended, E, R | Leasing.Leasing> {
  const leasing = yield* Leasing.Leasing
  const began = yield* Clock.currentTimeNanos
  const counts = { total: 0, done: 0, successes: 0, void: 0, failed: 0, tokens: 0 }
  const tasks = new Map<string, { readonly task: Task; graded: number; void: number }>()
  let inFlight = 0
  /** Rollouts that were played to their end here, by which the time that is left is reckoned. */
  let played = 0

  /** What all containers meet, an endpoint that is away, would be said hundreds of times. */
  const said = new Set<string>()
  const once = (what: string, { message }: EpisodeError): Effect.Effect<void> => {
    if (said.has(message)) return Effect.logDebug(`${what}: ${message}`)
    said.add(message)
    return Effect.logWarning(`${what}: ${message} (This is said once; what else it breaks is counted.)`)
  }

  const count = ({ finished: { reward, success }, task: { id } }: Extract<Rollout.Event, { _tag: "Saved" }>): void => {
    const task = tasks.get(id)
    if (reward === null) {
      counts.void++
      if (task !== undefined) task.void++
    } else {
      if (success) counts.successes++
      if (task !== undefined) task.graded++
    }
  }

  const seen = (event: Rollout.Event): Effect.Effect<void> => {
    switch (event._tag) {
      case "Began":
        counts.total = event.total
        counts.done = event.kept
        counts.void = event.void
        counts.successes = event.successes
        // Those that are void count as there only where they are not done again.
        for (const { graded, task, void: voids } of event.tasks) {
          tasks.set(task.id, { task, graded, void: event.void === 0 ? 0 : voids })
        }
        return event.superseded === undefined
          ? Effect.void
          : Effect.logInfo(`What was there before is in ${Text.visible(event.superseded)} now.`)
      case "Started":
        inFlight++
        return Effect.void
      case "Spoke":
        counts.tokens += tokensOf(event.usage)
        return Effect.void
      case "Saved":
        inFlight--
        played++
        counts.done++
        count(event)
        return Effect.logDebug(`${nameOf(event)} is saved in ${Text.visible(event.file)}`)
      case "Broke":
        inFlight--
        return once(`${nameOf(event)} broke and is done again`, event.error)
      case "Failed":
        inFlight--
        played++
        counts.failed++
        return once(`${nameOf(event)} is given up after ${Text.counted(event.attempt, "attempt")}`, event.error)
      default:
        return Effect.void
    }
  }

  const moment: Effect.Effect<Moment> = Effect.gen(function* () {
    const passed = Number((yield* Clock.currentTimeNanos) - began) / 1e6
    const { backingOff, waiting } = Telemetry.modelCalls.policy
    return {
      ...counts,
      inFlight,
      waiting: (yield* leasing.stats).waiting,
      callsWaiting: (yield* Metric.value(waiting)).value,
      callsBackingOff: (yield* Metric.value(backingOff)).value,
      left: played === 0 ? undefined : (passed / played) * (counts.total - counts.done - counts.failed)
    }
  })

  const tell = Effect.flatMap(moment, (now) => Effect.logInfo(long(now)))
  const shown = isLive()
    ? withLiveLine((columns) => Effect.map(moment, (now) => short(now, columns)))
    : beside(Effect.forever(Effect.zipRight(Effect.sleep(interval), tell)))
  yield* shown(Stream.runForEach(events, seen))
  return { ...counts, tasks: [...tasks.values()] }
})

/** `37 of 96 rollouts: 20 succeeded, 1 void, 0 failed` */
export const summaryOf = ({ done, failed, successes, total, void: voids }: Counts): string =>
  `${done} of ${Text.counted(total, "rollout")}: ${successes} succeeded, ${voids} void, ${failed} failed`

/** The line for who reads it later. */
const long = (now: Moment): string =>
  [
    summaryOf(now),
    `${now.inFlight} in flight, ${now.waiting} waiting for a container`,
    `model calls: ${now.callsWaiting} waiting, ${now.callsBackingOff} backing off`,
    `${abbreviated(now.tokens)} tokens`,
    ...(now.left === undefined ? [] : [`about ${span(now.left)} left`])
  ].join("; ")

/** The line as it fits: in full, else in few words, without what is nought; cut only where even that is too long. */
export const short = (now: Moment, columns: number): string => {
  const full = long(now)
  if (full.length <= columns) return full
  const counted: ReadonlyArray<readonly [count: number, what: string]> = [
    [now.successes, "ok"],
    [now.void, "void"],
    [now.failed, "failed"],
    [now.inFlight, "playing"],
    [now.waiting, "waiting"],
    [now.callsWaiting, "calls queued"],
    [now.callsBackingOff, "calls backing off"]
  ]
  const parts = counted.flatMap(([count, what]) => (count === 0 ? [] : [`${count} ${what}`]))
  if (now.tokens > 0) parts.push(`${abbreviated(now.tokens)} tok`)
  if (now.left !== undefined) parts.push(`${span(now.left)} left`)
  return Text.cut([`${now.done}/${now.total}`, ...parts].join(" · "), columns)
}

/** `Rollout 5 of t3` */
const nameOf = ({ rollout, task }: Rollout.Place): string => `Rollout ${rollout + 1} of ${Text.visible(task.id)}`

/** As the endpoint counts them; 0 where it does not. */
const tokensOf = (usage: Json.JsonObject | undefined): number => {
  const { completion_tokens, prompt_tokens, total_tokens } = usage ?? {}
  return countIn(total_tokens) ?? (countIn(prompt_tokens) ?? 0) + (countIn(completion_tokens) ?? 0)
}

const countIn = (value: Json.Json | undefined): number | undefined => {
  const count = typeof value === "number" || typeof value === "bigint" ? Number(value) : Number.NaN
  return Number.isFinite(count) && count >= 0 ? count : undefined
}

/** `812`, `41k`, `1.2M` */
const abbreviated = (count: number): string => {
  if (count < 1000) return `${count}`
  const [value, unit] = count < 999_500 ? [count / 1e3, "k"] : [count / 1e6, "M"]
  return `${value.toFixed(value < 9.95 ? 1 : 0)}${unit}`
}

/** `40 s`, `12 min`, `3.5 h` */
const span = (millis: number): string => {
  const seconds = millis / 1000
  if (seconds < 90) return `${Math.ceil(seconds)} s`
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}
