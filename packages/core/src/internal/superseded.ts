/**
 * What of a run's folder no longer counts, and the folder `superseded/TIME/` that it goes to. Lines are there before they are
 * here no more, so that nothing is lost wherever a process dies.
 */

import { gzipSync } from "node:zlib"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { EpisodeRecord } from "../EpisodeRecord.js"
import * as Json from "../Json.js"
import type { TraceError } from "../MiroirError.js"
import { makeFolder } from "./folders.js"
import { exists, failuresName, runFiles, traceError, within } from "./runFiles.js"
import { RecordDecoder } from "./traceDecoders.js"
import * as TraceFiles from "./traceFiles.js"
import { replaceWhole, writeWhole } from "./wholeFile.js"

type Files = FileSystem.FileSystem | Path.Path

/** Where what no longer counts goes: made when it is first needed. */
export type Place = Effect.Effect<string, TraceError, Files>

const parentName = "superseded"

/** Says where all of a folder is being moved to, until that is done. */
const markerName = ".superseding.json"

/** A new folder, named for the time. */
export const newPlace = (folder: string): Place =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const time = DateTime.formatIso(yield* DateTime.now).replace(/[-:]|\.\d+/g, "")
    const parent = path.join(folder, parentName)
    yield* makeFolder(fs, path, parent)
    const make = (number: number): Effect.Effect<string, PlatformError> => {
      const made = path.join(parent, number === 1 ? time : `${time}-${number}`)
      return fs.makeDirectory(made).pipe(
        Effect.as(made),
        Effect.catchIf(
          (error) => error._tag === "SystemError" && error.reason === "AlreadyExists",
          () => make(number + 1)
        )
      )
    }
    return yield* make(1)
  }).pipe(Effect.mapError(traceError(folder)))

/** Moves all that is of a run, and gives where to; none where there is nothing. */
export const all = (folder: string): Effect.Effect<Option.Option<string>, TraceError, Files> =>
  Effect.gen(function* () {
    const { basename } = yield* Path.Path
    if ((yield* runFiles(folder)).length === 0) return Option.none()
    const marker = yield* within(folder, markerName)
    const text = Json.stringify({ to: basename(yield* newPlace(folder)) })
    yield* writeWhole(marker, Buffer.from(text)).pipe(Effect.mapError(traceError(marker)))
    return yield* goOn(folder)
  })

/** Whether all is being moved: then what is still here counts no more. */
export const isUnderWay = (folder: string): Effect.Effect<boolean, TraceError, Files> =>
  Effect.flatMap(within(folder, markerName), exists)

/** Ends such a move, which another process may have begun and died in. */
export const goOn = (folder: string): Effect.Effect<Option.Option<string>, TraceError, Files> =>
  Effect.gen(function* () {
    if (!(yield* isUnderWay(folder))) return Option.none()
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { basename, join } = path
    const marker = join(folder, markerName)
    const json = Either.getOrElse(Json.parse(yield* fs.readFileString(marker)), () => null)
    const to = join(folder, parentName, Json.isObject(json) && typeof json.to === "string" ? basename(json.to) : "")
    yield* makeFolder(fs, path, to)
    yield* Effect.forEach(yield* runFiles(folder), (name) => fs.rename(join(folder, name), join(to, name)))
    yield* fs.remove(marker)
    return Option.some(to)
  }).pipe(Effect.mapError(traceError(folder)), Effect.uninterruptible)

/** Moves records of a trace file. */
export const records = (
  folder: string,
  name: string,
  place: Place,
  isOut: (record: EpisodeRecord) => boolean
): Effect.Effect<void, TraceError, Files> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* within(folder, name)
    const bytes = (some: Iterable<EpisodeRecord>): Uint8Array => {
      const plain = Buffer.from(Array.from(some, ({ line }) => `${line}\n`).join(""), "latin1")
      return name.endsWith(".gz") ? gzipSync(plain) : plain
    }
    const lines = TraceFiles.decodeFiles(fs, [file], new RecordDecoder())
    const out: Array<EpisodeRecord> = []
    let stay = 0
    yield* Stream.runForEach(lines, (record) =>
      Effect.sync(() => {
        if (isOut(record)) out.push(record)
        else stay++
      })
    )
    if (out.length === 0) return
    yield* writeWhole(yield* within(yield* place, name), bytes(out))
    if (stay === 0) return yield* fs.remove(file)
    const rest = Stream.rechunk(
      Stream.filter(lines, (record) => !isOut(record)),
      100
    )
    yield* replaceWhole(file, (opened) => Stream.runForEachChunk(rest, (some) => opened.writeAll(bytes(some))))
  }).pipe(
    Effect.mapError(traceError(folder)),
    // What is wrong with the file was told when its records were counted.
    Logger.withMinimumLogLevel(LogLevel.Error)
  )

/** Moves lines of the failures; a torn one goes as well. */
export const failures = (
  folder: string,
  place: Place,
  isOut: (failure: Json.JsonObject) => boolean
): Effect.Effect<void, TraceError, Files> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* within(folder, failuresName)
    if (!(yield* exists(file))) return
    const lines = (yield* fs.readFileString(file)).split(/(?<=\n)/)
    const stays = (line: string): boolean => {
      const json = Either.getOrElse(Json.parse(line), () => null)
      return line.endsWith("\n") && Json.isObject(json) && !isOut(json)
    }
    const bytes = (some: ReadonlyArray<string>): Uint8Array => Buffer.from(some.join(""))
    const out = bytes(lines.filter((line) => !stays(line)))
    if (out.length === 0) return
    yield* writeWhole(yield* within(yield* place, failuresName), out)
    const rest = bytes(lines.filter(stays))
    yield* rest.length === 0 ? fs.remove(file) : writeWhole(file, rest)
  }).pipe(Effect.mapError(traceError(`${folder}/${failuresName}`)))
