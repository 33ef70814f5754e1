/**
 * `lease-churn`: 256 fibers over 64 containers, 1,280 episodes of 200 ms. The baseline is the best that can be: 64
 * loops that each have a container of their own, and take it again as soon as their socket has closed.
 */
import { setTimeout as sleep } from "node:timers/promises"
import * as bare from "./bare.mjs"
import { churn, episode } from "./churn.mjs"
import { median, paired, row } from "./measure.mjs"
import { share, startPool } from "./pool.mjs"

const containers = 64
const fibers = 256
const episodes = 5
const pairs = 3

export const rows = async () => {
  const pool = await startPool(Array.from({ length: containers }, () => "free"))
  const loop = async (url) => {
    for (let done = 0; done < (fibers * episodes) / containers; done++) {
      const socket = await bare.open(url)
      await sleep(episode)
      await bare.close(socket)
    }
  }
  try {
    const given = await paired({
      name: "lease-churn",
      base: async () => {
        await Promise.all(pool.urls.map(loop))
        return pool.report()
      },
      ours: async () => {
        await churn({ urls: pool.urls, fibers, episodes })
        return pool.report()
      },
      pairs,
      warmups: 2
    })
    const best = median(given.map(({ base }) => share(base, containers)))
    return [
      row({
        name: "lease-churn",
        measure: `share of the containers' time leased (${best.toFixed(3)} by hand, a loop a container)`,
        values: given.map(({ ours }) => share(ours, containers)),
        target: { atLeast: 0.95 },
        digits: 3
      }),
      row({
        name: "lease-churn probes",
        measure: "health probes an episode",
        values: given.map(({ ours }) => ours.probes / (fibers * episodes)),
        target: { atMost: 0.2 },
        digits: 3
      })
    ]
  } finally {
    pool.stop()
  }
}
