/**
 * `sessions`: the resident memory that a leased, idle session adds, at 1,000 of them in one process, beside that of a bare
 * `ws` socket which has asked for the state too. Each side runs in a process of its own, and has opened one before. The
 * containers have a port each, since what is kept by origin counts.
 */
import { execFile } from "node:child_process"
import { setTimeout } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { median, paired, row } from "./measure.mjs"
import { startPool } from "./pool.mjs"

const self = fileURLToPath(import.meta.url)
const sessions = 1000
const pairs = 5

/** What gives a way to open one more; what it opens stays open. */
const sides = {
  base: async () => {
    const { open } = await import("./bare.mjs")
    const held = []
    return async (url) => held.push(await open(url))
  },
  ours: async () => {
    const Effect = await import("effect/Effect")
    const ManagedRuntime = await import("effect/ManagedRuntime")
    const Scope = await import("effect/Scope")
    const Leasing = await import("@miroir-effect/core/Leasing")
    const { leasing } = await import("./leasing.mjs")
    const runtime = ManagedRuntime.make(leasing())
    const held = []
    return async (url) => {
      const scope = await runtime.runPromise(Scope.make())
      const session = Effect.flatMap(Leasing.Leasing, ({ lease }) => lease({ urls: [url], waitBusy: false }))
      held.push(scope, await runtime.runPromise(Scope.extend(session, scope)))
    }
  }
}

const run = async (side, urls) => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", self, side, ...urls])
  return Number(stdout)
}

export const rows = async () => {
  const pool = await startPool(Array.from({ length: sessions + 1 }, () => "free"))
  try {
    const given = await paired({
      name: "sessions",
      base: () => run("base", pool.urls),
      ours: () => run("ours", pool.urls),
      pairs
    })
    const base = median(given.map((pair) => pair.base))
    return [
      row({
        name: "sessions",
        measure: `KB resident that a held session adds, at ${sessions} (a bare ws socket: ${base.toFixed(0)})`,
        values: given.map(({ ours }) => ours),
        target: { atMost: 60 },
        digits: 0
      })
    ]
  } finally {
    pool.stop()
  }
}

/** After what can be collected is, and what waits for the next turns of the event loop has run. */
const resident = async () => {
  for (let turn = 0; turn < 5; turn++) {
    await setTimeout(100)
    globalThis.gc()
  }
  return process.memoryUsage.rss() / 1024
}

if (process.argv[1] === self) {
  const [side, first, ...urls] = process.argv.slice(2)
  const open = await sides[side]()
  await open(first)
  const before = await resident()
  for (const url of urls) await open(url)
  // The connections of the health checks are kept for 4 s; an idle session has none.
  await setTimeout(5000)
  console.log(((await resident()) - before) / urls.length)
  process.exit()
}
