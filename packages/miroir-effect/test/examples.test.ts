/** The examples run, and README.md shows them, and what programs print, as they are. */
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"
import * as Command from "@effect/platform/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, describe, it } from "@effect/vitest"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as MiroirError from "@miroir-effect/core/MiroirError"
import type { AssistantMessage, Policy } from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { build } from "esbuild"
import * as Miroir from "miroir-effect/Miroir"
import { container } from "../examples/environment.js"
import { reward } from "../examples/errors.js"
import { own, served } from "../examples/policy.js"
import { calibrated } from "../examples/rollout.js"

const at = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url))

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const read = (path: string) => Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(at(path)))

/** Bundles a program from its source; gives the file. */
const bundled = Effect.fn(function* (entry: string) {
  const outfile = `${yield* temporary}/program.mjs`
  yield* Effect.promise(() =>
    build({
      entryPoints: [at(entry)],
      outfile,
      bundle: true,
      platform: "node",
      target: "node20",
      format: "esm",
      logLevel: "warning",
      alias: {
        "@miroir-effect/core": at("packages/core/src"),
        "@miroir-effect/env": at("packages/env/src"),
        "@miroir-effect/testing": at("packages/testing/src"),
        "miroir-effect": at("packages/miroir-effect/src")
      },
      // CommonJS modules within (undici, ws) ask for Node's by `require`, which an ES module has not.
      banner: { js: 'import{createRequire}from"node:module";const require=createRequire(import.meta.url);' }
    })
  )
  return outfile
})

/** Runs a bundled program in a folder of its own. */
const run = Effect.fn(function* (program: string, ...args: ReadonlyArray<string>) {
  const folder = yield* temporary
  const started = yield* Command.make(process.execPath, program, ...args).pipe(
    Command.workingDirectory(folder),
    Command.env({ NO_COLOR: "1" }),
    Command.start
  )
  const text = (stream: typeof started.stdout) => Stream.mkString(Stream.decodeText(stream))
  const [stdout, stderr, code] = yield* Effect.all([text(started.stdout), text(started.stderr), started.exitCode], {
    concurrency: "unbounded"
  })
  return { folder, stdout, stderr, code }
})

const freePort = Effect.async<number>((resume) => {
  const server = createServer().listen(0, () => {
    const address = server.address()
    const port = typeof address === "object" ? (address?.port ?? 0) : 0
    server.close(() => resume(Effect.succeed(port)))
  })
})

const examples = "packages/miroir-effect/examples"

const quiet = Logger.remove(Logger.defaultLogger)

