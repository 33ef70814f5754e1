/** Folders, on the real file system. */
import { existsSync } from "node:fs"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Folders from "@miroir-effect/core/Folders"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const provided = Effect.provide(Layer.merge(NodeFileSystem.layer, NodePath.layer))

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

describe("a folder", () => {
  it.scopedLive("is made with those above it, behind links, by many at once, and where it is there", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* temporary
      yield* fs.makeDirectory(`${root}/real`)
      yield* fs.symlink(`${root}/real`, `${root}/link`)
      const folders = ["a/b/c", "a/b/d", "a", "link/e/f", "link", "real/e/g/", "./a//h/../i"]
      yield* Effect.forEach(
        Array.from({ length: 10 }).flatMap(() => folders),
        (folder) => Folders.make(`${root}/${folder}`),
        { concurrency: "unbounded" }
      )
      for (const made of ["a/b/c", "a/b/d", "real/e/f", "real/e/g", "a/i"]) {
        assert.strictEqual((yield* fs.stat(`${root}/${made}`)).type, "Directory", made)
      }
      assert.sameMembers(yield* fs.readDirectory(root), ["a", "link", "real"])
    }).pipe(provided)
  )

  it.scopedLive("that cannot be made is a failure that says why, and leaves nothing in the way", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const root = yield* temporary
      yield* fs.writeFileString(`${root}/file`, "")
      yield* fs.symlink(`${root}/nowhere`, `${root}/dangling`)
      for (const [folder, code] of [
        ["file", "EEXIST"],
        ["file/a/b", "ENOTDIR"],
        ["dangling", "EEXIST"],
        [`new/${"n".repeat(300)}/a`, "ENAMETOOLONG"]
      ] as const) {
        const error = yield* Effect.flip(Folders.make(`${root}/${folder}`))
        assert.match(error.message, new RegExp(`${code}: `), folder)
      }
      assert.strictEqual(yield* fs.readFileString(`${root}/file`), "")
    }).pipe(provided)
  )

  it.live.skipIf(!existsSync("/proc/self"))("below /proc cannot be made, and one knows it at once", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Folders.make("/proc/no-such/a/b"))
      assert.match(error.message, /ENOENT: .*'\/proc\/no-such'/)
    }).pipe(provided)
  )
})
