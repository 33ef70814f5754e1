/** `miroir-effect serve`, leased and played over loopback. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Miroir from "miroir-effect/Miroir"
import { run, start } from "./program.js"

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

layer(NodeFileSystem.layer, { excludeTestServices: true })("serve", (it) => {
  it.scoped("prints the URLs, keeps them in a file while it serves, closes all at a signal", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporary
      yield* fs.writeFileString(`${folder}/hosts.txt`, "of an earlier run")
      const args = ["serve", "--containers", "2", "--url-file", "hosts.txt"]
      const { child, ended, says } = yield* start(folder, args)
      const { stdout } = yield* says(/Serving/)
      assert.match(stdout, /^(http:\/\/127\.0\.0\.1:\d+\n){2}$/)
      assert.strictEqual(yield* fs.readFileString(`${folder}/hosts.txt`), stdout)

      const leasing = yield* Leasing.Leasing
      const session = yield* leasing.lease({ urlFile: `${folder}/hosts.txt`, waitBusy: false })
      yield* session.reset("file-invoice")
      const status = yield* run(folder, ["status", "--url-file", "hosts.txt"])
      assert.include(status.stdout, "2 containers: 1 free, 1 leased, 0 unhealthy")

      child.kill("SIGTERM")
      assert.deepStrictEqual(yield* ended, {
        code: 143,
        stdout,
        stderr: "Serving the office in 2 containers until SIGINT (Ctrl-C) or SIGTERM.\n"
      })
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
      const lost = yield* Effect.flip(session.state)
      assert.deepInclude(lost, { _tag: "ConnectionLost", closeCode: 1001 })
    }).pipe(Effect.provide(Miroir.layer()))
  )

  it.scoped("leaves a URL file that another has written meanwhile", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporary
      const { child, ended, says } = yield* start(folder, ["serve", "--url-file", "new/hosts.txt"])
      yield* says(/Serving the office in 1 container until/)
      yield* fs.writeFileString(`${folder}/new/hosts.txt`, "http://other:1")
      child.kill("SIGINT")
      assert.strictEqual((yield* ended).code, 130)
      assert.strictEqual(yield* fs.readFileString(`${folder}/new/hosts.txt`), "http://other:1")
    })
  )

  it.scoped("wants the token of MIROIR_TOKEN from its clients", () =>
    Effect.gen(function* () {
      const MIROIR_TOKEN = "tok-0123456789"
      const { says } = yield* start(".", ["serve"], { MIROIR_TOKEN })
      const { stderr, stdout } = yield* says(/Serving.*\n/)
      assert.include(stderr, "MIROIR_TOKEN")
      assert.notInclude(stderr, MIROIR_TOKEN)
      const url = stdout.trimEnd()
      assert.strictEqual((yield* run(".", ["tasks", url])).code, 1)
      assert.strictEqual((yield* run(".", ["tasks", url], { MIROIR_TOKEN })).code, 0)
      const leasing = yield* Leasing.Leasing
      const refused = yield* Effect.flip(leasing.lease({ urls: [url], waitBusy: false }))
      assert.deepInclude(refused, { _tag: "ConnectionFailed", status: 401 })
      yield* leasing.lease({ urls: [url], waitBusy: false, token: Redacted.make(MIROIR_TOKEN) })
    }).pipe(Effect.provide(Miroir.layer()))
  )

  it.scoped("names a port that is taken, and then serves nothing and writes no file", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporary
      const taken = Number(new URL((yield* ScriptedContainer.make()).url).port)
      for (const [args, port] of [
        [["--port", `${taken}`], taken],
        [["--port", `${taken - 1}`, "--containers", "2"], taken]
      ] as const) {
        const { code, stderr, stdout } = yield* run(folder, ["serve", ...args, "--url-file", "hosts.txt"])
        assert.deepStrictEqual({ code, stdout }, { code: 1, stdout: "" })
        assert.match(stderr, new RegExp(`^error: Cannot listen on 127\\.0\\.0\\.1, port (${port}|${port - 1}): .*\\n$`))
      }
      assert.deepStrictEqual(yield* fs.readDirectory(folder), [])
    })
  )

  it.scoped("tells of a URL file that cannot be written, and of ports that there are not", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const folder = yield* temporary
      yield* fs.makeDirectory(`${folder}/hosts.txt`)
      const unwritable = yield* run(folder, ["serve", "--url-file", "hosts.txt"])
      assert.deepStrictEqual([unwritable.code, unwritable.stdout], [1, ""])
      assert.match(unwritable.stderr, /^error: URL file hosts\.txt: .*\.\n$/)
      assert.deepStrictEqual(yield* run(folder, ["serve", "--containers", "3", "--port", "65534"]), {
        code: 2,
        stdout: "",
        stderr:
          "error: There is no port above 65535: --port 65534 is too high for 3 containers.\nTry miroir-effect serve --help.\n"
      })
    })
  )
})
