import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import * as Timers from "../src/internal/timers.js"
import * as VirtualTime from "./support/virtualTime.js"

/** A timer that is set at one time and cancelled at another, if it is not over then. */
const plans = FastCheck.array(
  FastCheck.record({
    set: FastCheck.nat(20),
    wait: FastCheck.nat(20),
    cancel: FastCheck.option(FastCheck.nat(40), { nil: undefined })
  }),
  { maxLength: 12 }
)

/** Runs until there is nothing to do any more, or until a time. */
const runTo = (time: VirtualTime.VirtualTime, end: number): void => {
  for (;;) {
    while (time.step() || time.wake()) {}
    const next = time.nextEnd()
    if (next === undefined || next > end) break
    time.goTo(next)
  }
  time.goTo(end)
}

describe("timers", () => {
  it("go off in their order, each in its time, unless they are cancelled, and leave no fiber behind", () => {
    FastCheck.assert(
      FastCheck.property(plans, (plan) => {
        const time = VirtualTime.make(0)
        const timers = time.run(Timers.make)
        const fired: Array<string> = []
        const expected: Array<{ readonly at: number; readonly name: string }> = []
        const cancels = new Map<number, Timers.Cancel>()
        const moments = new Set(plan.flatMap(({ cancel, set }) => (cancel === undefined ? [set] : [set, cancel])))
        for (const moment of [...moments].sort((one, other) => one - other)) {
          runTo(time, moment)
          plan.forEach(({ cancel, set, wait }, index) => {
            if (cancel === moment) cancels.get(index)?.()
            if (set !== moment) return
            const at = set + wait
            cancels.set(
              index,
              timers.after(wait, () => fired.push(`${index} at ${time.now()}`))
            )
            if (cancel === undefined || cancel <= set || at <= cancel) expected.push({ at, name: `${index} at ${at}` })
          })
        }
        runTo(time, 100)
        assert.deepStrictEqual(
          fired,
          expected.sort((one, other) => one.at - other.at).map(({ name }) => name)
        )
        assert.strictEqual(time.fibers(), 0)
      })
    )
  })

  it("never go off at once, and are gone with the last one's cancelling", () => {
    const time = VirtualTime.make(0)
    const timers = time.run(Timers.make)
    let fired = 0
    timers.after(0, () => fired++)
    assert.strictEqual(fired, 0)
    const cancel = timers.after(5, () => fired++)
    runTo(time, 1)
    assert.deepStrictEqual([fired, time.fibers()], [1, 1])
    cancel()
    runTo(time, 1)
    assert.deepStrictEqual([fired, time.fibers()], [1, 0])
  })

  it("interrupt what takes too long, and wait for its end; an interruption does the same", () => {
    for (const { expected, interruptedAt, takes } of [
      { takes: 5, interruptedAt: undefined, expected: { value: "done", at: 5, interrupted: false } },
      { takes: 20, interruptedAt: undefined, expected: { value: "late", at: 13, interrupted: true } },
      { takes: 20, interruptedAt: 7, expected: { value: "interrupted", at: 10, interrupted: true } }
    ]) {
      const time = VirtualTime.make(0)
      const timers = time.run(Timers.make)
      const seen = { value: "", at: 0, interrupted: false }
      const slow = Effect.as(Effect.sleep(takes), "done").pipe(
        Effect.onInterrupt(() =>
          Effect.sleep(3).pipe(
            Effect.andThen(() => {
              seen.interrupted = true
            })
          )
        )
      )
      const fiber = time.fork(
        Effect.onExit(timers.within(slow, 10, Effect.succeed("late")), (exit) =>
          Effect.sync(() => {
            seen.value = Exit.isSuccess(exit) ? exit.value : Exit.isInterrupted(exit) ? "interrupted" : "failed"
            seen.at = time.now()
          })
        )
      )
      if (interruptedAt !== undefined) {
        runTo(time, interruptedAt)
        time.interrupt(fiber)
      }
      runTo(time, 100)
      assert.deepStrictEqual(seen, expected)
      assert.strictEqual(time.fibers(), 0)
    }
  })
})
