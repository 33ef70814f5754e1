/** What the benches share: turns, medians and spreads, and the form of a row. */

export const median = (values) => {
  const sorted = values.toSorted((one, other) => one - other)
  return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.ceil((sorted.length - 1) / 2)]) / 2
}

/**
 * Has two sides run in turn, so that a machine whose speed drifts is fair to both, and gives what each pair gave; the
 * first pairs warm up, as many as `warmups`, and are dropped. Which of the two goes first changes from pair to pair.
 */
export const paired = async ({ name, base, ours, pairs, warmups = 0 }) => {
  const given = []
  for (let pair = -warmups; pair < pairs; pair++) {
    process.stderr.write(`${name}: ${pair < 0 ? "warming up" : `pair ${pair + 1} of ${pairs}`}\n`)
    const turns = [() => base(), () => ours()]
    const ours1st = pair % 2 !== 0
    if (ours1st) turns.reverse()
    const results = []
    for (const turn of turns) results.push(await turn())
    if (ours1st) results.reverse()
    if (pair >= 0) given.push({ base: results[0], ours: results[1] })
  }
  return given
}

/** Seconds that a call takes. */
export const timed = async (call) => {
  const start = performance.now()
  await call()
  return (performance.now() - start) / 1000
}

/**
 * A row: `values` are the pairs' figures, `target` is `{ atLeast }` or `{ atMost }`, which the median has to reach, and
 * `worst` says that the worst of them has to.
 */
export const row = ({ name, measure, values, target, digits = 2, worst = false }) => {
  const rounded = (value) => Number(value.toFixed(digits))
  const [low, high] = [Math.min(...values), Math.max(...values)]
  const wantsMore = target.atLeast !== undefined
  const ratio = worst ? (wantsMore ? low : high) : median(values)
  return {
    name,
    measure,
    ratio: rounded(ratio),
    spread: [rounded(low), rounded(high)],
    target: wantsMore ? `>= ${target.atLeast}` : `<= ${target.atMost}`,
    ok: wantsMore ? ratio >= target.atLeast : ratio <= target.atMost
  }
}

/** Lines of cells, the columns as wide as need be. */
export const aligned = (lines) => {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column]))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

/** The rows as one table. */
export const table = (rows) =>
  aligned([
    ["name", "median", "min to max", "to reach", "", "measured"],
    ...rows.map(({ measure, name, ok, ratio, spread: [low, high], target }) => [
      name,
      String(ratio),
      `${low} to ${high}`,
      target,
      ok ? "reached" : "missed",
      measure
    ])
  ])
