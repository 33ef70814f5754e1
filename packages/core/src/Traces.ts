/**
 * Trace files: episode records, one JSON object a line, shared with the Python
 * client. Saving appends to a file of this process's own; reading takes files and
 * folders, gzip or not.
 *
 * @since 0.1.0
 */

import { hostname } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type { EpisodeRecord } from "./EpisodeRecord.js"
import { RecordDecoder, TallyDecoder } from "./internal/traceDecoders.js"
import * as TraceFiles from "./internal/traceFiles.js"
import { leastPiece, pieceSize } from "./internal/traceLines.js"
import { TraceScanners } from "./internal/traceScanner.js"
import * as TraceWriter from "./internal/traceWriter.js"
import { TraceError } from "./MiroirError.js"
import type { Tally } from "./Tally.js"

/**
 * Saves and reads trace files.
 *
 * @since 0.1.0
 * @category services
 */
export class Traces extends Context.Tag("@miroir-effect/core/Traces")<
  Traces,
  {
    /**
     * Appends a record to this process's file in a folder, which is made on demand, and gives that file's path.
     *
     * Lines are whole, however many fibers save at once; a save that has begun is not interrupted. A save that
     * failed leaves no part of a line.
     */
    readonly save: (folder: string, record: EpisodeRecord) => Effect.Effect<string, TraceError>
    /**
     * The records of files, and of the folders' `*.jsonl` and `*.jsonl.gz`, sorted, not recursive.
     *
     * A torn last line, and rewards that are not finite (they count as void), are warned of. Any other line that is no
     * JSON or no record is a `TraceError`, after the records before it. What is held in memory does not grow with the
     * files, only with their longest line.
     */
    readonly read: (paths: string | ReadonlyArray<string>) => Stream.Stream<EpisodeRecord, TraceError>
    /**
     * The tally of the same records, many times as fast. Of values that are not needed only the strings' ends and control
     * characters and the balance of the brackets are checked. A record without `task_id` or `metadata.task_hash` is a `TraceError`.
     */
    readonly tally: (paths: string | ReadonlyArray<string>) => Effect.Effect<Tally, TraceError>
  }
>() {}

/**
 * The folders' files stay open until the scope is closed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const scope = yield* Effect.scope
  const scanners = new TraceScanners()
  const writers = new Map<string, ReturnType<typeof TraceWriter.make>>()

  const writerOf = (folder: string): ReturnType<typeof TraceWriter.make> => {
    const key = path.resolve(folder)
    const writer = writers.get(key) ?? TraceWriter.make(fs, path, scope, folder, fileStem())
    writers.set(key, writer)
    return writer
  }

  const save = (folder: string, record: EpisodeRecord): Effect.Effect<string, TraceError> =>
    Effect.flatMap(
      Effect.try({
        try: () => record.line,
        catch: () => new TraceError({ file: folder, reason: "the record was not saved: it is nested too deeply" })
      }),
      (line) => writerOf(folder)(line)
    )

  const list = (paths: string | ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, TraceError> =>
    TraceFiles.list(fs, path, typeof paths === "string" ? [paths] : paths)

  const tally = (files: ReadonlyArray<string>): Effect.Effect<Tally, TraceError> =>
    Effect.flatMap(TraceFiles.largest(fs, files), (size) =>
      Effect.acquireUseRelease(
        Effect.map(Effect.zip(Random.nextInt, Random.nextInt), (seed) =>
          scanners.make(Math.min(Math.max(size, leastPiece), pieceSize), seed)
        ),
        (scanner) =>
          Effect.suspend(() => {
            const decoder = new TallyDecoder(scanner)
            return Effect.map(Stream.runDrain(TraceFiles.decodeFiles(fs, files, decoder)), () => decoder.result())
          }),
        (scanner) => Effect.sync(() => (scanner === undefined ? undefined : scanners.release(scanner)))
      )
    )

  return Traces.of({
    save,
    read: (paths) =>
      Stream.unwrap(Effect.map(list(paths), (files) => TraceFiles.decodeFiles(fs, files, new RecordDecoder()))),
    tally: (paths) => Effect.flatMap(list(paths), tally)
  })
})

/**
 * The service as a layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Traces, never, FileSystem.FileSystem | Path.Path> = Layer.scoped(Traces, make)

/** `20261130T053326Z-HOST-PID`: when this process started, in UTC, and where. */
const fileStem = (): string => {
  const start = new Date(performance.timeOrigin).toISOString().replace(/[-:]|\.\d+/g, "")
  return `${start}-${hostname().replace(/[^\w.-]/g, "_")}-${process.pid}`
}
