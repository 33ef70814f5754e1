/** The one file of a folder to which this process appends its records. */

import type { PlatformError } from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { TraceError } from "../MiroirError.js"
import { makeFolder } from "./folders.js"
import { platformReason } from "./platformReason.js"

interface OpenFile {
  readonly path: string
  readonly file: FileSystem.File
  readonly scope: Scope.CloseableScope
  /** Up to the end of the last whole line. */
  size: number
}

/**
 * Appends whole lines and gives the path of the file they went to. Files stay open until `scope` is closed.
 * `stem` is their name without suffix and ending.
 */
export const make = (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  scope: Scope.Scope,
  folder: string,
  stem: string
): ((line: string) => Effect.Effect<string, TraceError>) => {
  const lock = Effect.unsafeMakeSemaphore(1)
  let current: OpenFile | undefined

  /** The name has to be free, so that nothing is ever appended to a file of somebody else's. */
  const create = (suffix: number): Effect.Effect<OpenFile, TraceError> =>
    Effect.gen(function* () {
      const file = path.join(folder, `${stem}${suffix === 0 ? "" : `-${suffix}`}.jsonl`)
      const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
      const opened = yield* fs.open(file, { flag: "ax" }).pipe(
        Scope.extend(own),
        Effect.onError((cause) => Scope.close(own, Exit.failCause(cause))),
        Effect.either
      )
      if (opened._tag === "Right") return { path: file, file: opened.right, scope: own, size: 0 }
      const error = opened.left
      if (error._tag === "SystemError" && error.reason === "AlreadyExists") return yield* create(suffix + 1)
      return yield* notSaved(file)(error)
    })

  /** Whether a file is still where it was opened: a run that begins anew, or its user, may have moved or replaced it. */
  const isThere = (opened: OpenFile): Effect.Effect<boolean> =>
    Effect.zipWith(fs.stat(opened.path), opened.file.stat, (one, other) =>
      Option.getEquivalence<number>(Object.is)(one.ino, other.ino)
    ).pipe(Effect.orElseSucceed(() => false))

  const opened = Effect.gen(function* () {
    if (current !== undefined) {
      if (yield* isThere(current)) return current
      yield* Scope.close(current.scope, Exit.void)
      current = undefined
    }
    yield* makeFolder(fs, path, folder).pipe(Effect.mapError(notSaved(folder)))
    current = yield* create(0)
    return current
  })

  /** Cuts off what a failed write left; where even that fails, the file is given up and the next line goes to a new one. */
  const cutBack = (to: OpenFile): Effect.Effect<void> =>
    to.file.truncate(to.size).pipe(
      Effect.catchAll((error) => {
        current = undefined
        return Effect.zipRight(
          Effect.logWarning(
            `${to.path} may end in a torn line, since it cannot be cut back: ${platformReason(error)}.`
          ),
          Scope.close(to.scope, Exit.void)
        )
      })
    )

  return (line) => {
    const bytes = Buffer.from(`${line}\n`, "latin1")
    const append = Effect.gen(function* () {
      const to = yield* opened
      yield* to.file.writeAll(bytes).pipe(
        Effect.tapError(() => cutBack(to)),
        Effect.mapError(notSaved(to.path))
      )
      to.size += bytes.length
      return to.path
    })
    return lock.withPermits(1)(Effect.uninterruptible(append))
  }
}

const notSaved =
  (file: string) =>
  (error: PlatformError): TraceError =>
    new TraceError({ file, reason: `the record was not saved: ${platformReason(error)}` })
