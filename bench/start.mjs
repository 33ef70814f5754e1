/** `start`: the bundled command line from its start to its end, over `node -e 0`. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { paired, row, timed } from "./measure.mjs"
import { writeTraces } from "./traces.mjs"

const bin = fileURLToPath(new URL("../packages/miroir-effect/dist/bin.js", import.meta.url))
const pairs = 21

const run = (...args) => timed(() => execFileSync(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] }))

export const rows = async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "miroir-bench-"))
  try {
    const traces = path.join(folder, "traces.jsonl")
    writeTraces(traces, { records: 10, tasks: 3, long: true })
    const over = async ({ name, measure, args, target }) => {
      const given = await paired({ name, base: () => run("-e", "0"), ours: () => run(bin, ...args), pairs, warmups: 2 })
      return row({ name, measure, values: given.map(({ base, ours }) => ours / base), target })
    }
    return [
      await over({
        name: "start",
        measure: "time of miroir-effect --help over node -e 0",
        args: ["--help"],
        target: { atMost: 2.5 }
      }),
      await over({
        name: "start calibrate",
        measure: "time of miroir-effect calibrate, ten records, over node -e 0",
        args: ["calibrate", traces, "--model", "bench", "--out", path.join(folder, "calibration.json")],
        target: { atMost: 3 }
      })
    ]
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}
