/**
 * Tries every fault in every phase of an episode, and schedules of faults that are drawn at random, and prints what came of
 * them:
 *
 *     npm run faults [-- RUNS [SCHEDULES]]
 *
 * Each fault is tried RUNS times, 3 if not given, and so many SCHEDULES are played, 500 if not given. Exits with 1 where one
 * came to what it should not.
 */
import { fileURLToPath } from "node:url"
import { startVitest } from "vitest/node"
import { aligned } from "../bench/measure.mjs"

const [runs = "3", schedules = "500"] = process.argv.slice(2)
process.env.FAULT_RUNS = runs
process.env.FAULT_SCHEDULES = schedules

const tests = []
const reporter = {
  onTestCaseResult(test) {
    const { errors = [], state } = test.result()
    tests.push({ name: test.fullName, state, errors, meta: test.meta() })
    process.stderr.write(`${state === "passed" ? "ok    " : "FAILED"} ${test.fullName}\n`)
  }
}
const root = fileURLToPath(new URL("..", import.meta.url))
const vitest = await startVitest(
  "test",
  ["packages/core/test/Faults.test.ts", "packages/core/test/FaultSchedules.test.ts"],
  {
    root,
    watch: false,
    reporters: [reporter]
  }
)
await vitest?.close()

/** The faults of a phase that came to the same, in a line. */
const rows = (played) => {
  const groups = new Map()
  for (const one of played) {
    const key = `${one.phase}\n${one.outcome}`
    groups.set(key, [...(groups.get(key) ?? []), one])
  }
  return [...groups.values()].map((group) => {
    const [{ outcome, phase }] = group
    const faults = [...new Set(group.map(({ fault }) => fault))]
    const slowest = Math.max(...group.map(({ seconds }) => seconds))
    return [phase, outcome, String(group.length), `${slowest.toFixed(2)} s`, faults.join(", ")]
  })
}

const played = tests.flatMap(({ meta }) => meta.faults ?? [])
console.log(aligned([["phase", "what came of it", "times", "slowest", "faults"], ...rows(played)]))
console.log()
console.log(`${played.length} faults in ${new Set(played.map(({ phase }) => phase)).size} phases.`)
const counts = {}
for (const { meta } of tests) {
  for (const [name, count] of Object.entries(meta.schedules ?? {})) counts[name] = (counts[name] ?? 0) + count
}
const { calls, failures, interruptions, leases, played: schedulesPlayed, strikes } = counts
console.log(
  `${schedulesPlayed} schedules: ${strikes} faults struck; ${leases} leases, ${calls} calls, of which ${failures} failed; ${interruptions} clients were interrupted.`
)
const failed = tests.filter(({ state }) => state === "failed")
for (const { errors, name } of failed) {
  console.log(`\n${name}`)
  for (const { diff, message } of errors) console.log([message, diff].filter((part) => part !== undefined).join("\n"))
}
const isWhole = tests.length > 0 && failed.length === 0
if (isWhole) console.log("All came to what it should, in time, and left no fiber, socket or rejection behind.")
process.exitCode = isWhole ? 0 : 1
