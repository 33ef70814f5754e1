/**
 * `lease-processes`: 4 processes of 64 fibers over the same 64 containers, 1,280 episodes of 200 ms, in turn with the
 * same fibers in one process, which can hand a container over where several have to ask.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { median, paired, row } from "./measure.mjs"
import { fairness, share, startPool } from "./pool.mjs"

const containers = 64
const processes = 4
const fibers = 64
const episodes = 5
const pairs = 5

export const rows = async () => {
  const pool = await startPool(Array.from({ length: containers }, () => "free"))
  const inProcesses = async (count, fibers) => {
    const children = Array.from({ length: count }, () => fork(new URL("./churn-process.mjs", import.meta.url)))
    try {
      await Promise.all(children.map((child) => once(child, "message")))
      // Each has run once before, by itself: a process whose code is cold comes too late for the first containers.
      for (const child of children) {
        child.send({ urls: pool.urls, fibers: containers, episodes: 1 })
        await once(child, "message")
      }
      await pool.report()
      const done = children.map((child) => once(child, "message"))
      children.forEach((child, index) => {
        child.send({ urls: pool.urls, fibers, episodes, token: `process-${index}` })
      })
      await Promise.all(done)
      return await pool.report()
    } finally {
      for (const child of children) child.kill()
    }
  }
  try {
    const given = await paired({
      name: "lease-processes",
      base: () => inProcesses(1, processes * fibers),
      ours: () => inProcesses(processes, fibers),
      pairs
    })
    const one = median(given.map(({ base }) => share(base, containers)))
    const probes = median(given.map(({ ours }) => ours.probes / ours.sessions.length))
    return [
      row({
        name: "lease-processes",
        measure: `share of the containers' time leased (${one.toFixed(3)} in one process; ${probes.toFixed(1)} probes an episode)`,
        values: given.map(({ ours }) => share(ours, containers)),
        target: { atLeast: 0.8 },
        digits: 3
      }),
      row({
        name: "lease-processes fair",
        measure: "Jain's index of the processes' leased time while all have work",
        values: given.map(({ ours }) => fairness(ours)),
        target: { atLeast: 0.9 },
        digits: 3
      })
    ]
  } finally {
    pool.stop()
  }
}
