/**
 * Measures, and prints one table of all that was measured:
 *
 *     npm run bench [-- [--json] NAME...]
 *
 * Names are those of `benches`; without any, all are run. Progress goes to stderr. The exit code is 0 also where a
 * figure is not reached, since this measures and does not judge; it is not where something failed.
 */
import { parseArgs } from "node:util"
import { table } from "./measure.mjs"

/** Modules with `rows`, which runs the bench and gives its rows. */
const benches = {
  exchange: () => import("./exchange.mjs"),
  sessions: () => import("./sessions.mjs"),
  calibrate: () => import("./calibrate.mjs"),
  "calibrate-many": () => import("./calibrate-many.mjs"),
  "lease-one": () => import("./lease-one.mjs"),
  "lease-churn": () => import("./lease-churn.mjs"),
  "lease-processes": () => import("./lease-processes.mjs"),
  rollout: () => import("./rollout.mjs"),
  start: () => import("./start.mjs")
}

// All of it is on loopback, which the proxy of the environment has nothing to do with.
process.env.NO_PROXY = "*"

const { positionals, values } = parseArgs({ allowPositionals: true, options: { json: { type: "boolean" } } })
const unknown = positionals.filter((name) => !Object.hasOwn(benches, name))
if (unknown.length > 0) {
  process.stderr.write(`No bench is called ${unknown.join(" or ")}; there are ${Object.keys(benches).join(", ")}.\n`)
  process.exit(2)
}

const rows = []
for (const name of positionals.length > 0 ? positionals : Object.keys(benches)) {
  const bench = await benches[name]()
  rows.push(...(await bench.rows()))
}
console.log(values.json ? JSON.stringify(rows, undefined, 2) : table(rows))
