/** `miroir-effect status`, piped, against containers on loopback. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import { run, start } from "./program.js"

const healthy = { body: { status: "healthy" } }
const leased = { body: { status: "healthy", leased: true } }

/** A free one, a leased one, one that is starting, one that is not there. */
const four = Effect.all([
  ScriptedContainer.make({ health: healthy }),
  ScriptedContainer.make({ health: leased, prefix: "/a/b" }),
  ScriptedContainer.make({ health: { status: 500 } }),
  ScriptedContainer.make({ absent: true })
])

describe("status", () => {
  it.scopedLive("tells of each container, once and without userinfo, how it is; 0 where one is healthy", () =>
    Effect.gen(function* () {
      const urls = (yield* four).map(({ url }) => url)
      const doubled = urls.flatMap((url) => [url.replace("//", "//user:hidden@"), `${url}//`])
      const { code, stderr, stdout } = yield* run(".", ["status", ...doubled])
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.notInclude(stdout, "hidden")
      const [free, busy, failing, absent] = urls
      assert.deepStrictEqual(
        stdout
          .replace(/\d[\d.]* ms/g, "N ms")
          .replace(/ +/g, " ")
          .split("\n"),
        [
          "container health latency why",
          `${free} free N ms`,
          `${busy} leased N ms`,
          `${failing} unhealthy N ms it answered 500`,
          `${absent} unhealthy - connection refused`,
          "",
          "4 containers: 1 free, 1 leased, 2 unhealthy",
          ""
        ]
      )
    })
  )

  it.scopedLive("is a JSON list with --json; 1 where no container is healthy, and the list all the same", () =>
    Effect.gen(function* () {
      const [{ url: free }, { url: busy }, { url: failing }, { url: absent }] = yield* four
      const all = yield* run(".", ["status", free, busy, failing, absent, "--json"])
      assert.strictEqual(all.code, 0)
      const list: ReadonlyArray<Record<"url" | "health" | "reason" | "latency_ms", unknown>> = JSON.parse(all.stdout)
      assert.deepStrictEqual(
        list.map(({ latency_ms, ...rest }) => ({ ...rest, latency_ms: typeof latency_ms })),
        [
          { url: free, health: "free", reason: null, latency_ms: "number" },
          { url: busy, health: "leased", reason: null, latency_ms: "number" },
          { url: failing, health: "unhealthy", reason: "it answered 500", latency_ms: "number" },
          { url: absent, health: "unhealthy", reason: "connection refused", latency_ms: "object" }
        ]
      )
      const none = yield* run(".", ["status", failing, absent, "--json"])
      assert.deepStrictEqual([none.code, none.stderr], [1, "error: None of 2 containers is healthy.\n"])
      assert.lengthOf(JSON.parse(none.stdout), 2)
    })
  )

  it.scopedLive("asks 512 containers", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make()
      // One server, which is a container under each of its paths.
      const paths = Array.from({ length: 512 }, (_, index) => `/${index}`)
      yield* container.update({
        http: Object.fromEntries(paths.map((path) => [`GET ${path}/health`, healthy]))
      })
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped()
      yield* fs.writeFileString(file, paths.map((path) => `${container.url}${path}\n`).join(""))
      const { code, stdout } = yield* run(".", ["status"], { MIROIR_URL_FILE: file })
      assert.strictEqual(code, 0)
      assert.lengthOf(stdout.split("\n"), 516)
      assert.include(stdout, "\n512 containers: 512 free, 0 leased, 0 unhealthy\n")
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )
})

describe("status --watch", () => {
  it.scopedLive("prints all, then what changes, also of the URL file, until a signal", () =>
    Effect.gen(function* () {
      const [free, busy] = yield* four
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped()
      yield* fs.writeFileString(file, `${free.url}\n${busy.url}`)
      const { child, ended, says } = yield* start(".", ["status", "--watch", "--url-file", file])
      yield* says(/2 containers/)
      yield* free.update({ health: leased })
      yield* says(/0 free, 2 leased/)
      yield* fs.writeFileString(file, "no url")
      yield* says(/warning:/)
      yield* fs.writeFileString(file, busy.url)
      yield* says(/1 container:/)
      child.kill("SIGTERM")
      const { code, stderr, stdout } = yield* ended
      assert.strictEqual(code, 143)
      assert.match(stderr, /^warning: URL file .*, line 1: "no url" .* The last good list is asked\.\n$/)
      const told = stdout.replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}/gm, "").replace(/\d[\d.]* ms/g, "N ms")
      assert.deepStrictEqual(told.split("\n"), [
        `${free.url}  free  N ms`,
        `${busy.url}  leased  N ms`,
        "2 containers: 1 free, 1 leased, 0 unhealthy",
        `${free.url}  leased  N ms`,
        "2 containers: 0 free, 2 leased, 0 unhealthy",
        "1 container: 0 free, 1 leased, 0 unhealthy",
        ""
      ])
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.scopedLive("prints a JSON document for each change with --json", () =>
    Effect.gen(function* () {
      const [free, , , absent] = yield* four
      const { child, ended, says } = yield* start(".", ["status", "--watch", "--json", free.url, absent.url])
      yield* says(/\n.*\n/)
      yield* free.update({ health: { hang: true } })
      yield* says(/\n.*\n.*\n/)
      child.kill("SIGINT")
      const { code, stderr, stdout } = yield* ended
      assert.deepStrictEqual({ code, stderr }, { code: 130, stderr: "" })
      const documents = stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line))
      assert.deepStrictEqual(
        documents.map(({ health, reason, url }) => [url, health, reason]),
        [
          [free.url, "free", null],
          [absent.url, "unhealthy", "connection refused"],
          [free.url, "unhealthy", "no answer within 2s"]
        ]
      )
      for (const { time } of documents) assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    })
  )

  it.scopedLive("ends with its reader", () =>
    Effect.gen(function* () {
      const [free] = yield* four
      const { child, ended, says } = yield* start(".", ["status", "--watch", free.url])
      yield* says(/1 free/)
      child.stdout.destroy()
      yield* free.update({ health: leased })
      const { code, stderr } = yield* ended
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
    })
  )
})
