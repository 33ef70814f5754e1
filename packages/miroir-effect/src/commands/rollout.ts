/**
 * `miroir-effect rollout`: a chat model plays tasks on the containers; the records are saved, and calibrated if that is
 * asked for.
 */

import * as Path from "@effect/platform/Path"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as CalibrationReport from "@miroir-effect/core/CalibrationReport"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Coworker from "@miroir-effect/core/Coworker"
import * as Dialect from "@miroir-effect/core/Dialect"
import type * as EpisodeRecord from "@miroir-effect/core/EpisodeRecord"
import * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as OpenEnv from "@miroir-effect/core/OpenEnv"
import * as Policy from "@miroir-effect/core/Policy"
import type { Surface, Task } from "@miroir-effect/core/Protocol"
import * as Recognition from "@miroir-effect/core/Recognition"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Tasks from "@miroir-effect/core/Tasks"
import * as Text from "@miroir-effect/core/Text"
import * as Traces from "@miroir-effect/core/Traces"
import * as Transport from "@miroir-effect/core/Transport"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Containers from "../internal/containers.js"
import { keepFrom } from "../internal/inputs.js"
import { lineOf } from "../internal/listing.js"
import * as Models from "../internal/models.js"
import { type Ended, following, type OfTask, summaryOf } from "../internal/progress.js"
import { report } from "../internal/report.js"
import { print, width } from "../internal/terminal.js"
import { WrongUsage } from "../internal/WrongUsage.js"
import * as Miroir from "../Miroir.js"

/** What is run, and how. */
interface RunOptions {
  readonly split: Option.Option<string>
  /** Ids; all tasks where there are none. */
  readonly task: ReadonlyArray<string>
  readonly tasks: Option.Option<string>
  readonly seeds: Option.Option<string>
  readonly calibration: Option.Option<string>
  readonly keep: ReadonlyArray<Calibration.Class>
  readonly rollouts: number
  readonly concurrency: Option.Option<number>
  readonly maxSeconds: Option.Option<number>
  readonly maxSteps: number
  readonly surface: Surface
  readonly dialect: "auto" | "miroir" | "openenv"
  readonly reward: Option.Option<"sum" | "last">
  readonly successAt: Option.Option<number>
  readonly traces: string
  readonly retryVoid: boolean
  readonly fresh: boolean
  readonly dryRun: boolean
  readonly calibrate: Option.Option<string>
  readonly json: boolean
}

/** What a run has where nothing is said, as the help tells. */
export const defaults: Omit<RunOptions, "traces"> = {
  split: Option.none(),
  task: [],
  tasks: Option.none(),
  seeds: Option.none(),
  calibration: Option.none(),
  keep: [],
  rollouts: 8,
  concurrency: Option.none(),
  maxSeconds: Option.none(),
  maxSteps: 50,
  surface: "api",
  dialect: "auto",
  reward: Option.none(),
  successAt: Option.none(),
  retryVoid: false,
  fresh: false,
  dryRun: false,
  calibrate: Option.none(),
  json: false
}

interface Options extends RunOptions, Containers.Given, Models.GivenPolicy, Models.GivenCoworker {}

/** Tasks were asked for that are not among those there are. */
export class UnknownTasks extends Data.TaggedError("UnknownTasks")<{ readonly message: string }> {}

/** The run is over, but some rollouts were given up; the table, which says which, has been printed by then. */
export class FellShort extends Data.TaggedError("FellShort")<{ readonly message: string }> {}

export const rollout = Effect.fnUntraced(function* (options: Options) {
  yield* checked(options)
  yield* run(options, {
    containers: yield* Containers.containers("rollout", options),
    policy: yield* Models.policy(options),
    coworker: yield* Models.coworker(options),
    leasing: yield* Leasing.config,
    transport: yield* Transport.config,
    // The fresh one would move away what is there.
    again: Option.some(options.fresh ? "the same command without --fresh" : "the same command")
  })
})

/** Whom a run is with. */
interface With {
  readonly containers: Leasing.Containers
  readonly policy: Policy.Settings
  readonly coworker: Option.Option<Coworker.Settings>
  readonly leasing?: Partial<Leasing.Settings> | undefined
  readonly transport?: Partial<Transport.Settings> | undefined
  /** Whether the proxies that the environment names are left aside. */
  readonly direct?: boolean
  /** What to give to go on with the run, where that can be. */
  readonly again: Option.Option<string>
}

