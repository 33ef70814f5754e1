/** Files that are written whole or not at all. */

import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import { makeFolder } from "./folders.js"
import { platformReason } from "./platformReason.js"
import { visible } from "./text.js"

/**
 * Writes a file, in the place of one that is there; its folder is made on demand. A link stays one: what it leads to is
 * written. What is there and is no file (a device, a pipe) is never replaced, but written into.
 */
export const writeWhole = (
  file: string,
  bytes: Uint8Array
): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const { kind, target } = yield* located(file)
    if (Option.exists(kind, isNoFile)) return yield* fs.writeFile(target, bytes)
    yield* replaceWhole(target, (opened) => opened.writeAll(bytes))
  })

/** Fails where `writeWhole` would fail now. Nothing is changed, but that the file's folder is there. */
export const canWriteWhole = (file: string): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const { kind, target } = yield* located(file)
    // Who reads from a pipe would take such a look for the end.
    if (Option.exists(kind, isNoFile)) return
    if (Option.contains(kind, "Directory")) return yield* Effect.scoped(Effect.asVoid(fs.open(target, { flag: "r+" })))
    const draft = yield* draftOf(target)
    yield* Effect.uninterruptible(Effect.zipRight(Effect.scoped(fs.open(draft, { flag: "wx" })), fs.remove(draft)))
  })

/** What is there, and where links lead to. The file's folder is made on demand. */
const located = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* makeFolder(fs, path, path.dirname(file))
    const kind = Option.map(yield* Effect.option(fs.stat(file)), ({ type }) => type)
    // A pipe in /dev/fd has no path that could be followed.
    const target = Option.contains(kind, "File") ? yield* fs.realPath(file) : file
    return { kind, target }
  })

const isNoFile = (type: FileSystem.File.Type): boolean => type !== "File" && type !== "Directory"

const draftOf = (target: string): Effect.Effect<string, never, Path.Path> =>
  Effect.gen(function* () {
    const path = yield* Path.Path
    const random = yield* Random.nextIntBetween(0, 2 ** 48)
    return path.join(path.dirname(target), `.${path.basename(target)}.${process.pid}-${random.toString(36)}`)
  })

/** Puts what `write` writes in the place of a file, whose folder has to be there. */
export const replaceWhole = <E>(
  target: string,
  write: (opened: FileSystem.File) => Effect.Effect<void, E>
): Effect.Effect<void, PlatformError | E, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const draft = yield* draftOf(target)
    const writeDraft = Effect.scoped(
      Effect.flatMap(fs.open(draft, { flag: "wx" }), (opened) => Effect.zipRight(write(opened), opened.sync))
    )
    const removeDraft = fs
      .remove(draft, { force: true })
      .pipe(Effect.catchAll((error) => Effect.logWarning(`${visible(draft)} is left over: ${platformReason(error)}.`)))
    yield* writeDraft.pipe(
      Effect.zipRight(fs.rename(draft, target)),
      Effect.onError(() => removeDraft),
      Effect.uninterruptible
    )
  })
