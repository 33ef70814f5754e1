/**
 * `miroir-effect demo`: the whole way in one go. The embedded env is served on loopback, a clumsy policy plays each of
 * its train tasks, a stub model speaks for the coworkers, the traces are saved and calibrated.
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Coworker from "@miroir-effect/core/Coworker"
import { TraceError } from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Stream from "effect/Stream"
import * as ClumsyPolicy from "../internal/clumsyPolicy.js"
import * as KnowingCoworker from "../internal/knowingCoworker.js"
import { progress } from "../internal/progress.js"
import { report } from "../internal/report.js"
import * as Miroir from "../Miroir.js"

const containers = 4
const rollouts = 8

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
  const file = path.join(folder, "calibration.json")

  // What the servers warn of, the voids, is told below by the client.
  const servers = yield* Effect.replicateEffect(EnvServer.make(Office.world), containers).pipe(
    Logger.withMinimumLogLevel(LogLevel.Error)
  )
  const urls = servers.map(({ url }) => url)
  const model = yield* ChatEndpoint.make({ answers: ({ body }) => ({ text: KnowingCoworker.answer(body) }) })
  yield* Effect.logInfo(`Serving the office in ${containers} containers, ${urls.join(", ")}.`)

  const run = Effect.gen(function* () {
    const catalog = yield* Catalog.Catalog
    const rollout = yield* Rollout.Rollout
    const tasks = yield* catalog.tasks(yield* catalog.answering(urls))
    yield* Effect.logInfo(`The policy ${ClumsyPolicy.model} plays ${tasks.length} train tasks ${rollouts} times each.`)
    const show = yield* progress(tasks.length * rollouts)
    yield* rollout.run({ tasks, rollouts, urls, traces }).pipe(Stream.runForEach(show))
  }).pipe(
    Effect.scoped,
    Effect.provide(
      Rollout.layerWithCoworker.pipe(
        Layer.provide(ClumsyPolicy.layer({ seed, mistakes: 0.5 })),
        Layer.provide(Coworker.layer({ baseUrl: model.url, model: "knowing-coworker" })),
        Layer.provide(NodeHttp.layer)
      )
    )
  )

  yield* Effect.gen(function* () {
    yield* Effect.onInterrupt(run, () => Effect.logInfo(`The traces so far are in ${traces}.`))
    const calibration = yield* Calibration.Calibration
    const result = yield* calibration.calibrate({ traces, model: ClumsyPolicy.model })
    yield* calibration.write(file, result)
    yield* report(result, file)
    for (const warning of CalibrationReport.warnings(result)) yield* Effect.logWarning(warning)
    yield* Effect.logInfo(`The traces are in ${traces}; calibrate them again with:`)
    yield* Effect.logInfo(`  npx miroir-effect calibrate ${quoted(traces)} --model ${ClumsyPolicy.model}`)
  }).pipe(Effect.provide(Miroir.layer()))
}, Effect.scoped)

/** Makes a folder that is this run's own: its name is the time, with a number behind it where that one is there. */
const newFolder = (parent: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const time = DateTime.formatIso(yield* DateTime.now)
      .replace(/\.\d+/, "")
      .replaceAll(/[-:]/g, "")
    yield* fs.makeDirectory(parent, { recursive: true })
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