/** The command without its command line and environment. */
export const run = Effect.fnUntraced(function* (
  options: RunOptions,
  { again, containers, coworker, direct = false, leasing, policy, transport }: With
) {
  const services = Layer.provideMerge(
    Option.match(coworker, {
      onNone: () => Rollout.layer,
      onSome: (settings) =>
        Layer.provide(Rollout.layerWithCoworker, Layer.mapError(Coworker.layer(settings), Models.asUsage("coworker")))
    }).pipe(
      Layer.provide(Layer.mapError(Policy.layer(policy), Models.asUsage("policy"))),
      Layer.provide(direct ? NodeHttp.layerDirect : NodeHttp.layer)
    ),
    Miroir.layer({
      token: leasing?.token,
      direct,
      transport,
      leasing: { ...leasing, recognition: recognition(options), sessions: yield* sessionsOf(options, containers) },
      catalog: { dialect: options.dialect === "miroir" ? "miroir" : "auto" }
    })
  )
  yield* Effect.provide(
    roll(options, { again, containers, model: policy.model, hasCoworker: Option.isSome(coworker) }),
    services
  )
})

/** What is wrong with options that go together. */
const checked = (options: RunOptions): Effect.Effect<void, WrongUsage> => {
  const wrong = (message: string) => new WrongUsage({ message, command: "rollout" })
  const { calibrate, calibration, dialect, dryRun, fresh, keep, retryVoid, reward, seeds, split, successAt, tasks } =
    options
  if (Option.isSome(tasks) && Option.isSome(seeds)) return wrong("Give --tasks or --seeds, not both.")
  if (Option.isSome(split) && (Option.isSome(tasks) || Option.isSome(seeds))) {
    return wrong("--split is of the env's own tasks: leave it out where --tasks or --seeds says which.")
  }
  if (dialect === "miroir" && Option.isSome(seeds)) return wrong(`--seeds is for OpenEnv servers: ${ownTasks}.`)
  if (keep.length > 0 && Option.isNone(calibration)) return wrong("--keep needs --calibration FILE.")
  if (fresh && retryVoid) return wrong("Give --fresh or --retry-void, not both: with --fresh all is done again.")
  if (dryRun && Option.isSome(calibrate)) return wrong("Give --dry-run or --calibrate, not both.")
  if (dialect === "miroir" && (Option.isSome(reward) || Option.isSome(successAt))) {
    return wrong("--reward and --success-at are for OpenEnv servers: a Miroir env grades its episodes itself.")
  }
  return Effect.void
}

const ownTasks = "a Miroir env begins its own tasks only, so leave --seeds away"

const openEnvSettings = ({ reward, successAt }: RunOptions) => ({
  ...Option.match(reward, { onNone: () => ({}), onSome: (reward) => ({ reward }) }),
  ...Option.match(successAt, { onNone: () => ({}), onSome: (successAt) => ({ successAt }) })
})

const recognition = (options: RunOptions): Recognition.Recognition => {
  switch (options.dialect) {
    case "auto":
      return Recognition.auto(openEnvSettings(options))
    case "miroir":
      return Recognition.always(Dialect.miroir)
    case "openenv":
      return Recognition.openEnv(openEnvSettings(options))
  }
}

/** An OpenEnv server may grant several sessions at once: with fewer containers than episodes at a time they are wanted. */
const sessionsOf = ({ concurrency, dialect }: RunOptions, containers: Leasing.Containers) =>
  dialect === "miroir" || Option.isNone(concurrency)
    ? Effect.succeed(1)
    : Effect.map(Containers.urlsOf(containers), (urls) => Math.ceil(concurrency.value / Math.max(1, urls.length)))

