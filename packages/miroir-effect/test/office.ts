/** The office in containers on loopback, and the models that a run of `miroir-effect rollout` on it asks. */
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as ClumsyModel from "../src/internal/clumsyModel.js"
import * as KnowingCoworker from "../src/internal/knowingCoworker.js"

/** What may be answered in place of the model's own answer; undefined where that stands. */
export type Instead = (request: ChatEndpoint.ChatRequest) => ChatEndpoint.ChatAnswer | undefined

const never: Instead = () => undefined

export type Played = Effect.Effect.Success<ReturnType<typeof office>>

/** The models answer by the task, the seed and the step alone, so that runs can be compared. */
export const office = Effect.fnUntraced(function* (
  containers: number,
  instead: { readonly policy?: Instead; readonly coworker?: Instead } = {}
) {
  const servers = yield* Effect.replicateEffect(EnvServer.make(Office.world), containers)
  const urls = servers.map(({ url }) => url)
  const catalog = yield* Catalog.Catalog
  const splits = yield* Effect.forEach(["train", "test"], (split) => catalog.tasks(urls[0] ?? "", split))
  const plays = ClumsyModel.answer(splits.flat(), 0.3)
  const policy = yield* ChatEndpoint.make({
    answers: (request) => (instead.policy ?? never)(request) ?? plays(request)
  })
  const coworker = yield* ChatEndpoint.make({
    answers: (request) => (instead.coworker ?? never)(request) ?? { text: KnowingCoworker.answer(request.body) }
  })
  return {
    urls,
    policy,
    coworker,
    /** Completes as soon as no container is leased. */
    allFree: Effect.forEach(servers, ({ leased }) => leased).pipe(
      Effect.repeat({ until: (leased) => !leased.includes(true), schedule: Schedule.spaced("10 millis") })
    ),
    /** The command line that plays it, but for the options. */
    args: [
      "rollout",
      ...["--model", "m", "--base-url", policy.url, "--seed", "1"],
      ...["--coworker-model", "c", "--coworker-base-url", coworker.url],
      ...urls
    ]
  }
})

/** The records that a folder holds, whole lines only: by task and number of the rollout. */
export const held = (folder: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(async () => {
    const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith(".jsonl"))
    const texts = await Promise.all(names.map((name) => readFile(join(folder, name), "utf8")))
    return texts
      .flatMap((text) => text.split("\n").slice(0, -1))
      .map((line) => JSON.parse(line))
      .map(({ rollout, task_id }) => `${task_id} ${rollout.rollout}`)
      .sort()
  })
