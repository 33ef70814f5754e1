/**
 * Calibration: from many rollouts of each task, which tasks a policy has solved,
 * which it can learn from, and which are out of its reach. The calibration file is
 * shared with the Python client.
 *
 * `CalibrationReport` prints one; `Tally` is for those who calibrate in pieces.
 *
 * @since 0.1.0
 */

import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as CalibrationFile from "./internal/calibrationFile.js"
import { orderByCodePoints, sortedByCodePoints } from "./internal/codePoints.js"
import { type Figures, figuresOf } from "./internal/mutableTally.js"
import { platformReason } from "./internal/platformReason.js"
import { ScannedTally } from "./internal/scannedTally.js"
import { canWriteWhole, writeWhole } from "./internal/wholeFile.js"
import {
  type CalibrationError,
  CalibrationFileError,
  InvalidK,
  NoClassableTask,
  NoTaskKept,
  type SelectError,
  StaleCalibration,
  TaskVersionConflict,
  type TraceError,
  UnknownClass
} from "./MiroirError.js"
import { passAtK, passHatK } from "./PassAtK.js"
import * as Tally from "./Tally.js"
import { Traces } from "./Traces.js"

/**
 * The classes: of *learnable* tasks the rewards differ; of *solved* ones they are equal and every rollout succeeded;
 * the others are *out_of_reach*.
 *
 * @since 0.1.0
 * @category models
 */
export const classes = ["solved", "learnable", "out_of_reach"] as const

/**
 * What a task is to a policy: `solved` if every rollout succeeded, `learnable` if the rewards differ, else `out_of_reach`.
 *
 * @since 0.1.0
 * @category models
 */
export type Class = (typeof classes)[number]

/**
 * What calibration says of a task; the keys are the file's. Rates are from 0 to 1.
 *
 * @since 0.1.0
 * @category models
 */
export interface TaskCalibration {
  /** The version of the task that was rolled out. */
  readonly task_hash: string
  /** Null where fewer than 2 rollouts are graded. */
  readonly class: Class | null
  /** How many rollouts are graded. */
  readonly rollouts: number
  /** How many are not. */
  readonly void: number
  /** Null where no rollout is graded, as are the last three. */
  readonly "pass@1": number | null
  /** Null where fewer than k rollouts are graded. */
  readonly "pass@k": number | null
  /** Null where fewer than k rollouts are graded. */
  readonly "pass^k": number | null
  /** The mean of the graded rollouts' rewards. */
  readonly reward_mean: number | null
  /** Of the population. */
  readonly reward_variance: number | null
  /** The share of the graded rollouts that did harm. */
  readonly harm_rate: number | null
}

/**
 * A calibration. The file holds all of it but `tellsSuccess`.
 *
 * @since 0.1.0
 * @category models
 */
export interface CalibrationResult {
  /** The policy whose rollouts these are. */
  readonly model: string
  /** The k of pass@k and pass^k, at least 1. */
  readonly k: number
  /** By id, in code point order. */
  readonly tasks: ReadonlyMap<string, TaskCalibration>
  /** Whether any record told `success`; if none did, all count as failures. */
  readonly tellsSuccess: boolean
}

/**
 * As much of a calibration as selecting tasks needs: a `CalibrationResult`, or what a file says, whose classes may
 * be unknown ones.
 *
 * @since 0.1.0
 * @category models
 */
export interface Classified {
  readonly tasks: ReadonlyMap<string, { readonly task_hash: string | null; readonly class: string | null }>
}

/**
 * Calibrates, and keeps and uses calibration files.
 *
 * @since 0.1.0
 * @category services
 */