const roll = Effect.fnUntraced(function* (
  options: RunOptions,
  {
    again,
    containers,
    hasCoworker,
    model
  }: Pick<With, "again" | "containers"> & {
    readonly hasCoworker: boolean
    readonly model: string
  }
) {
  const { calibrate, dryRun, json, traces } = options
  const rollout = yield* Rollout.Rollout
  if (Option.isSome(calibrate)) {
    const inputs = [options.tasks, Option.fromNullable(containers.urlFile)].flatMap(Option.toArray)
    yield* keepFrom(inputs, { command: "rollout", file: calibrate.value, option: "--calibrate" })
    yield* calibratable(calibrate.value, traces)
  }
  const tasks = yield* chosen(options, containers, hasCoworker)
  const plan: Rollout.Plan = {
    ...containers,
    tasks,
    rollouts: options.rollouts,
    concurrency: Option.getOrUndefined(options.concurrency),
    traces,
    surface: options.surface,
    maxSteps: options.maxSteps,
    maxSeconds: Option.getOrUndefined(options.maxSeconds),
    settings: options.dialect === "miroir" ? {} : { ...OpenEnv.defaults, ...openEnvSettings(options) },
    retryVoid: options.retryVoid,
    fresh: options.fresh
  }
  if (dryRun) return yield* printPreview(yield* rollout.preview(plan), options)
  const then = (what: string) =>
    Option.match(again, { onNone: () => ".", onSome: (command) => `; ${command} ${what}.` })
  const goingOn = `What is saved is in ${Text.visible(traces)}${then("goes on from there")}`
  const ended = yield* following(rollout.run(plan)).pipe(
    Effect.onInterrupt(() => Effect.logInfo(`Stopped. ${goingOn}`)),
    Effect.tapError(({ _tag }) => Effect.when(Effect.logInfo(goingOn), () => inMidRun.has(_tag)))
  )
  yield* Effect.logInfo(`${summaryOf(ended)}.`)
  // What came of the run is told also where it cannot be calibrated.
  if (!json) yield* print(yield* summary(ended, options))
  const made = yield* Effect.either(
    Option.isSome(calibrate) ? calibrated(traces, model, calibrate.value) : Effect.succeedNone
  )
  const file = Either.isRight(made) ? calibrate : Option.none()
  if (json) yield* print(lineOf(documentOf(ended, { ...options, calibrate: file }, model)))
  const calibration = yield* made
  if (!json && Option.isSome(calibration) && Option.isSome(calibrate)) {
    yield* print("")
    yield* report(calibration.value, calibrate.value)
  }
  if (Option.isSome(calibration)) {
    yield* Effect.forEach(CalibrationReport.warnings(calibration.value), (warning) => Effect.logWarning(warning))
  }
  if (ended.failed > 0) {
    return yield* new FellShort({
      message: `${Text.counted(ended.failed, "rollout")} given up; failures.ndjson in ${Text.visible(traces)} says why${then("tries again")}`
    })
  }
})

/** What a run may end with that had begun well. */
const inMidRun: ReadonlySet<string> = new Set(["NoFreeContainer", "PolicyFailed"])

/** The tasks that are asked for, in their order. */
const chosen = Effect.fnUntraced(function* (
  { calibration: file, keep, task, ...options }: RunOptions,
  containers: Leasing.Containers,
  hasCoworker: boolean
) {
  const all = yield* offered(options, containers)
  const tasks = yield* Coworker.answerable(task.length === 0 ? all : yield* only(all, task), hasCoworker)
  if (Option.isNone(file)) return tasks
  const calibration = yield* Calibration.Calibration
  const classified = yield* calibration.read(file.value)
  // The calibration of a run on some of the tasks knows no others: they are not among those to keep.
  const known = tasks.filter(({ id }) => classified.tasks.has(id))
  const unknown = known.length === 0 ? 0 : tasks.length - known.length
  if (unknown > 0) {
    const what = `${Text.counted(unknown, "task")} that ${Text.visible(file.value)} does not know`
    yield* Effect.logWarning(`Left out ${what}.`)
  }
  return yield* calibration.select(known.length === 0 ? tasks : known, classified, keep.length === 0 ? undefined : keep)
})

const offered = Effect.fnUntraced(function* (
  { dialect, seeds, split, tasks }: Pick<RunOptions, "dialect" | "seeds" | "split" | "tasks">,
  containers: Leasing.Containers
) {
  if (Option.isSome(tasks)) return yield* Tasks.read(tasks.value)
  const catalog = yield* Catalog.Catalog
  const answering = Effect.flatMap(Containers.urlsOf(containers), (urls) => catalog.answering(urls))
  if (Option.isSome(seeds)) {
    const seeded = yield* Effect.mapError(
      Tasks.seeds(seeds.value),
      ({ message }) => new WrongUsage({ message: `--seeds: ${message}`, command: "rollout" })
    )
    if (dialect === "openenv") return seeded
    const url = yield* answering
    if ((yield* catalog.dialect(url)) === "openenv") return seeded
    const { href } = yield* BaseUrl.parse(url)
    return yield* new UnknownTasks({ message: `${Text.visible(href)} is no OpenEnv server: ${ownTasks}.` })
  }
  const url = yield* answering
  const name = Option.getOrElse(split, () => "train")
  const listed = yield* catalog.tasks(url, name)
  if (listed.length === 0) return yield* new UnknownTasks({ message: `The split ${Text.visible(name)} has no tasks.` })
  return listed
})

