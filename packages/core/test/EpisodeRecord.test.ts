/** Records: their figures, as the Python client has them. */
import { readFileSync } from "node:fs"
import { assert, it } from "@effect/vitest"
import * as EpisodeRecord from "@miroir-effect/core/EpisodeRecord"
import type { JsonObject } from "@miroir-effect/core/Json"

const vectors: ReadonlyArray<{ readonly record: JsonObject; readonly metrics: JsonObject }> = JSON.parse(
  readFileSync(new URL("./vectors/metrics.json", import.meta.url), "utf8")
)

it("has the Python client's metrics", () => {
  assert.isAbove(vectors.length, 2)
  for (const { metrics, record } of vectors) assert.deepStrictEqual(EpisodeRecord.metrics(record), metrics)
})

it("lets diagnostics win over success and harm, and the timings over all", () => {
  const record = {
    metadata: { success: true },
    diagnostics: { success: 0.5, harm: 2, episode_s: 1, steps: 2n ** 60n },
    timings: { episode_s: 7 }
  }
  assert.deepStrictEqual(EpisodeRecord.metrics(record), { success: 0.5, harm: 2, episode_s: 7, steps: 2n ** 60n })
  assert.deepStrictEqual(EpisodeRecord.metrics({ metadata: null, diagnostics: [1], timings: "" }), {
    success: 0,
    harm: 0
  })
})
