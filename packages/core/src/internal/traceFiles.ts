/** Finds trace files, opens them, gzip or not, and decodes their lines as a stream. */

import { closeSync, constants, createReadStream, open as openFile } from "node:fs"
import { Socket } from "node:net"
import type { Readable } from "node:stream"
import { createGunzip } from "node:zlib"
import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TraceError } from "../MiroirError.js"
import { sortedByCodePoints } from "./codePoints.js"
import { platformReason } from "./platformReason.js"
import { counted, visible } from "./text.js"
import { type LineDecoder, type LineFault, TraceLines } from "./traceLines.js"

/** How many bytes are read from a gzip file at a time. */
const blockSize = 1 << 18

/**
 * The files themselves, and those of folders that end in .jsonl or .jsonl.gz, in code point order; not recursive.
 * A file that is named twice is read once.
 */
export const list = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  paths: ReadonlyArray<string>
) {
  const files = new Map<string, string>()
  for (const given of paths) {
    const fail = Effect.mapError(traceError(given))
    const isFolder = (yield* fs.stat(given).pipe(fail)).type === "Directory"
    const found = isFolder
      ? sortedByCodePoints(yield* fs.readDirectory(given).pipe(fail))
          .filter((name) => /\.jsonl(\.gz)?$/.test(name))
          .map((name) => path.join(given, name))
      : [given]
    for (const file of found) if (!files.has(path.resolve(file))) files.set(path.resolve(file), file)
  }
  return Array.from(files.values())
})

/** The size of the largest of the files in bytes, infinite where one is compressed or does not tell. */
export const largest = (fs: FileSystem.FileSystem, files: ReadonlyArray<string>): Effect.Effect<number, TraceError> =>
  Effect.reduce(files, 0, (most, file) =>
    Effect.mapBoth(fs.stat(file), {
      onFailure: traceError(file),
      onSuccess: ({ size, type }) =>
        Math.max(most, type === "File" && !file.endsWith(".gz") ? Number(size) : Number.POSITIVE_INFINITY)
    })
  )

/** Decodes the lines of files, one after the other. */
export const decodeFiles = <A>(
  fs: FileSystem.FileSystem,
  files: ReadonlyArray<string>,
  decoder: LineDecoder<A>
): Stream.Stream<A, TraceError> =>
  Stream.suspend(() => {
    const lines = new TraceLines(decoder)
    return Stream.fromIterable(files).pipe(
      Stream.flatMap((file) =>
        Stream.unwrapScoped(Effect.flatMap(open(fs, file), (read) => decodeFile(file, read, lines, decoder)))
      )
    )
  })

/** Fills a buffer with the next bytes and gives their number, 0 at the end. */
type Read = (into: Uint8Array) => Effect.Effect<number, TraceError>

const decodeFile = <A>(
  file: string,
  read: Read,
  lines: TraceLines<A>,
  decoder: LineDecoder<A>
): Effect.Effect<Stream.Stream<A, TraceError>, never, Scope.Scope> =>
  Effect.gen(function* () {
    lines.reset()
    decoder.notFinite = 0
    // The next bytes are read while the last ones are decoded.
    const readOn = Effect.forkIn(
      Effect.suspend(() => read(lines.room())),
      yield* Effect.scope
    )
    let reading = yield* readOn
    let end: Effect.Effect<never, Option.Option<TraceError>> | undefined

    /** All lines of one read at once: an effect for each line would take longer than reading it. */
    const pull: Effect.Effect<Chunk.Chunk<A>, Option.Option<TraceError>> = Effect.gen(function* () {
      if (end !== undefined) return yield* end
      const count = yield* Effect.mapError(Fiber.join(reading), Option.some)
      const out: Array<A> = []
      const isEnd = count === 0
      if (!isEnd) {
        lines.took(count)
        reading = yield* readOn
        // A fork begins when this fiber lets go.
        yield* Effect.yieldNow()
      }
      const fault = isEnd ? lines.decodeRest(out) : lines.decode(out)
      const torn = isEnd && fault?.isJson === false ? fault : undefined
      if (fault !== undefined && torn === undefined) {
        end = Effect.fail(Option.some(new TraceError({ file, line: fault.line, reason: fault.reason })))
      } else if (isEnd) {
        end = Effect.zipRight(warn(torn), Effect.fail(Option.none()))
      }
      return Chunk.unsafeFromArray(out)
    })

    const warn = (torn: LineFault | undefined): Effect.Effect<void> => {
      const cutShort = Effect.logWarning(
        `${visible(file)}, line ${torn?.line}: skipped: it has no line end and is no JSON, so its writing was cut short.`
      )
      const notFinite = Effect.logWarning(
        `${visible(file)}: ${counted(decoder.notFinite, "reward is", "rewards are")} not finite and counted as void.`
      )
      return Effect.zipRight(
        Effect.when(cutShort, () => torn !== undefined),
        Effect.when(notFinite, () => decoder.notFinite > 0)
      )
    }

    return Stream.repeatEffectChunkOption(pull)
  })