describe("the examples", () => {
  it.scopedLive("an episode is played, graded and saved", () =>
    Effect.gen(function* () {
      const { code, folder, stderr, stdout } = yield* run(yield* bundled("packages/miroir-effect/examples/episode.ts"))
      assert.strictEqual(stderr, "")
      assert.strictEqual(code, 0)
      const file = /reward 1, saved to (traces\/\S+\.jsonl)\n$/.exec(stdout)?.[1] ?? ""
      const fs = yield* FileSystem.FileSystem
      const lines = (yield* fs.readFileString(`${folder}/${file}`)).split("\n")
      assert.strictEqual(lines.length, 2)
      const record = Either.getOrThrow(Json.parse(lines[0] ?? ""))
      assert.deepInclude(record, { task_id: "file-invoice", reward: 1 })
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("rollouts are calibrated, and the learnable tasks selected", () =>
    Effect.gen(function* () {
      const servers = yield* Effect.replicateEffect(EnvServer.make(Office.world), 2)
      const folder = yield* temporary
      const tasks = yield* calibrated(
        servers.map(({ url }) => url),
        folder
      )
      assert.deepStrictEqual(
        tasks.map(({ id }) => id),
        ["file-invoice"]
      )
      const fs = yield* FileSystem.FileSystem
      const file = Either.getOrThrow(Json.parse(yield* fs.readFileString(`${folder}/calibration.json`)))
      assert.deepInclude(file, { model: "filer", k: 4 })
    }).pipe(Effect.provide([NodeContext.layer, quiet]))
  )

  it.scopedLive("an environment of one's own is served, leased and played", () =>
    Effect.gen(function* () {
      const { url } = yield* container
      const leasing = yield* Leasing.Leasing
      const session = yield* leasing.lease({ urls: [url], waitBusy: false })
      yield* session.reset("leave-three")
      const refused = yield* session.step("take_bottles", { count: 6 })
      assert.deepInclude(refused.observation, { error: { type: "too_many", message: "There are only 5." } })
      const taken = yield* session.step("take_bottles", { count: 2 })
      assert.deepInclude(taken.observation, { result: { left: 3 }, error: null })
      assert.strictEqual((yield* session.finish).reward, 1)
      yield* session.reset("leave-three")
      assert.strictEqual((yield* session.finish).reward, 0)
    }).pipe(Effect.provide(Miroir.layer()))
  )

  it.scopedLive("an environment's own process is healthy, and ends cleanly at SIGTERM", () =>
    Effect.gen(function* () {
      const variables = { MIROIR_ENV_HOST: "0.0.0.0", MIROIR_ENV_PORT: `${yield* freePort}` }
      const [, command = "[]"] = /^HEALTHCHECK .*CMD (.*)$/m.exec(yield* read(`${examples}/Dockerfile`)) ?? []
      const [, ...args] = yield* Schema.decode(Schema.parseJson(Schema.Array(Schema.String)))(command)
      const healthCheck = Command.exitCode(Command.make(process.execPath, ...args).pipe(Command.env(variables)))
      assert.strictEqual(yield* healthCheck, 1)

      const program = Command.make(process.execPath, yield* bundled(`${examples}/serve.ts`))
      const serving = yield* Command.start(Command.env(program, variables))
      yield* Effect.repeat(healthCheck, { schedule: Schedule.spaced("50 millis"), while: (code) => code !== 0 })
      const leasing = yield* Leasing.Leasing
      const urls = [`http://127.0.0.1:${variables.MIROIR_ENV_PORT}`]
      const session = yield* leasing.lease({ urls, waitBusy: false })
      yield* session.reset("leave-three")
      yield* serving.kill("SIGTERM")
      assert.strictEqual(yield* serving.exitCode, 0)
      assert.deepInclude(yield* Effect.flip(session.state), { _tag: "ConnectionLost", closeCode: 1001 })
    }).pipe(Effect.provide([NodeContext.layer, Miroir.layer()]))
  )

  it.scopedLive("a chat model is the policy, or what a function says, and the conversation is told and saved", () =>
    Effect.gen(function* () {
      const { url } = yield* container
      const args = { count: 2 }
      const endpoint = yield* ChatEndpoint.make({
        answers: [{ calls: [{ tool: "take_bottles", args, id: "c" }] }, { text: "Done." }]
      })
      const said: ReadonlyArray<AssistantMessage> = [
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "c", type: "function", function: { name: "take_bottles", arguments: Json.stringify(args) } }
          ]
        },
        { role: "assistant", content: "Done." }
      ]
      let spoken = 0
      const speak = () => {
        const message = said[spoken++]
        return message === undefined ? Promise.reject(new Error("no more")) : Promise.resolve(message)
      }
      const played = (policy: Layer.Layer<Policy, unknown>, rollouts: number) =>
        Effect.gen(function* () {
          const rollout = yield* Rollout.Rollout
          const tasks = yield* Effect.flatMap(Catalog.Catalog, (catalog) => catalog.tasks(url))
          const events = yield* Stream.runCollect(
            rollout.run({ tasks, rollouts, urls: [url], traces: yield* temporary, pause: 0 })
          )
          return Chunk.toReadonlyArray(events).filter(({ _tag }) => _tag === "Saved" || _tag === "Failed")
        }).pipe(Effect.provide(Rollout.layer.pipe(Layer.provide(policy), Layer.provideMerge(Miroir.layer()))))

      const [first] = yield* played(served(endpoint.url, "toy"), 1)
      const [second, failed] = yield* played(own("toy", speak), 2)
      for (const saved of [first, second]) {
        if (saved?._tag !== "Saved") return assert.fail("it was to be saved")
        assert.strictEqual(saved.finished.reward, 1)
        assert.deepStrictEqual<unknown>([saved.messages[1], saved.messages[3]], said)
        assert.deepInclude(saved.finished.record.value.rollout, { model: "toy", stop: "no_tool_call" })
      }
      assert.strictEqual(failed?._tag === "Failed" ? failed.error._tag : "", "PolicyFailed")
      const asked = (yield* endpoint.requests).map(({ body }) => body)
      const sampling = { model: "toy", temperature: 1, max_tokens: 4096 }
      assert.deepInclude(asked[1], { ...sampling, messages: first?._tag === "Saved" ? first.messages.slice(0, 3) : [] })
      assert.include(Json.stringify(asked[0] ?? null), '"name":"take_bottles"')
    }).pipe(Effect.provide([NodeContext.layer, quiet]))
  )

  it.scopedLive("a lost connection costs one more lease, and a full container is no failure", () =>
    Effect.gen(function* () {
      const replies = new Map<string, Json.Json>([
        ["reset", { observation: null }],
        ["state", { done: true }],
        ["record", { reward: 0.5, metadata: {} }]
      ])
      const container = yield* ScriptedContainer.make({
        capacity: 1,
        replies: ({ session, type }) =>
          session === 0 ? { drop: true } : { send: { type, data: replies.get(type) ?? null } }
      })
      const urls = [container.url]
      assert.deepStrictEqual(yield* reward(urls, "t"), Option.some(0.5))
      const { frames } = yield* container.seen
      assert.deepStrictEqual(
        frames.map(({ session, type }) => `${session} ${type}`),
        ["0 reset", "1 reset", "1 state", "1 record"]
      )
      yield* container.update({ health: { body: { status: "healthy", leased: true } } })
      assert.deepStrictEqual(yield* reward(urls, "t"), Option.none())
    }).pipe(Effect.provide([Miroir.layer(), quiet]))
  )
})

