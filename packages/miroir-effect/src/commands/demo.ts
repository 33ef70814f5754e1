/**
 * `miroir-effect demo`: the whole way in one go. The embedded env is served on loopback, and so are two stub models: one
 * plays each of its train tasks, clumsily, and one speaks for the coworkers. The rest is `miroir-effect rollout`.
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Folders from "@miroir-effect/core/Folders"
import { TraceError } from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as ClumsyModel from "../internal/clumsyModel.js"
import * as KnowingCoworker from "../internal/knowingCoworker.js"
import * as Rollout from "./rollout.js"

const containers = 4

export interface Settings {
  /** The folder to write into; each run makes one of its own there. */
  readonly out: string
  /** What the policy's mistakes are drawn from. */
  readonly seed: number
}

export const demo = Effect.fnUntraced(function* ({ out, seed }: Settings) {
  const path = yield* Path.Path
  const folder = yield* newFolder(out)
  const traces = path.join(folder, "traces")
  const calibration = path.join(folder, "calibration.json")

  // What the servers warn of, the voids, is told below by the client.
  const servers = yield* Effect.replicateEffect(EnvServer.make(Office.world), containers).pipe(
    Logger.withMinimumLogLevel(LogLevel.Error)
  )
  const urls = servers.map(({ url }) => url)
  const tasks = yield* trainTasks(urls)
  const policy = yield* ChatEndpoint.make({ answers: ClumsyModel.answer(tasks, 0.5) })
  const coworker = yield* ChatEndpoint.make({ answers: ({ body }) => ({ text: KnowingCoworker.answer(body) }) })
  yield* Effect.logInfo(`Serving the office in ${containers} containers, ${urls.join(", ")}.`)
  yield* Effect.logInfo(
    `The policy ${ClumsyModel.name} plays ${tasks.length} train tasks ${Rollout.defaults.rollouts} times each.`
  )
  yield* Rollout.run(
    { ...Rollout.defaults, traces, calibrate: Option.some(calibration) },
    {
      containers: { urls },
      policy: { baseUrl: policy.url, model: ClumsyModel.name, seed },
      coworker: Option.some({ baseUrl: coworker.url, model: KnowingCoworker.name }),
      again: Option.none(),
      direct: true
    }
  )
  yield* Effect.logInfo("Calibrate the traces again with:")
  yield* Effect.logInfo(`  npx miroir-effect calibrate ${quoted(traces)} --model ${ClumsyModel.name}`)
}, Effect.scoped)

/** All that the containers have. */
const trainTasks = (urls: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const catalog = yield* Catalog.Catalog
    return yield* catalog.tasks(yield* catalog.answering(urls))
  }).pipe(Effect.provide(Layer.provide(Catalog.layer(), NodeHttp.layerDirect)))

/** Makes a folder that is this run's own: its name is the time, with a number behind it where that one is there. */
const newFolder = (parent: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const time = DateTime.formatIso(yield* DateTime.now)
      .replace(/\.\d+/, "")
      .replaceAll(/[-:]/g, "")
    yield* Folders.make(parent)
    for (let number = 1; ; number++) {
      const folder = path.join(parent, number === 1 ? time : `${time}-${number}`)
      const made = yield* Effect.either(fs.makeDirectory(folder))
      if (Either.isRight(made)) return folder
      if (made.left._tag !== "SystemError" || made.left.reason !== "AlreadyExists") {
        return yield* Effect.fail(made.left)
      }
    }
  }).pipe(
    Effect.mapError(
      (error) => new TraceError({ file: parent, reason: `no folder can be made there: ${error.message}` })
    )
  )

/** For a POSIX shell, where it needs that. */
const quoted = (text: string): string => (/^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
