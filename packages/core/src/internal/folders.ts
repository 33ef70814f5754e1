/** Folders that are made on demand. */

import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"

/**
 * Makes a folder and those above it, where they are not there. What hinders it is told as it is: Node's own way with
 * `recursive` says of a file system that is read-only, broken or over its quota that there is no such folder.
 */
export const makeFolder = (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  folder: string
): Effect.Effect<void, PlatformError> =>
  fs.makeDirectory(folder, { recursive: true }).pipe(
    Effect.catchIf(because("NotFound"), () =>
      Effect.gen(function* () {
        const parent = path.dirname(folder)
        if (!(yield* fs.exists(parent))) yield* makeFolder(fs, path, parent)
        // Somebody else may have made it meanwhile; a link that leads nowhere is no folder.
        yield* fs.makeDirectory(folder).pipe(Effect.catchIf(because("AlreadyExists"), () => fs.stat(folder)))
      })
    )
  )

const because =
  (reason: "NotFound" | "AlreadyExists") =>
  (error: PlatformError): boolean =>
    error._tag === "SystemError" && error.reason === reason