const only = (
  tasks: ReadonlyArray<Task>,
  ids: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<Task>, UnknownTasks> => {
  const known = new Set(tasks.map(({ id }) => id))
  const unknown = ids.filter((id) => !known.has(id))
  return unknown.length === 0
    ? Effect.succeed(tasks.filter(({ id }) => ids.includes(id)))
    : new UnknownTasks({
        message: `No such task: ${unknown.map(Text.visible).join(", ")}. There are ${Text.counted(tasks.length, "task")}; miroir-effect tasks lists those of an env.`
      })
}

/** Before the work: whether the file can be written at the end, and is none of the run's own. */
const calibratable = Effect.fnUntraced(function* (file: string, traces: string) {
  const path = yield* Path.Path
  const isOfRun =
    path.resolve(path.dirname(file)) === path.resolve(traces) &&
    /^(run\.json|run\.lock|failures\.ndjson|superseded|.*\.jsonl(\.gz)?)$/.test(path.basename(file))
  if (isOfRun) {
    const message = `--calibrate: ${Text.visible(file)} is a name that the run's own files have: give another.`
    return yield* new WrongUsage({ message, command: "rollout" })
  }
  yield* (yield* Calibration.Calibration).writable(file)
})

/** Calibrates what the folder holds of this model. */
const calibrated = Effect.fnUntraced(function* (traces: string, model: string, file: string) {
  const calibration = yield* Calibration.Calibration
  const { read } = yield* Traces.Traces
  let others = 0
  const isOfModel = (record: EpisodeRecord.EpisodeRecord): boolean => {
    const { rollout } = record.value
    const isOther = Json.isObject(rollout) && rollout.model !== undefined && rollout.model !== model
    if (isOther) others++
    return !isOther
  }
  const tally = yield* Stream.run(Stream.filter(read(traces), isOfModel), Calibration.tally)
  if (others > 0) yield* Effect.logWarning(`Left out ${Text.counted(others, "record")} of other models.`)
  const result = yield* Calibration.fromTally(tally, { model })
  yield* calibration.write(file, result)
  return Option.some(result)
})

const printPreview = Effect.fnUntraced(function* (preview: Rollout.Preview, { json, traces }: RunOptions) {
  const left = preview.tasks.reduce((sum, { left }) => sum + left, 0)
  if (json) {
    return yield* print(
      lineOf({
        traces,
        day: preview.day,
        rollouts: preview.total,
        kept: preview.kept,
        void: preview.void,
        left,
        tools: preview.tools.map(({ name }) => name),
        tasks: preview.tasks.map(({ graded, left, task, void: voids }) => ({
          task_id: task.id,
          task_hash: task.task_hash,
          graded,
          void: voids,
          left
        }))
      })
    )
  }
  const table = Text.table(
    [...perTask, { heading: "to do", align: "right" }],
    preview.tasks.map((of) => [...cells(of), String(of.left)]),
    { width: Option.getOrUndefined(yield* width) }
  )
  yield* print(
    `${table}\n\n${Text.counted(left, "rollout")} of ${preview.total} would be run, with ${Text.counted(preview.tools.length, "tool")}; the prompts' day is ${preview.day}; traces in ${Text.visible(traces)}`
  )
})

const perTask: ReadonlyArray<Text.Column> = [
  { heading: "task", fit: "cut" },
  { heading: "graded", align: "right" },
  { heading: "void", align: "right" }
]

const cells = ({ graded, task, void: voids }: OfTask): ReadonlyArray<string> => [task.id, String(graded), String(voids)]

/** What the folder holds, and of which tasks it has fewer graded rollouts than were asked for. */
const summary = Effect.fnUntraced(function* (
  { done, successes, tasks, tokens, total, void: voids }: Ended,
  { rollouts, traces }: RunOptions
) {
  const short = tasks.filter(({ graded }) => graded < rollouts)
  const line = [
    `${done - voids} of ${Text.counted(total, "rollout")} graded, ${successes} of them successes`,
    ...(voids === 0 ? [] : [`${voids} void`]),
    ...(done === total ? [] : [`${total - done} missing`]),
    ...(tokens === 0 ? [] : [`${tokens} tokens`])
  ].join("; ")
  const where = `Traces in ${Text.visible(traces)}`
  if (short.length === 0) return `${line}\n${where}`
  const table = Text.table(
    [...perTask, { heading: "asked", align: "right" }],
    short.map((of) => [...cells(of), String(rollouts)]),
    { width: Option.getOrUndefined(yield* width) }
  )
  return `${table}\n\n${line}\n${where}`
})

const documentOf = (
  { done, failed, successes, tasks, tokens, total, void: voids }: Ended,
  { calibrate, traces }: RunOptions,
  model: string
): Json.JsonObject => ({
  model,
  traces,
  rollouts: total,
  graded: done - voids,
  successes,
  void: voids,
  failed,
  tokens,
  calibration: Option.getOrNull(calibrate),
  tasks: tasks.map(({ graded, task, void: voids }) => ({
    task_id: task.id,
    task_hash: task.task_hash,
    graded,
    void: voids
  }))
})
