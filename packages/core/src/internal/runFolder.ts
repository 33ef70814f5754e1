/**
 * The folder of a run. Beside the trace files it has `run.json`, which says what run it is; `failures.ndjson`, a line for each
 * rollout that was given up; and while a run goes on its lock. What no longer counts goes to `superseded/TIME/`, so that each
 * rollout is in the folder itself once at most, and nothing is ever lost.
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { EpisodeRecord } from "../EpisodeRecord.js"
import * as Json from "../Json.js"
import { type RunLocked, RunMismatch, TraceError } from "../MiroirError.js"
import * as Traces from "../Traces.js"
import { makeFolder } from "./folders.js"
import { exists, failuresName, runName, traceError, traceFiles, within } from "./runFiles.js"
import * as RunLock from "./runLock.js"
import { type Difference, differences, type RunSettings } from "./runSettings.js"
import * as Superseded from "./superseded.js"
import { counted, visible } from "./text.js"
import { writeWhole } from "./wholeFile.js"

/** What is to be run in a folder. */
export interface Wanted {
  readonly folder: string
  readonly settings: RunSettings
  /** The tasks' versions by their ids. */
  readonly tasks: ReadonlyMap<string, string>
  /** How often each. */
  readonly rollouts: number
  /** The day of a new run. */
  readonly day: string
  readonly retryVoid: boolean
  readonly fresh: boolean
}

/** Which of the wanted rollouts of a task the folder holds. */
interface Held {
  /** Whether each succeeded. */
  readonly graded: ReadonlyMap<number, boolean>
  readonly void: ReadonlySet<number>
}

export const heldNone: Held = { graded: new Map(), void: new Set() }

export interface Found {
  readonly day: string
  /** By the tasks' ids. */
  readonly held: ReadonlyMap<string, Held>
}

export interface Opened extends Found {
  /** Where what was there went, with `fresh`. */
  readonly superseded: Option.Option<string>
  /** Adds a line to `failures.ndjson`. */
  readonly fail: (failure: Json.JsonObject) => Effect.Effect<void, TraceError>
}

type Services = FileSystem.FileSystem | Path.Path | Traces.Traces

/** Of the form of `run.json`. */
const version = 1

/** What a run would find, without changing anything. */
export const look = (wanted: Wanted): Effect.Effect<Found, RunMismatch | TraceError, Services> =>
  Effect.gen(function* () {
    const { folder } = wanted
    const isThere = yield* exists(folder)
    const isNew = wanted.fresh || !isThere || (yield* Superseded.isUnderWay(folder))
    return isNew ? nothing(wanted) : yield* survey(wanted)
  })

/**
 * Makes the folder this run's own until the scope's end: locks it, and makes it ready for what is left to be run, which may
 * be done again from the beginning wherever it is cut short.
 */
export const open = (
  wanted: Wanted
): Effect.Effect<Opened, RunLocked | RunMismatch | TraceError, Services | Scope.Scope> =>
  Effect.gen(function* () {
    const { folder } = wanted
    const fs = yield* FileSystem.FileSystem
    yield* makeFolder(fs, yield* Path.Path, folder).pipe(Effect.mapError(traceError(folder)))
    yield* RunLock.hold(folder)
    const before = yield* Superseded.goOn(folder)
    const superseded = wanted.fresh ? Option.orElse(yield* Superseded.all(folder), () => before) : Option.none()
    const found = yield* survey(wanted)
    yield* clear(wanted, found)
    yield* describe(wanted, found.day)
    return { ...found, superseded, fail: yield* failing(folder) }
  })

const nothing = ({ day }: Wanted): Found => ({ day, held: new Map() })

/** What the folder holds of the wanted run, where it is that run's. */
const survey = (wanted: Wanted): Effect.Effect<Found, RunMismatch | TraceError, Services> =>
  Effect.gen(function* () {
    const { folder, settings } = wanted
    const run = yield* readRun(folder)
    if (Option.isNone(run)) {
      if ((yield* traceFiles(folder)).length === 0) return nothing(wanted)
      return yield* new TraceError({
        file: folder,
        reason:
          "it holds traces of no run that is known here (there is no run.json): give another folder, or begin anew (--fresh)"
      })
    }
    const { day, settings: before } = run.value
    const changed = differences(before, settings)
    if (changed.length === 0) return { day, held: yield* count(wanted) }
    // With nothing saved there is nothing to be mixed up: a mistyped model's name, say.
    if ((yield* traceFiles(folder)).length === 0) return nothing(wanted)
    return yield* new RunMismatch({ folder, differences: changed })
  })

