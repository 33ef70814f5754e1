/** Runs two effects in turn, so that a machine whose speed drifts is fair to both, and compares them pair by pair. */
import { Effect } from "effect"

export const paired = ({ base, ours, pairs }) =>
  Effect.gen(function* () {
    const ratios = []
    for (let pair = -1; pair < pairs; pair++) {
      const first = yield* timed(pair % 2 === 0 ? base : ours)
      const second = yield* timed(pair % 2 === 0 ? ours : base)
      const ratio = pair % 2 === 0 ? first / second : second / first
      // The first pair warms up.
      if (pair >= 0) ratios.push(ratio)
    }
    return spreadOf(ratios)
  })

export const spreadOf = (ratios) => {
  const sorted = ratios.toSorted((a, b) => a - b)
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))]
  return { ratio: at(0.5), low: at(0), high: at(1) }
}

const timed = (effect) =>
  Effect.gen(function* () {
    const start = performance.now()
    yield* effect
    return performance.now() - start
  })
