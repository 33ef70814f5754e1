/**
 * `rollout`: 64 containers whose steps take 20 ms and a model that answers after 100 ms, each in a process of its own;
 * episodes of 10 steps, saved as in any run. The ideal is reckoned: all 64 always at a step or at the model.
 */
import { fork } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Miroir from "miroir-effect/Miroir"
import { row, timed } from "./measure.mjs"
import { steps } from "./rollout-process.mjs"

const containers = 64
const perContainer = 10
const millis = { step: 20, model: 100 }
const runs = 3

/** Starts a kind of server; gives the base URLs, and what stops them. */
const start = async (kind, count, millis) => {
  const child = fork(new URL("./rollout-process.mjs", import.meta.url), [kind])
  const listening = once(child, "message")
  child.send({ count, millis })
  const [ports] = await listening
  return { urls: ports.map((port) => `http://127.0.0.1:${port}`), stop: () => child.kill() }
}

export const rows = async () => {
  const pool = await start("containers", containers, millis.step)
  const model = await start("model", 1, millis.model)
  const folder = await mkdtemp(join(tmpdir(), "miroir-bench-"))
  const services = Rollout.layer.pipe(
    Layer.provide(Policy.layer({ baseUrl: `${model.urls[0]}/v1`, model: "stub" })),
    Layer.provide(NodeHttp.layer),
    Layer.provide(Miroir.layer())
  )
  const episodes = containers * perContainer
  const tasks = [{ id: "t0", task_hash: "h", instruction: "Play." }]
  const run = (traces) =>
    Effect.flatMap(Rollout.Rollout, ({ run }) =>
      Stream.runDrain(run({ tasks, rollouts: episodes, urls: pool.urls, traces }))
    ).pipe(Effect.provide(services), Effect.runPromise)
  try {
    const ideal = (perContainer * steps * (millis.step + millis.model)) / 1000
    const values = []
    for (let done = -1; done < runs; done++) {
      process.stderr.write(`rollout: ${done < 0 ? "warming up" : `run ${done + 1} of ${runs}`}\n`)
      const seconds = await timed(() => run(join(folder, `${done}`)))
      if (done >= 0) values.push(ideal / seconds)
    }
    return [
      row({
        name: "rollout",
        measure: `episodes a second over the ideal, ${(episodes / ideal).toFixed(1)}, on ${containers} containers`,
        values,
        target: { atLeast: 0.9 }
      })
    ]
  } finally {
    pool.stop()
    model.stop()
    await rm(folder, { recursive: true })
  }
}
