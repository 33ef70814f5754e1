/**
 * The lock that keeps two runs out of one folder: a file that names the process that holds it. One whose process is gone is
 * taken over.
 *
 * A lock is there whole or not at all, since a file is written first and then linked to the lock's name, which fails where
 * there is one. Taking over has to be one process's, too: who finds the lock of a dead process takes another lock, named for
 * that very lock, looks whether the dead one is still there, and only then puts its own in its place.
 */

import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Json from "../Json.js"
import { RunLocked, TraceError } from "../MiroirError.js"
import { platformReason } from "./platformReason.js"
import { visible } from "./text.js"

/** Who holds a lock. */
interface Holder {
  readonly host: string
  readonly pid: number
  /** When the lock was made. */
  readonly since: string
  /** When the process began, where the system tells: another process may have the same pid by now. */
  readonly born: string | null
  /** Each lock's own, as a process may make several. */
  readonly id: string
}

const fileName = "run.lock"

/** Holds the lock of a folder, which has to be there, until the scope's end. */
export const hold = (
  folder: string
): Effect.Effect<void, RunLocked | TraceError, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = path.join(folder, fileName)
    const own: Holder = {
      host: hostname(),
      pid: process.pid,
      since: DateTime.formatIso(yield* DateTime.now),
      born: yield* bornOf(process.pid),
      id: randomUUID()
    }
    const text = `${JSON.stringify(own)}\n`
    const draft = path.join(folder, `.${fileName}.${own.id}`)

    /** Leaves nothing where the disk is full: an empty lock would be taken for somebody's. */
    const written = (file: string, options?: FileSystem.WriteFileStringOptions): Effect.Effect<void, PlatformError> =>
      fs
        .writeFileString(file, text, options)
        .pipe(Effect.tapError((error) => Effect.unless(remove(file), () => alreadyExists(error))))

    /** Whether there was no such lock, and it is ours now. */
    const placed = (lock: string): Effect.Effect<boolean, PlatformError> =>
      fs.link(draft, lock).pipe(
        // Not all file systems have links.
        Effect.catchIf(
          (error) => !alreadyExists(error),
          () => written(lock, { flag: "wx" })
        ),
        Effect.as(true),
        Effect.catchIf(alreadyExists, () => Effect.succeed(false))
      )

    const replaced = (lock: string): Effect.Effect<void, PlatformError> => {
      const next = `${draft}-next`
      return Effect.zipRight(written(next), fs.rename(next, lock)).pipe(Effect.tapError(() => remove(next)))
    }

    const take = (lock: string): Effect.Effect<void, RunLocked | TraceError | PlatformError, FileSystem.FileSystem> =>
      Effect.gen(function* () {
        if (yield* placed(lock)) return
        const holder = yield* read(lock)
        if (Option.isNone(holder)) {
          // Given back meanwhile, unless it is a link that leads nowhere.
          const isLink = yield* Effect.isSuccess(fs.readLink(lock))
          if (!isLink) return yield* take(lock)
          return yield* new TraceError({ file: lock, reason: "it is a link that leads nowhere: remove it" })
        }
        const { host, id, pid, since } = holder.value
        if (yield* isAlive(holder.value)) return yield* new RunLocked({ folder, file, host, pid, since })
        const succession = path.join(folder, `.${fileName}.after-${id}`)
        yield* take(succession)
        const isReplaced = yield* read(lock).pipe(
          Effect.flatMap((now) => Effect.when(replaced(lock), () => Option.exists(now, (holder) => holder.id === id))),
          Effect.ensuring(remove(succession))
        )
        if (Option.isNone(isReplaced)) yield* take(lock)
      })

    const remove = (left: string): Effect.Effect<void> =>
      fs
        .remove(left, { force: true })
        .pipe(Effect.catchAll((error) => Effect.logWarning(`${visible(left)} is left over: ${platformReason(error)}.`)))

    const release = read(file).pipe(
      Effect.orElseSucceed(Option.none),
      Effect.flatMap((now) => Effect.when(remove(file), () => Option.exists(now, ({ id }) => id === own.id)))
    )

    const acquire = Effect.zipRight(written(draft), Effect.ensuring(take(file), remove(draft)))
    yield* Effect.acquireRelease(acquire, () => Effect.provideService(release, FileSystem.FileSystem, fs)).pipe(
      Effect.catchTags({
        BadArgument: (error) => unusable(file, error),
        SystemError: (error) => unusable(file, error)
      })
    )
  })

const unusable = (file: string, error: PlatformError) =>
  new TraceError({ file, reason: `the folder cannot be locked: ${platformReason(error)}` })

const alreadyExists = (error: PlatformError): boolean =>
  error._tag === "SystemError" && error.reason === "AlreadyExists"

/** None where there is no such lock. One that cannot be read is somebody's, too. */
const read = (lock: string): Effect.Effect<Option.Option<Holder>, PlatformError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* fs.readFileString(lock)
    const json = Either.getOrElse(Json.parse(text), () => null)
    const { born, host, id, pid, since } = Json.isObject(json) ? json : {}
    return Option.some({
      host: typeof host === "string" ? host : "an unknown host",
      pid: typeof pid === "number" ? pid : 0,
      since: typeof since === "string" ? since : "an unknown time",
      born: typeof born === "string" ? born : null,
      id: typeof id === "string" && /^[\w-]+$/.test(id) ? id : "unknown"
    })
  }).pipe(
    Effect.catchIf(
      (error) => error._tag === "SystemError" && error.reason === "NotFound",
      () => Effect.succeedNone
    )
  )

/** What of another host cannot be told counts as alive. */
const isAlive = ({ born, host, pid }: Holder): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    if (host !== hostname() || pid <= 0) return true
    const answered = yield* Effect.either(
      Effect.try({ try: () => process.kill(pid, 0), catch: (error) => isNoSuchProcess(error) })
    )
    if (Either.isLeft(answered) && answered.left) return false
    const now = yield* bornOf(pid)
    return born === null || now === null || born === now
  })

const isNoSuchProcess = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ESRCH"

/** When a process began: on Linux the boot, and the ticks since then; elsewhere only this process knows of itself. */
const bornOf = (pid: number): Effect.Effect<string | null, never, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const boot = yield* fs.readFileString("/proc/sys/kernel/random/boot_id")
    const stat = yield* fs.readFileString(`/proc/${pid}/stat`)
    // The second field is the program's name in brackets, which may hold blanks and brackets; the time is the 22nd.
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    // One that has ended stays until its parent looks.
    return state === "Z" ? "ended" : `${boot.trim()}/${fields[18]}`
  }).pipe(Effect.orElseSucceed(() => (pid === process.pid ? String(performance.timeOrigin) : null)))
