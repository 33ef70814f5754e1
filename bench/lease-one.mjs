/** `lease-one`: the one free container among 512, of which 256 hang and 255 are leased, over asking it alone by hand. */
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Scope from "effect/Scope"
import * as bare from "./bare.mjs"
import { leasing } from "./leasing.mjs"
import { median, paired, row, timed } from "./measure.mjs"
import { startPool } from "./pool.mjs"

const pairs = 15

export const rows = async () => {
  // Where the free one is in the list does not matter: a round begins at a random place.
  const pool = await startPool(
    Array.from({ length: 512 }, (_, at) => (at === 0 ? "free" : at % 2 ? "hanging" : "leased"))
  )
  const [free] = pool.urls
  try {
    const base = async () => {
      let socket
      const seconds = await timed(async () => {
        await bare.probe(free)
        socket = await bare.open(free)
      })
      await bare.close(socket)
      return seconds
    }
    const ours = async () => {
      const runtime = ManagedRuntime.make(leasing())
      const { lease } = await runtime.runPromise(Leasing.Leasing)
      const scope = Effect.runSync(Scope.make())
      const seconds = await timed(() =>
        runtime.runPromise(lease({ urls: pool.urls, waitBusy: true }).pipe(Scope.extend(scope)))
      )
      await runtime.runPromise(Scope.close(scope, Exit.void))
      await runtime.dispose()
      return seconds
    }
    const given = await paired({ name: "lease-one", base, ours, pairs, warmups: 1 })
    const all = (side) => median(given.map((pair) => pair[side])) * 1000
    return [
      row({
        name: "lease-one",
        measure: `seconds more than by hand (${all("ours").toFixed(0)} ms, ${all("base").toFixed(1)} ms)`,
        values: given.map(({ base, ours }) => ours - base),
        target: { atMost: 0.1 },
        digits: 3
      })
    ]
  } finally {
    pool.stop()
  }
}