/** Counts the wanted rollouts that the folder's traces hold, each once. */
const count = (wanted: Wanted): Effect.Effect<Found["held"], RunMismatch | TraceError, Services> =>
  Effect.gen(function* () {
    const traces = yield* Traces.Traces
    const { folder, rollouts, settings, tasks } = wanted
    const held = new Map<string, { readonly graded: Map<number, boolean>; readonly void: Set<number> }>()
    const changed = new Map<string, Difference>()
    let foreign = 0
    let twice = 0
    const see = (record: EpisodeRecord): void => {
      const place = placeOf(record)
      const task = Option.getOrUndefined(record.taskId)
      const hash = task === undefined ? undefined : tasks.get(task)
      if (task === undefined || place?.model !== settings.model) {
        foreign++
        return
      }
      if (hash === undefined) return
      const was = Option.getOrElse(record.taskHash, () => "none")
      if (was !== hash) {
        changed.set(task, { setting: `task ${task}`, was, is: hash })
        return
      }
      if (place.rollout >= rollouts) return
      const of = held.get(task) ?? { graded: new Map(), void: new Set() }
      held.set(task, of)
      if (of.graded.has(place.rollout) || of.void.has(place.rollout)) twice++
      if (record.reward !== null) {
        if (!of.graded.has(place.rollout)) of.graded.set(place.rollout, record.success)
        of.void.delete(place.rollout)
      } else if (!of.graded.has(place.rollout)) of.void.add(place.rollout)
    }
    if ((yield* traceFiles(folder)).length > 0) {
      yield* Stream.runForEachChunk(traces.read(folder), (records) =>
        Effect.sync(() => {
          for (const record of records) see(record)
        })
      )
    }
    if (changed.size > 0) return yield* new RunMismatch({ folder, differences: [...changed.values()] })
    const warn = (number: number, what: string) =>
      Effect.when(Effect.logWarning(`${visible(folder)} holds ${what}`), () => number > 0)
    yield* warn(
      foreign,
      `${counted(foreign, "record")} that this run did not save: not counted here, but calibrations of the folder count them.`
    )
    yield* warn(
      twice,
      `${counted(twice, "record")} of rollouts that it holds already: counted once here, but calibrations of the folder count each.`
    )
    return held
  })

/** Which rollout of which policy a record is of. */
const placeOf = (record: EpisodeRecord): { readonly model: Json.Json; readonly rollout: number } | undefined => {
  const { model = null, rollout } = Json.isObject(record.value.rollout) ? record.value.rollout : {}
  return typeof rollout === "number" && Number.isSafeInteger(rollout) && rollout >= 0 ? { model, rollout } : undefined
}

/** Moves out of the way what is to be run again: void rollouts where those are, and the failures of a run before. */
const clear = (wanted: Wanted, { held }: Found): Effect.Effect<void, TraceError, Services> =>
  Effect.gen(function* () {
    const { folder, retryVoid, rollouts, settings, tasks } = wanted
    const place = yield* Effect.cached(Superseded.newPlace(folder))
    const isVoid = (record: EpisodeRecord): boolean => {
      const of = placeOf(record)
      const isHeld = held.has(Option.getOrElse(record.taskId, () => ""))
      return record.reward === null && isHeld && of?.model === settings.model && of.rollout < rollouts
    }
    if (retryVoid && [...held.values()].some((of) => of.void.size > 0)) {
      yield* Effect.forEach(yield* traceFiles(folder), (name) => Superseded.records(folder, name, place, isVoid))
    }
    yield* Superseded.failures(folder, place, ({ rollout, task_id }) => {
      const isTask = typeof task_id === "string" && tasks.has(task_id)
      return isTask && typeof rollout === "number" && rollout < rollouts
    })
  })

/** Appends lines. A write that fails, which ends the run, may leave a torn one: the next run moves it away. */
const failing = (folder: string): Effect.Effect<Opened["fail"], never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* within(folder, failuresName)
    const turns = yield* Effect.makeSemaphore(1)
    return (failure: Json.JsonObject) =>
      Effect.flatMap(fs.open(file, { flag: "a" }), (opened) =>
        opened.writeAll(Buffer.from(`${Json.stringify(failure)}\n`))
      ).pipe(Effect.scoped, Effect.mapError(traceError(file)), Effect.uninterruptible, turns.withPermits(1))
  })

const describe = (
  { folder, settings }: Wanted,
  day: string
): Effect.Effect<void, TraceError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const file = yield* within(folder, runName)
    const before = yield* readRun(folder)
    if (Option.isSome(before) && differences(before.value.settings, settings).length === 0) return
    yield* writeWhole(file, Buffer.from(`${Json.stringify({ version, day, settings })}\n`)).pipe(
      Effect.mapError(traceError(file))
    )
  })

/** What run the folder is of; none where it does not say. */
const readRun = (folder: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* within(folder, runName)
    if (!(yield* exists(file))) return Option.none()
    const text = yield* fs.readFileString(file).pipe(Effect.mapError(traceError(file)))
    const json = Either.getOrElse(Json.parse(text), () => null)
    const { day, settings, version: written = null } = Json.isObject(json) ? json : {}
    if (typeof written === "number" && written > version) {
      return yield* new TraceError({
        file,
        reason: "it is of a later miroir-effect: go on with that one, give another folder, or begin anew (--fresh)"
      })
    }
    if (typeof day === "string" && Json.isObject(settings)) return Option.some({ day, settings })
    return yield* new TraceError({
      file,
      reason: "it does not say of which run the folder is: give another folder, or begin anew (--fresh)"
    })
  })
