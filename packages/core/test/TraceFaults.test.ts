/**
 * Disks that are full, broken, read-only or not ours: what is saved stays whole, and what is not is told. FAULT_SCHEDULES sets
 * how many sequences of saves are tried.
 */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import type { SystemError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import { EpisodeRecord } from "@miroir-effect/core/EpisodeRecord"
import * as Traces from "@miroir-effect/core/Traces"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as RunLock from "../src/internal/runLock.js"
import { changed, failure, files, temporaryFolder, warningsOf } from "./support/files.js"
import { collected, env, looks, only, recordsIn, running, withPolicy } from "./support/rollouts.js"

const record = (task_id: string, bytes = 0) =>
  Either.getOrThrow(
    EpisodeRecord.fromValue({ task_id, reward: 1, metadata: { task_hash: "h" }, filler: "é".repeat(bytes) })
  )

/** What a file system can say to a write, and how it is told. */
const told = {
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EIO: "the disk failed",
  EFBIG: "the file is larger than it may be",
  EROFS: "the file system is read-only",
  EACCES: "permission denied",
  EPERM: "permission denied"
} as const
type Code = keyof typeof told
const codes: ReadonlyArray<Code> = ["ENOSPC", "EDQUOT", "EIO", "EFBIG", "EROFS", "EACCES", "EPERM"]

/** Where it says so. */
type Place = "folder" | "open" | "write" | "truncate"

interface Fault {
  readonly code: Code
  readonly place: Place
  /** So many bytes get through before; then the write was short, and the next one fails. */
  readonly after: number
}

/** A file system that is at fault as `fault` says at the moment. */
const faulty = (fs: FileSystem.FileSystem, fault: () => Fault | undefined): FileSystem.FileSystem => {
  const unless = <A, E, R>(place: Place, self: Effect.Effect<A, E, R>) =>
    Effect.suspend((): Effect.Effect<A, E | SystemError, R> => {
      const now = fault()
      return now?.place === place ? failure(now.code) : self
    })
  const made = changed(fs, (file) => ({
    writeAll: (bytes) =>
      Effect.suspend(() => {
        const now = fault()
        if (now === undefined || (now.place !== "write" && now.place !== "truncate")) return file.writeAll(bytes)
        const through = bytes.subarray(0, Math.min(now.after, bytes.length - 1))
        const written = through.length === 0 ? Effect.void : file.writeAll(through)
        return Effect.zipRight(written, failure(now.code))
      }),
    truncate: (length) => unless("truncate", file.truncate(length))
  }))
  return {
    ...made,
    makeDirectory: (path, options) => unless("folder", made.makeDirectory(path, options)),
    open: (path, options) => unless("open", made.open(path, options))
  }
}

const idsIn = (folder: string) =>
  Effect.gen(function* () {
    const traces = yield* Traces.Traces
    const records = yield* warningsOf(Stream.runCollect(traces.read(folder)))
    return Array.from(records.value, ({ value }) => String(value.task_id)).toSorted()
  })

const step = FastCheck.option(
  FastCheck.record<Fault>({
    code: FastCheck.constantFrom(...codes),
    place: FastCheck.constantFrom<Array<Place>>("folder", "open", "write", "write", "truncate"),
    after: FastCheck.nat(60)
  }),
  { nil: undefined }
)

/** Root may do all, so that it has to be somebody else. */
const asNobody = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  process.geteuid?.() === 0
    ? Effect.acquireUseRelease(
        Effect.sync(() => process.seteuid?.(65_534)),
        () => self,
        () => Effect.sync(() => process.seteuid?.(0))
      )
    : self

const run = promisify(execFile)

/** A disk of 64 KiB, gone with the scope; none where this process may not mount one. */
const smallDisk = (options = "") =>
  Effect.gen(function* () {
    const folder = yield* temporaryFolder
    const mounting = ["-t", "tmpfs", "-o", `size=64k${options}`, "tmpfs", folder]
    const mounted = yield* Effect.acquireRelease(
      Effect.option(Effect.tryPromise(() => run("mount", mounting))),
      (mounted) =>
        Effect.when(
          Effect.promise(() => run("umount", ["-l", folder])),
          () => Option.isSome(mounted)
        )
    )
    return Option.as(mounted, folder)
  })

describe("saving", () => {
  it.scopedLive("to a disk that fills up tells so, keeps what is there whole, and goes on once there is room", (test) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const traces = yield* Traces.Traces
      const disk = yield* smallDisk()
      const readOnly = yield* smallDisk(",ro")
      if (Option.isNone(disk) || Option.isNone(readOnly)) return test.skip("no disk can be mounted here")
      const folder = disk.value
      yield* fs.writeFile(`${folder}/filler`, new Uint8Array(8192))
      const calibrations = yield* Calibration.Calibration
      yield* traces.save(folder, record("t0", 500))
      const first = yield* traces.save(folder, record("t0", 500))
      const calibration = yield* calibrations.calibrate({ traces: first, model: "m" })
      yield* calibrations.write(`${folder}/calibration.json`, calibration)
      const saved = ["t0", "t0"]
      let full: string | undefined
      while (full === undefined) {
        const id = `t${saved.length}`
        const result = yield* Effect.either(traces.save(folder, record(id, 500)))
        if (Either.isLeft(result)) full = result.left.message
        else saved.push(id)
      }
      assert.include(full, "the record was not saved: the disk is full")
      assert.isAbove(saved.length, 10)
      assert.deepStrictEqual(yield* idsIn(folder), saved.toSorted())
      const names = yield* fs.readDirectory(folder)
      const longer = { ...calibration, model: "m".repeat(20_000) }
      const notWritten = yield* Effect.flip(calibrations.write(`${folder}/calibration.json`, longer))
      assert.include(notWritten.message, "the disk is full")
      assert.deepStrictEqual(Array.from((yield* calibrations.read(`${folder}/calibration.json`)).tasks.keys()), ["t0"])
      assert.deepStrictEqual(yield* fs.readDirectory(folder), names)

      yield* fs.remove(`${folder}/filler`)
      yield* traces.save(folder, record("again", 500))
      assert.deepStrictEqual(yield* idsIn(folder), [...saved, "again"].toSorted())

      for (const to of [readOnly.value, `${readOnly.value}/below`]) {
        const { message } = yield* Effect.flip(traces.save(to, record("t")))
        assert.include(message, "the record was not saved: the file system is read-only")
      }
    }).pipe(Effect.provide(files))
  )

  it.scopedLive("in a run whose disk fills up ends the run, which goes on once there is room", (test) =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const disk = yield* smallDisk()
      if (Option.isNone(disk)) return test.skip("no disk can be mounted here")
      const folder = disk.value
      yield* fs.writeFile(`${folder}/filler`, new Uint8Array(32_768))
      const container = yield* ScriptedContainer.make(env({ observation: JSON.stringify("x".repeat(1000)) }))
      const run = collected(running([container], { traces: folder, rollouts: 20 }))
      const full = yield* Effect.flip(run)
      assert.include(full.message, "the record was not saved: the disk is full")
      assert.notInclude(yield* fs.readDirectory(folder), "run.lock")
      const before = yield* idsIn(folder)
      assert.isAtLeast(before.length, 1)

      yield* fs.remove(`${folder}/filler`)
      const [began] = only(yield* run, "Began")
      assert.strictEqual(began?.kept, before.length)
      assert.deepStrictEqual(
        yield* recordsIn(folder),
        Array.from({ length: 20 }, (_, rollout) => `t1/${rollout}: 1`).toSorted()
      )
    }).pipe(withPolicy(looks))
  )

  it.scopedLive("to a folder that is somebody else's tells so", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const traces = yield* Traces.Traces
      const folder = `${yield* temporaryFolder}/theirs`
      yield* fs.makeDirectory(folder)
      yield* fs.chmod(folder, 0o555)
      yield* fs.chmod(`${folder}/..`, 0o755)
      for (const to of [folder, `${folder}/below`]) {
        const { message } = yield* Effect.flip(asNobody(traces.save(to, record("t"))))
        assert.include(message, "the record was not saved: permission denied")
      }
    }).pipe(Effect.provide(files))
  )

  it.scopedLive("tells what was not saved and why, and keeps whole what was, whenever the disk is at fault", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const run = (steps: ReadonlyArray<Fault | undefined>) =>
        Effect.gen(function* () {
          let now: Fault | undefined
          const folder = `${yield* temporaryFolder}/traces`
          const traces = yield* Effect.provideService(
            Traces.make,
            FileSystem.FileSystem,
            faulty(fs, () => now)
          )
          const saved: Array<string> = []
          // A folder that is there is not made, and a file that is open asks for neither.
          let isOpen = false
          for (const [index, fault] of steps.entries()) {
            now = fault
            const id = `t${index}`
            const isThere = yield* fs.exists(folder)
            const result = yield* Effect.either(warningsOf(traces.save(folder, record(id))))
            const comesToWrite = fault?.place === "write" || fault?.place === "truncate"
            const strikes = comesToWrite || (!isOpen && !(isThere && fault?.place === "folder"))
            assert.strictEqual(Either.isLeft(result), fault !== undefined && strikes)
            if (Either.isRight(result)) saved.push(id)
            else {
              assert.include(result.left.message, `the record was not saved: ${told[fault?.code ?? "EIO"]}`)
            }
            isOpen = Either.isRight(result) || fault?.place === "write"
          }
          if (saved.length > 0) assert.deepStrictEqual(yield* idsIn(folder), saved.toSorted())
        }).pipe(Effect.scoped, Effect.provide(files))
      yield* Effect.promise(() =>
        FastCheck.assert(
          FastCheck.asyncProperty(FastCheck.array(step, { minLength: 1, maxLength: 12 }), (steps) =>
            Effect.runPromise(run(steps))
          ),
          { numRuns: Number(process.env.FAULT_SCHEDULES ?? 60), seed: Number(process.env.FAULT_SEED ?? 1) }
        )
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )
})

describe("a run's lock", () => {
  for (const links of [true, false]) {
    it.scopedLive(`that a full disk has no room for leaves nothing, with ${links ? "" : "no "}links`, () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const folder = yield* temporaryFolder
        let room = 0
        const full: FileSystem.FileSystem = {
          ...fs,
          link: (from, to) => (links ? fs.link(from, to) : failure("EPERM")),
          // Making a file takes no room; what is to be in it does.
          writeFileString: (file, text, options) =>
            room-- > 0
              ? fs.writeFileString(file, text, options)
              : Effect.zipRight(fs.writeFileString(file, "", options), failure("ENOSPC"))
        }
        const hold = Effect.scoped(RunLock.hold(folder))
        for (const has of links ? [0] : [0, 1]) {
          room = has
          const error = yield* Effect.flip(Effect.provideService(hold, FileSystem.FileSystem, full))
          assert.include(error.message, "the disk is full")
          assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
        }
        yield* hold
      }).pipe(Effect.provide(NodeContext.layer))
    )
  }
})