const open = (fs: FileSystem.FileSystem, file: string): Effect.Effect<Read, TraceError, Scope.Scope> =>
  Effect.gen(function* () {
    const { size, type } = yield* fs.stat(file).pipe(Effect.mapError(traceError(file)))
    if (type === "Directory") return yield* new TraceError({ file, reason: "it is a folder" })
    // Of a compressed file too: it is how one begins, and Python reads nothing from it.
    if (type === "File" && Number(size) === 0) return () => Effect.succeed(0)
    const isGzip = file.endsWith(".gz")
    if (type === "File" && !isGzip) {
      const opened = yield* fs.open(file, { flag: "r" }).pipe(Effect.mapError(traceError(file)))
      // Not to be interrupted, since the buffer and the descriptor must not go while they are in use.
      return (into) =>
        Effect.uninterruptible(Effect.mapBoth(opened.read(into), { onSuccess: Number, onFailure: traceError(file) }))
    }
    // A pipe cannot be read from a position, which is the only way of FileSystem.
    const bytes =
      type === "File"
        ? fs.stream(file, { chunkSize: blockSize }).pipe(Stream.mapError(traceError(file)))
        : NodeStream.fromReadable(yield* openReadable(file, type), streamError(file))
    return yield* fromStream(
      isGzip
        ? NodeStream.pipeThroughDuplex(bytes, () => createGunzip({ chunkSize: blockSize }), streamError(file))
        : bytes
    )
  })

/**
 * A pipe as a socket, which waits for its bytes in the event loop: a thread that waits for them in a `read` cannot be
 * stopped, and the process would not end before the pipe does.
 */
const openReadable = (file: string, type: FileSystem.File.Type): Effect.Effect<() => Readable, TraceError> =>
  type !== "FIFO"
    ? Effect.succeed(() => createReadStream(file))
    : Effect.async((resume) => {
        let isWanted = true
        openFile(file, (error, fd) => {
          if (error !== null) resume(Effect.fail(streamError(file)(error)))
          else if (isWanted) resume(Effect.succeed(() => new Socket({ fd, readable: true, writable: false })))
          else closeSync(fd)
        })
        return Effect.sync(() => {
          isWanted = false
          // The thread that waits for somebody to write would keep the process from ending: so that is us.
          openFile(file, constants.O_WRONLY | constants.O_NONBLOCK, (error, fd) => {
            if (error === null) closeSync(fd)
          })
        })
      })

const fromStream = (stream: Stream.Stream<Uint8Array, TraceError>): Effect.Effect<Read, never, Scope.Scope> =>
  Effect.map(Stream.toPull(stream), (pull) => {
    let left: Uint8Array = new Uint8Array(0)
    const read: Read = (into) =>
      Effect.suspend(() => {
        if (left.length === 0) {
          return pull.pipe(
            Effect.flatMap((chunk) => {
              left = Buffer.concat(Chunk.toReadonlyArray(chunk))
              return Effect.mapError(read(into), Option.some)
            }),
            Effect.catchAll(Option.match({ onNone: () => Effect.succeed(0), onSome: Effect.fail }))
          )
        }
        const count = Math.min(left.length, into.length)
        into.set(left.subarray(0, count))
        left = left.subarray(count)
        return Effect.succeed(count)
      })
    return read
  })

const traceError =
  (file: string) =>
  (error: PlatformError): TraceError =>
    new TraceError({ file, reason: platformReason(error) })

const streamError =
  (file: string) =>
  (error: unknown): TraceError => {
    const code = error instanceof Error && "code" in error ? error.code : undefined
    const reason =
      code === "Z_BUF_ERROR"
        ? "its gzip data end too early, so it was cut short"
        : code === "Z_DATA_ERROR"
          ? `it is no sound gzip file (${error instanceof Error ? error.message : code})`
          : error instanceof Error
            ? error.message
            : "it cannot be read"
    return new TraceError({ file, reason })
  }
