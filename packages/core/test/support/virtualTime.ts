/**
 * A clock and a scheduler without any real time: what runs on them is run step by step, in one thread of plain calls, and
 * so the same way each time. A TestClock gives the event loop several turns for every sleep that ends, some 3 ms; here a
 * sleep's end costs microseconds, which thousands of runs need, and between two steps of the fibers there is room to look
 * and to act.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Random from "effect/Random"
import type * as Scheduler from "effect/Scheduler"
import { Counting } from "./counting.js"

export interface VirtualTime {
  readonly now: () => number
  /** Starts an effect in this time. */
  readonly fork: <A, E>(effect: Effect.Effect<A, E>) => Fiber.RuntimeFiber<A, E>
  /** Runs an effect that needs no time to go on. */
  readonly run: <A>(effect: Effect.Effect<A>) => A
  /** Runs one step of one fiber; false if there is none to run before time goes on. */
  readonly step: () => boolean
  /** Ends the sleeps that are over, such as take no time; false if there is none. */
  readonly wake: () => boolean
  /** When the next sleep ends. */
  readonly nextEnd: () => number | undefined
  /** Sets the time, and ends the sleeps that are over by then. */
  readonly goTo: (time: number) => void
  readonly interrupt: (fiber: Fiber.RuntimeFiber<unknown, unknown>) => void
  /** Fibers that were started by others and have not ended.. */
  readonly fibers: () => number
}

interface Sleep {
  readonly end: number
  readonly wake: () => void
}

export const make = (seed: number): VirtualTime => {
  let time = 0
  const tasks: Array<() => void> = []
  let sleeps: Array<Sleep> = []
  const scheduler: Scheduler.Scheduler = {
    shouldYield: () => false,
    scheduleTask: (task) => {
      tasks.push(task)
    }
  }
  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => time,
    unsafeCurrentTimeNanos: () => BigInt(Math.round(time * 1e6)),
    currentTimeMillis: Effect.sync(() => time),
    currentTimeNanos: Effect.sync(() => BigInt(Math.round(time * 1e6))),
    sleep: (duration) =>
      Effect.async<void>((resume) => {
        const sleep: Sleep = { end: time + Duration.toMillis(duration), wake: () => resume(Effect.void) }
        sleeps.push(sleep)
        return Effect.sync(() => {
          sleeps = sleeps.filter((other) => other !== sleep)
        })
      })
  }
  const random = Random.make(seed)
  const supervisor = new Counting()
  const fork: VirtualTime["fork"] = (effect) =>
    Effect.runFork(effect.pipe(Effect.withClock(clock), Effect.withRandom(random), Effect.supervised(supervisor)), {
      scheduler
    })
  const step = (): boolean => {
    const task = tasks.shift()
    task?.()
    return task !== undefined
  }
  const wake = (): boolean => {
    const over = sleeps.filter(({ end }) => end <= time).sort((a, b) => a.end - b.end)
    sleeps = sleeps.filter(({ end }) => end > time)
    for (const { wake } of over) wake()
    return over.length > 0
  }
  return {
    now: () => time,
    fork,
    run: (effect) => {
      const fiber = fork(effect)
      for (;;) {
        const exit = fiber.unsafePoll()
        if (exit !== null && Exit.isSuccess(exit)) return exit.value
        if (exit !== null || !step()) throw new Error(`it did not end: ${exit}`)
      }
    },
    step,
    wake,
    nextEnd: () => (sleeps.length === 0 ? undefined : Math.min(...sleeps.map(({ end }) => end))),
    goTo: (to) => {
      time = to
      wake()
    },
    interrupt: (fiber) => fiber.unsafeInterruptAsFork(FiberId.none),
    fibers: () => supervisor.alive
  }
}
