/** Folders that are made on demand. */

import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Option from "effect/Option"

/**
 * Makes a folder and those above it, where they are not there, one by one. Node's own way with `recursive` says of a file
 * system that is read-only, broken or over its quota that there is no such folder, and under /proc it never ends.
 */
export const makeFolder = (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  folder: string
): Effect.Effect<void, PlatformError> =>
  Effect.gen(function* () {
    const parent = path.dirname(folder)
    const isFolder = Effect.map(
      Effect.option(fs.stat(folder)),
      Option.exists(({ type }) => type === "Directory")
    )
    if (yield* isFolder) return
    if (parent !== folder && !(yield* fs.exists(parent))) yield* makeFolder(fs, path, parent)
    // Somebody else may have made it meanwhile.
    yield* fs
      .makeDirectory(folder)
      .pipe(Effect.catchIf(isThere, (error) => Effect.filterOrFail(isFolder, identity, () => error)))
  })

const isThere = (error: PlatformError): boolean => error._tag === "SystemError" && error.reason === "AlreadyExists"
