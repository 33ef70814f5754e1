/** Real files in a folder that goes with the test's scope. */
import { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Calibration from "@miroir-effect/core/Calibration"
import type { Json } from "@miroir-effect/core/Json"
import * as Traces from "@miroir-effect/core/Traces"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"

/** Traces, Calibration and the file system that they use. */
export const files = Calibration.layer.pipe(Layer.provideMerge(Traces.layer), Layer.provideMerge(NodeContext.layer))

export const temporaryFolder = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

/** Writes a file into a folder of its own and gives its path. */
export const written = (name: string, content: string | Uint8Array) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = `${yield* temporaryFolder}/${name}`
    yield* fs.writeFile(file, typeof content === "string" ? new TextEncoder().encode(content) : content)
    return file
  })

export const lines = (records: ReadonlyArray<Json>): string =>
  records.map((record) => `${JSON.stringify(record)}\n`).join("")

/** What is logged at level warning, while the effect runs. */
export const warningsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const warnings: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel.label === "WARN") warnings.push(String(message))
    })
    return effect.pipe(
      Effect.map((value) => ({ value, warnings })),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger))
    )
  })

export const systemError = new SystemError({
  module: "FileSystem",
  method: "write",
  reason: "Unknown",
  description: "no space left on device"
})

/** The failure that an error of the system becomes. */
export const failure = (code: string): SystemError =>
  new SystemError({
    module: "FileSystem",
    method: "write",
    reason: code === "EACCES" ? "PermissionDenied" : "Unknown",
    description: `${code}: what the system says of it, write`
  })

/** A file system whose opened files are what `change` makes of them. */
export const changed = (
  fs: FileSystem.FileSystem,
  change: (file: FileSystem.File) => Partial<FileSystem.File>
): FileSystem.FileSystem => ({
  ...fs,
  open: (path, options) =>
    Effect.map(
      fs.open(path, options),
      (file): FileSystem.File => ({
        [FileSystem.FileTypeId]: FileSystem.FileTypeId,
        fd: file.fd,
        stat: file.stat,
        sync: file.sync,
        seek: file.seek.bind(file),
        read: file.read.bind(file),
        readAlloc: file.readAlloc.bind(file),
        truncate: file.truncate.bind(file),
        write: file.write.bind(file),
        writeAll: file.writeAll.bind(file),
        ...change(file)
      })
    )
})
