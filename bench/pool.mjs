/** Containers in a process of their own (pool-process.mjs), and what their books say. */
import { fork } from "node:child_process"
import { once } from "node:events"

export const startPool = async (kinds) => {
  const process = fork(new URL("./pool-process.mjs", import.meta.url))
  const ask = async (message) => {
    const answer = once(process, "message")
    process.send(message)
    const [given] = await answer
    return given
  }
  const ports = await ask({ serve: kinds })
  return {
    urls: ports.map((port) => `http://127.0.0.1:${port}`),
    /** What was since the last report. The sessions have to have been closed. */
    report: () => ask({ report: true }),
    stop: () => process.kill()
  }
}

/** The share of the containers' time, from the first lease to the last release, in which they were leased. */
export const share = ({ sessions }, containers) => {
  const from = Math.min(...sessions.map((session) => session.from))
  const to = Math.max(...sessions.map((session) => session.to))
  return sessions.reduce((sum, session) => sum + session.to - session.from, 0) / (containers * (to - from))
}

/** Jain's index of some amounts: 1 where they are equal, 1/n where one of the n has all. */
export const jain = (amounts) =>
  amounts.reduce((sum, amount) => sum + amount, 0) ** 2 /
  (amounts.length * amounts.reduce((sum, amount) => sum + amount * amount, 0))

/**
 * How evenly the containers' leased time is spread over the tokens, from the first lease of all to the moment in which
 * the first token's last session ends, when not all have work any more.
 */
export const fairness = ({ sessions }) => {
  const tokens = [...new Set(sessions.map(({ token }) => token))]
  const of = (token) => sessions.filter((session) => session.token === token)
  const end = Math.min(...tokens.map((token) => Math.max(...of(token).map(({ to }) => to))))
  return jain(
    tokens.map((token) => of(token).reduce((sum, { from, to }) => sum + Math.max(0, Math.min(to, end) - from), 0))
  )
}
