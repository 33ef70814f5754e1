/** Files that are written whole or not at all. */

import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
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
    const path = yield* Path.Path
    yield* fs.makeDirectory(path.dirname(file), { recursive: true })
    const present = yield* Effect.option(fs.realPath(file))
    const kind = yield* Option.match(present, {
      onNone: () => Effect.succeedNone,
      onSome: (real) => Effect.asSome(Effect.map(fs.stat(real), ({ type }) => type))
    })
    const target = Option.getOrElse(present, () => file)
    if (Option.exists(kind, (type) => type !== "File" && type !== "Directory"))
      return yield* fs.writeFile(target, bytes)

    const random = yield* Random.nextIntBetween(0, 2 ** 48)
    const draft = path.join(path.dirname(target), `.${path.basename(target)}.${process.pid}-${random.toString(36)}`)
    const writeDraft = Effect.scoped(
      Effect.flatMap(fs.open(draft, { flag: "wx" }), (opened) => Effect.zipRight(opened.writeAll(bytes), opened.sync))
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