export class Calibration extends Context.Tag("@miroir-effect/core/Calibration")<
  Calibration,
  {
    /**
     * Calibrates the rollouts in trace files and folders. `k` is a whole number of at least 1; unless given it is the
     * largest number of graded rollouts of a task.
     */
    readonly calibrate: (options: {
      readonly traces: string | ReadonlyArray<string>
      readonly model: string
      readonly k?: number | undefined
    }) => Effect.Effect<CalibrationResult, TraceError | CalibrationError>
    /** Writes a calibration file, whole or not at all; its folder is made on demand. */
    readonly write: (file: string, calibration: CalibrationResult) => Effect.Effect<void, CalibrationFileError>
    /**
     * Fails where `write` would fail now, as with a folder in the file's place: for who wants to know before the rollouts are
     * made. The file's folder is made; nothing else is changed.
     */
    readonly writable: (file: string) => Effect.Effect<void, CalibrationFileError>
    /** Reads a calibration file. Only each task's `task_hash` and `class` have to be there. */
    readonly read: (file: string) => Effect.Effect<Classified, CalibrationFileError>
    /**
     * The tasks whose class is in `keep` (`["learnable"]` unless given), in their order, by a calibration or the path
     * of its file. Each of the tasks has to be in it, with the same `task_hash`.
     */
    readonly select: <A extends { readonly id: string; readonly task_hash: string }>(
      tasks: ReadonlyArray<A>,
      calibration: Classified | string,
      keep?: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyArray<A>, SelectError>
  }
>() {}

/**
 * The service, on `Traces` and a file system.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path

  const fileError = (file: string) => (error: PlatformError) =>
    new CalibrationFileError({ file, reason: platformReason(error) })

  const read = (file: string): Effect.Effect<Classified, CalibrationFileError> =>
    Effect.gen(function* () {
      const bytes = yield* fs.readFile(file).pipe(Effect.mapError(fileError(file)))
      const text = yield* Effect.try({
        try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
        catch: () => new CalibrationFileError({ file, reason: "it is no UTF-8 text" })
      })
      return yield* Either.mapLeft(CalibrationFile.decode(text), (reason) => new CalibrationFileError({ file, reason }))
    })

  const onFile = (
    file: string,
    does: Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path>
  ): Effect.Effect<void, CalibrationFileError> =>
    does.pipe(
      Effect.provideService(FileSystem.FileSystem, fs),
      Effect.provideService(Path.Path, path),
      Effect.mapError(fileError(file))
    )

  return yield* makeWith({
    read,
    write: (file, calibration) => onFile(file, writeWhole(file, Buffer.from(encode(calibration), "latin1"))),
    writable: (file) => onFile(file, canWriteWhole(file))
  })
})

/**
 * The service with a way of one's own to keep calibrations. `calibrate` and `select` are as always.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeWith = (
  files: Pick<Context.Tag.Service<Calibration>, "read" | "write" | "writable">
): Effect.Effect<Context.Tag.Service<Calibration>, never, Traces> =>
  Effect.map(Traces, (traces) => ({
    ...files,
    calibrate: ({ k, model, traces: paths }) =>
      Effect.gen(function* () {
        // Before a long read, not after it.
        if (k !== undefined) yield* validK(k)
        return yield* fromTally(yield* traces.tally(paths), { model, k })
      }),
    select: (tasks, calibration, keep = ["learnable"]) =>
      Effect.gen(function* () {
        const known: ReadonlyArray<string> = classes
        const unknown = keep.filter((name) => !known.includes(name))
        if (keep.length === 0 || unknown.length > 0) return yield* new UnknownClass({ unknown })
        const classified = typeof calibration === "string" ? yield* files.read(calibration) : calibration
        return yield* kept(tasks, classified, keep)
      })
  }))

/**
 * The service as a layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Calibration, never, Traces | FileSystem.FileSystem | Path.Path> = Layer.effect(
  Calibration,
  make
)

/**
 * Tallies a stream of records; `Tally.combine` joins tallies, `fromTally` makes a calibration of one.
 *
 * @since 0.1.0
 * @category tallies
 */
export const tally = Tally.sink

/**
 * The calibration of what was tallied.
 *
 * @since 0.1.0
 * @category tallies
 */
export const fromTally = (
  tally: Tally.Tally,
  { k, model }: { readonly model: string; readonly k?: number | undefined }
): Either.Either<CalibrationResult, CalibrationError> =>
  Either.gen(function* () {
    if (k !== undefined) yield* validK(k)
    const most = tally instanceof ScannedTally ? tally.mostGraded() : yield* mostGraded(tally)
    if (most < 2) return yield* Either.left(noClassableTask(tally))
    return { model, k: k ?? most, tasks: calibrateTasks(tally, k ?? most), tellsSuccess: tally.tellsSuccess }
  })

/** The most rollouts of a task that are graded, if all tasks have one version. */
const mostGraded = ({ tasks }: Tally.Tally): Either.Either<number, TaskVersionConflict> => {
  let most = 0
  const conflicts: Array<string> = []
  for (const [id, task] of tasks) {
    if (task.taskHashes.length > 1) conflicts.push(id)
    most = Math.max(most, task.graded)
  }
  const [taskId] = sortedByCodePoints(conflicts)
  const [one, other] = tasks.get(taskId ?? "")?.taskHashes ?? []
  return taskId !== undefined && one !== undefined && other !== undefined
    ? Either.left(new TaskVersionConflict({ taskId, hashes: [one, other] }))
    : Either.right(most)
}

const noClassableTask = ({ tasks }: Tally.Tally): NoClassableTask => {
  const totals = { graded: 0, void: 0 }
  for (const task of tasks.values()) {
    totals.graded += task.graded
    totals.void += task.void
  }
  return new NoClassableTask({ tasks: tasks.size, ...totals })
}

/**
 * The calibration file's text: JSON, indent 2, in the form of Python's `json.dumps`, with a line end.
 *
 * @since 0.1.0
 * @category printing
 */
export const encode = (calibration: CalibrationResult): string => CalibrationFile.encode(calibration)

const validK = (k: number): Either.Either<number, InvalidK> =>
  Number.isInteger(k) && k >= 1 ? Either.right(k) : Either.left(new InvalidK({ k }))

/** In the order in which they are in memory, and only the results in the order of their ids: that is twice as fast. */
const calibrateTasks = (tally: Tally.Tally, k: number): ReadonlyMap<string, TaskCalibration> => {
  const [ids, calibrated] =
    tally instanceof ScannedTally
      ? [tally.ids, tally.ids.map((_, task) => calibrateTask(tally.figures(task), k))]
      : [Array.from(tally.tasks.keys()), Array.from(tally.tasks.values(), (task) => calibrateTask(figuresOf(task), k))]
  const order = tally instanceof ScannedTally && tally.isSorted ? ids.keys() : orderByCodePoints(ids)
  const sorted = new Map<string, TaskCalibration>()
  for (const at of order) {
    const id = ids[at]
    const task = calibrated[at]
    if (id !== undefined && task !== undefined) sorted.set(id, task)
  }
  return sorted
}

const calibrateTask = (
  { graded, harmed, isEqual, mean, successes, taskHash, variance, void: voids }: Figures,
  k: number
): TaskCalibration => {
  const known = graded > 0
  return {
    task_hash: taskHash,
    class: graded < 2 ? null : !isEqual ? "learnable" : successes === graded ? "solved" : "out_of_reach",
    rollouts: graded,
    void: voids,
    "pass@1": known ? successes / graded : null,
    "pass@k": passAtK(graded, successes, k),
    "pass^k": passHatK(graded, successes, k),
    reward_mean: known ? mean : null,
    reward_variance: known ? variance : null,
    harm_rate: known ? harmed / graded : null
  }
}

const kept = <A extends { readonly id: string; readonly task_hash: string }>(
  tasks: ReadonlyArray<A>,
  { tasks: entries }: Classified,
  keep: ReadonlyArray<string>
): Either.Either<ReadonlyArray<A>, StaleCalibration | NoTaskKept> => {
  const missing = tasks.filter(({ id }) => !entries.has(id)).map(({ id }) => id)
  const changed = tasks
    .filter(({ id, task_hash }) => entries.has(id) && entries.get(id)?.task_hash !== task_hash)
    .map(({ id }) => id)
  if (missing.length > 0 || changed.length > 0) return Either.left(new StaleCalibration({ missing, changed }))
  const classOf = ({ id }: A): string => entries.get(id)?.class ?? "none"
  const chosen = tasks.filter((task) => keep.includes(classOf(task)))
  if (chosen.length > 0) return Either.right(chosen)
  const count = (name: Class): number => tasks.filter((task) => classOf(task) === name).length
  const counts = { solved: count("solved"), learnable: count("learnable"), out_of_reach: count("out_of_reach") }
  const none = tasks.length - counts.solved - counts.learnable - counts.out_of_reach
  return Either.left(new NoTaskKept({ keep, counts: { ...counts, none } }))
}
