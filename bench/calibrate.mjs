/**
 * `calibrate` against what one would write by hand, a loop of JSON.parse on whole
 * lines that tallies what it reads: each in a process of its own, so that its peak
 * memory counts, and in turns, so that a busy machine slows both.
 *
 *     node bench/calibrate.mjs [--bytes 1e9] [--pairs 5]
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { writeTraces } from "./traces.mjs"

const self = fileURLToPath(import.meta.url)

/** What is measured, each in a process of its own; gives the number of records. */
const sides = {
  calibrate: async (file) => {
    const Effect = await import("effect/Effect")
    const Layer = await import("effect/Layer")
    const NodeContext = await import("@effect/platform-node/NodeContext")
    const Calibration = await import("@miroir-effect/core/Calibration")
    const Traces = await import("@miroir-effect/core/Traces")
    const layer = Calibration.layer.pipe(Layer.provideMerge(Traces.layer), Layer.provide(NodeContext.layer))
    const calibrate = Effect.flatMap(Calibration.Calibration, (calibration) =>
      calibration.calibrate({ traces: file, model: "bench" })
    ).pipe(Effect.provide(layer))
    return async () => {
      const { tasks } = await Effect.runPromise(calibrate)
      let records = 0
      for (const task of tasks.values()) records += task.rollouts + task.void
      return records
    }
  },
  parse: async (file) => () => {
    const tasks = new Map()
    const fd = fs.openSync(file, "r")
    const bytes = Buffer.allocUnsafe(1 << 20)
    let kept = 0
    let records = 0
    for (;;) {
      const count = fs.readSync(fd, bytes, kept, bytes.length - kept, null)
      if (count === 0) break
      const filled = kept + count
      let start = 0
      for (let end = bytes.indexOf(10, start); end >= 0 && end < filled; end = bytes.indexOf(10, start)) {
        const { metadata, reward, task_id } = JSON.parse(bytes.toString("utf8", start, end))
        const task = tasks.get(task_id) ?? { hash: metadata.task_hash, rewards: [], successes: 0, harmed: 0, void: 0 }
        tasks.set(task_id, task)
        if (task.hash !== metadata.task_hash) throw new Error(`two versions of ${task_id}`)
        if (reward === null) task.void++
        else {
          task.rewards.push(reward)
          if (metadata.success) task.successes++
          if (metadata.harm) task.harmed++
        }
        records++
        start = end + 1
      }
      bytes.copyWithin(0, start, filled)
      kept = filled - start
    }
    fs.closeSync(fd)
    for (const task of tasks.values()) {
      const mean = task.rewards.reduce((sum, reward) => sum + reward, 0) / task.rewards.length
      task.mean = mean
      task.variance = task.rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / task.rewards.length
    }
    return records
  }
}

const measure = (side, file) =>
  JSON.parse(execFileSync(process.execPath, [self, "--side", side, file], { encoding: "utf8" }))

const median = (values) => {
  const sorted = values.toSorted((one, other) => one - other)
  return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.ceil((sorted.length - 1) / 2)]) / 2
}

/**
 * Rows of `{name, measure, ratio, spread, target, ok}`: `ratio` is how many times as fast as the loop (median of the
 * pairs), `spread` the least and the greatest of them; a row of memory has MB in `ratio`'s place.
 */
export const rows = ({ bytes = 1e9, records = 1e6, pairs = 5 } = {}) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "miroir-bench-"))
  try {
    return [
      compare("6 KB records", { bytes, tasks: 1000, long: true }, { ratio: 2.5, megabytes: 160 }),
      compare(
        "short records of 100,000 tasks",
        { records, tasks: 100_000, long: false },
        { ratio: 1.5, megabytes: 400 }
      )
    ].flat()
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }

  function compare(name, data, target) {
    const file = path.join(folder, "traces.jsonl")
    const written = writeTraces(file, data)
    const runs = Array.from({ length: pairs }, (_, index) => {
      // The first of a pair has no advantage over all pairs.
      const order = index % 2 === 0 ? ["calibrate", "parse"] : ["parse", "calibrate"]
      return Object.fromEntries(order.map((side) => [side, measure(side, file)]))
    })
    for (const run of runs) {
      for (const { records: seen } of Object.values(run)) {
        if (seen !== written.records) throw new Error(`${seen} of ${written.records} records were seen`)
      }
    }
    const ratios = runs.map(({ calibrate, parse }) => parse.seconds / calibrate.seconds)
    const megabytes = Math.max(...runs.map(({ calibrate }) => calibrate.megabytes))
    const seconds = (side) => median(runs.map((run) => run[side].seconds))
    const speed = (side) => `${(written.bytes / 1e6 / seconds(side)).toFixed(0)} MB/s`
    const spread = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`
    const size = `${(written.bytes / 1e9).toFixed(2)} GB`
    return [
      {
        name: `calibrate over JSON.parse, ${name}`,
        measure: `${size}, ${speed("calibrate")} over ${speed("parse")}`,
        ratio: Number(median(ratios).toFixed(2)),
        spread,
        target: `at least ${target.ratio}`,
        ok: median(ratios) >= target.ratio
      },
      {
        name: `calibrate's peak memory, ${name}`,
        measure: "MB resident",
        ratio: Math.round(megabytes),
        spread: "",
        target: `at most ${target.megabytes}`,
        ok: megabytes <= target.megabytes
      }
    ]
  }
}

if (process.argv[1] === self) {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      side: { type: "string" },
      bytes: { type: "string" },
      records: { type: "string" },
      pairs: { type: "string" }
    }
  })
  if (values.side === undefined) {
    const given = Object.entries(values).map(([name, value]) => [name, Number(value)])
    console.table(rows(Object.fromEntries(given)))
  } else {
    const run = await sides[values.side](positionals[0])
    const start = performance.now()
    const records = await run()
    const seconds = (performance.now() - start) / 1000
    console.log(JSON.stringify({ records, seconds, megabytes: process.resourceUsage().maxRSS / 1024 }))
  }
}
