/** What is published works for a stranger: in an empty project, from the archives and the registry alone. */
import { fileURLToPath } from "node:url"
import * as Command from "@effect/platform/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

const root = fileURLToPath(new URL("../../..", import.meta.url))

const Manifest = Schema.parseJson(
  Schema.Struct({ devDependencies: Schema.Record({ key: Schema.String, value: Schema.String }) })
)

/** Runs a program to its end, and gives what it prints; all that it says is in the failure where it fails. */
const run = Effect.fn(function* (folder: string, program: string, ...args: ReadonlyArray<string>) {
  const started = yield* Command.make(program, ...args).pipe(
    Command.workingDirectory(folder),
    Command.env({ NO_COLOR: "1" }),
    Command.start
  )
  const text = (stream: typeof started.stdout) => Stream.mkString(Stream.decodeText(stream))
  const [stdout, stderr, code] = yield* Effect.all([text(started.stdout), text(started.stderr), started.exitCode], {
    concurrency: "unbounded"
  })
  assert.strictEqual(code, 0, `${program} ${args.join(" ")}\n${stdout}${stderr}`)
  return stdout
}, Effect.scoped)

it.scopedLive(
  "the archives install into an empty project, whose program, test and command line run",
  () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const project = yield* fs.makeTempDirectoryScoped()
      const packed = yield* run(root, "npm", "pack", "--workspaces", "--silent", "--pack-destination", project)
      const archives = packed.trim().split("\n")
      assert.strictEqual(archives.length, 4)

      const { devDependencies: versions } = yield* Effect.flatMap(
        fs.readFileString(`${root}/package.json`),
        Schema.decode(Manifest)
      )
      const besides = [
        "effect",
        "@effect/platform",
        "@effect/platform-node",
        "@effect/vitest",
        "vitest",
        "typescript",
        "@types/node"
      ]
      const manifest = { private: true, type: "module" }
      const compilerOptions = {
        strict: true,
        target: "ES2022",
        module: "NodeNext",
        rootDir: ".",
        outDir: "dist",
        types: ["node"]
      }
      yield* fs.writeFileString(`${project}/package.json`, JSON.stringify(manifest))
      yield* fs.writeFileString(
        `${project}/tsconfig.json`,
        JSON.stringify({ compilerOptions, include: ["examples", "test"] })
      )
      const wanted = [...archives.map((name) => `./${name}`), ...besides.map((name) => `${name}@${versions[name]}`)]
      yield* run(project, "npm", "install", "--save-exact", "--prefer-offline", "--no-audit", "--no-fund", ...wanted)

      const own = `${root}/packages/miroir-effect`
      yield* fs.copy(`${own}/examples`, `${project}/examples`)
      yield* fs.makeDirectory(`${project}/test`)
      yield* fs.copy(`${own}/test/packed`, `${project}/test/packed`)
      yield* fs.copyFile(`${own}/test/pipeline.test.ts`, `${project}/test/pipeline.test.ts`)
      yield* run(project, "npx", "tsc")
      const printed = yield* run(project, process.execPath, "dist/test/packed/main.js")
      assert.strictEqual(printed, '{"saved":4,"learnable":["leave-three"]}\n')
      assert.isTrue(yield* fs.exists(`${project}/run/calibration.json`))
      assert.match(yield* run(project, "npx", "vitest", "run", "--dir", "test"), /Tests {2}3 passed/)

      assert.match(yield* run(project, "npx", "miroir-effect", "--version"), /^\d+\.\d+\.\d+\n$/)
      assert.match(yield* run(project, "npx", "miroir-effect", "demo"), /^file-invoice +solved/m)
    }).pipe(Effect.provide(NodeContext.layer)),
  180_000
)
