/**
 * Calibration against a loop of JSON.parse on whole lines that only counts: each in a process of its own, so that its
 * peak memory counts, and in turns. What is timed is the call, not the process's start.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { median, paired, row } from "./measure.mjs"
import { writeTraces } from "./traces.mjs"

const self = fileURLToPath(import.meta.url)

/** What is measured; gives the number of records. */
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
        JSON.parse(bytes.toString("utf8", start, end))
        records++
        start = end + 1
      }
      bytes.copyWithin(0, start, filled)
      kept = filled - start
    }
    fs.closeSync(fd)
    return records
  }
}

const measure = (side, file) =>
  JSON.parse(
    execFileSync(process.execPath, [self, side, file], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] })
  )

/** The rows of both figures, speed and memory, on one file of made-up traces. */
export const compare = async ({ data, name, pairs, target }) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "miroir-bench-"))
  try {
    const file = path.join(folder, "traces.jsonl")
    const written = writeTraces(file, data)
    const given = await paired({
      name,
      base: () => measure("parse", file),
      ours: () => measure("calibrate", file),
      pairs
    })
    for (const { records } of given.flatMap(({ base, ours }) => [base, ours])) {
      if (records !== written.records) throw new Error(`${records} of ${written.records} records were seen`)
    }
    const speed = (side) => (written.bytes / 1e6 / median(given.map((pair) => pair[side].seconds))).toFixed(0)
    return [
      row({
        name,
        measure: `speed over JSON.parse on whole lines (${speed("ours")} MB/s, ${speed("base")} MB/s)`,
        values: given.map(({ base, ours }) => base.seconds / ours.seconds),
        target: { atLeast: target.speed }
      }),
      row({
        name: `${name} memory`,
        measure: "MB resident at the peak, the worst of all runs",
        values: given.map(({ ours }) => ours.megabytes),
        target: { atMost: target.megabytes },
        digits: 0,
        worst: true
      })
    ]
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

if (process.argv[1] === self) {
  const [side, file] = process.argv.slice(2)
  const run = await sides[side](file)
  const start = performance.now()
  const records = await run()
  const seconds = (performance.now() - start) / 1000
  console.log(JSON.stringify({ records, seconds, megabytes: process.resourceUsage().maxRSS / 1024 }))
}
