/** What is where in a run's folder. */

import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import { TraceError } from "../MiroirError.js"
import { platformReason } from "./platformReason.js"

/** Says what run it is. */
export const runName = "run.json"

/** Has a line for each rollout that was given up. */
export const failuresName = "failures.ndjson"

/** The names of the folder's trace files. */
export const traceFiles = (folder: string): Effect.Effect<ReadonlyArray<string>, TraceError, FileSystem.FileSystem> =>
  Effect.map(names(folder), (names) => names.filter(isTrace))

/** The names of all that a run leaves in the folder; what else is there is its user's. */
export const runFiles = (folder: string): Effect.Effect<ReadonlyArray<string>, TraceError, FileSystem.FileSystem> =>
  Effect.map(names(folder), (names) =>
    names.filter((name) => isTrace(name) || name === runName || name === failuresName)
  )

export const within = (folder: string, name: string): Effect.Effect<string, never, Path.Path> =>
  Effect.map(Path.Path, (path) => path.join(folder, name))

export const exists = (file: string): Effect.Effect<boolean, TraceError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.exists(file)).pipe(Effect.mapError(traceError(file)))

export const traceError =
  (file: string) =>
  (error: PlatformError | TraceError): TraceError =>
    error._tag === "TraceError" ? error : new TraceError({ file, reason: platformReason(error) })

const names = (folder: string): Effect.Effect<ReadonlyArray<string>, TraceError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readDirectory(folder)).pipe(Effect.mapError(traceError(folder)))

const isTrace = (name: string): boolean => /\.jsonl(\.gz)?$/.test(name)