/** The contents of a document's blocks of a language. */
const blocks = (readme: string, language: string): ReadonlyArray<string> =>
  Array.from(readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)).flatMap(([, name, text = ""]) =>
    name === language ? [text] : []
  )

/** What is the same in every run of the demo: not the ports and the time, nor the progress that only a slow one tells. */
const timeless = (text: string): string =>
  text
    .replace(/127\.0\.0\.1:\d+/g, "HOST")
    .replace(/\d{8}T\d{6}Z/g, "TIME")
    .replace(/^\d+ of \d+ rollouts:.*containers\n/gm, "")

describe("README.md", () => {
  it.effect("and docs/environments.md show the examples, all of them, and no other code", () =>
    Effect.gen(function* () {
      const environments = yield* read("docs/environments.md")
      assert.deepStrictEqual(blocks(environments, "dockerfile"), [yield* read(`${examples}/Dockerfile`)])
      const shown = [...blocks(yield* read("README.md"), "ts"), ...blocks(environments, "ts")]
      const fs = yield* FileSystem.FileSystem
      const programs = (yield* fs.readDirectory(at(examples))).filter((name) => name.endsWith(".ts"))
      const files = [...programs.map((name) => `examples/${name}`), "test/pipeline.test.ts"]
      const regions = yield* Effect.forEach(files, (file) =>
        Effect.map(read(`packages/miroir-effect/${file}`), (text) =>
          Array.from(text.matchAll(/^\/\/ #region \w+\n(.*?)^\/\/ #endregion$/gms), ([, region = ""]) => region)
        )
      )
      assert.deepStrictEqual(shown.sort(), regions.flat().sort())
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scopedLive("shows what the program prints: its help, and the demo", () =>
    Effect.gen(function* () {
      const program = yield* bundled("packages/miroir-effect/src/bin.ts")
      const shown = blocks(yield* read("README.md"), "text")
      for (const command of ["calibrate", "tasks", "tools", "status", "serve", "demo"]) {
        const { stdout } = yield* run(program, command, "--help")
        assert.include(shown, stdout)
      }
      const demo = yield* run(program, "demo")
      assert.strictEqual(demo.code, 0, demo.stderr)
      // Both streams are written into one block.
      const lines = (text: string) => timeless(text).trimEnd().split("\n").sort()
      assert.deepStrictEqual(
        lines(shown.find((text) => text.startsWith("Serving the office")) ?? ""),
        lines(demo.stderr + demo.stdout)
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("names scripts and folders that are there", () =>
    Effect.gen(function* () {
      const readme = yield* read("README.md")
      const manifest = Either.getOrThrow(Json.parse(yield* read("package.json")))
      const scripts = Json.isObject(manifest) ? manifest.scripts : undefined
      for (const [, script = ""] of readme.matchAll(/npm (?:run |(?=test))([\w:]+)/g)) assert.property(scripts, script)
      const fs = yield* FileSystem.FileSystem
      for (const [, path = ""] of readme.matchAll(/\b((?:packages|docs|bench)\/[\w./-]+\w)/g)) {
        assert.isTrue(yield* fs.exists(at(path)), path)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("has every error with its code", () =>
    Effect.gen(function* () {
      const rows = Array.from(
        (yield* read("README.md")).matchAll(/^\| `([A-Z][a-z]\w+)` \| (.+?) \|/gm),
        ([, tag, code]) => [tag, code]
      )
      const exported = Object.entries(MiroirError).map(([tag, { prototype }]) => {
        const code = Reflect.get(prototype, "code", {})
        return [tag, code === undefined ? "the env's own" : `\`${String(code).replace("undefined", "<status>")}\``]
      })
      assert.deepStrictEqual(rows.sort(), exported.sort())
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.effect("has every setting that is read from the environment, and no other", () =>
    Effect.gen(function* () {
      const names = (text: string) => text.match(/\bMIROIR_[A-Z_]*[A-Z]\b/g) ?? []
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const known = new Set<string>()
      for (const name of ["core", "env", "miroir-effect"]) {
        const folder = at(`packages/${name}/src`)
        for (const file of yield* fs.readDirectory(folder, { recursive: true })) {
          if (!file.endsWith(".ts")) continue
          for (const found of names(yield* fs.readFileString(path.join(folder, file)))) known.add(found)
        }
      }
      assert.deepStrictEqual(Array.from(new Set(names(yield* read("README.md")))).sort(), Array.from(known).sort())
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
