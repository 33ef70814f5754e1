/** The commands on a pseudo-terminal: what they print fits, and keeps the cursor. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Text from "@miroir-effect/core/Text"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Miroir from "miroir-effect/Miroir"
import { office } from "./office.js"
import * as Pty from "./pty.js"

const evil = "\u001b[2J\u001b[99A\u009b5D\u202e\r\n\u0008"
const long = "Ein langer Satz, 長い文章です, mit Wörtern aus vielen Ländern, 😀 und weiter. ".repeat(4)

const tasks = Array.from({ length: 5 }, (_, index) => ({
  id: `${index}-${index % 2 === 0 ? "タスク".repeat(index * 4) : evil}`,
  task_hash: "h",
  instruction: `${evil}${long}`,
  coworkers: index % 2,
  max_steps: 10 * index
}))

const tools = Array.from({ length: 5 }, (_, index) => ({
  name: `tool_${index}${evil}`,
  description: `${long}${evil}`,
  inputSchema: { properties: Object.fromEntries(tasks.slice(0, index).map(({ id }) => [id, {}])) }
}))

/** Runs it to its end; gives the code and what is on the screen. */
const run = (columns: number, args: ReadonlyArray<string>, variables: Readonly<Record<string, string>> = {}) =>
  Effect.scoped(
    Effect.gen(function* () {
      const terminal = yield* Pty.start({ columns, rows: 24 }, args, variables)
      const code = yield* terminal.ended
      return { code, written: terminal.written(), lines: Pty.screen(terminal.written()) }
    })
  )

const name = Pty.available ? "on a terminal" : "on a terminal (left out: there is no python3 to make one)"

describe.skipIf(!Pty.available)(name, () => {
  for (const columns of [80, 200]) {
    it.scopedLive(`tables fit ${columns} columns, whatever a server says`, () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make({
          http: { "POST /scripted/tasks": { text: Json.stringify({ tasks }) } },
          tools: { "": tools }
        })
        const absent = yield* ScriptedContainer.make({ absent: true, prefix: `/${"very-long/".repeat(30)}` })
        for (const args of [["tasks"], ["tools"], ["status", absent.url]]) {
          const { code, lines } = yield* run(columns, [...args, container.url])
          assert.strictEqual(code, 0)
          const fits = (width: number) => lines.every((line) => Text.cut(line, width) === line)
          assert.isTrue(fits(columns), lines.join("\n"))
          // Nor is room left that could have been used.
          assert.isFalse(fits(columns - 8), lines.join("\n"))
        }
      })
    )
  }

  it.scopedLive("colours are only there where they are wanted", () =>
    Effect.gen(function* () {
      const { url } = yield* ScriptedContainer.make()
      const colour = /\u001b\[32mfree\u001b\[39m/
      assert.match((yield* run(80, ["status", url])).written, colour)
      for (const variables of [{ NO_COLOR: "1" }, { TERM: "dumb" }]) {
        assert.notInclude((yield* run(80, ["status", url], variables)).written, "\u001b")
      }
    })
  )

  it.scopedLive("status --watch takes its own place again, in as many lines as there are; Ctrl-C ends it", () =>
    Effect.gen(function* () {
      const one = yield* ScriptedContainer.make()
      const others = Array.from({ length: 60 }, (_, index) => `${one.url}/${index}`)
      yield* one.update({
        health: { body: { status: "healthy" } },
        http: Object.fromEntries(others.map((_, index) => [`GET /${index}/health`, { body: { status: "healthy" } }]))
      })
      const terminal = yield* Pty.start({ columns: 80, rows: 12 }, ["status", "--watch", ...others, one.url])
      yield* terminal.until((written) => /61 free.*at .*Z\r\n/.test(written))
      const before = Pty.screen(terminal.written())
      yield* one.update({ health: { status: 500 } })
      yield* terminal.until((written) => /60 free.*at .*Z\r\n/.test(written))
      const after = Pty.screen(terminal.written())
      // Headings, containers, how many more, the counts; the cursor is in the line below.
      for (const lines of [before, after]) assert.lengthOf(lines, 12)
      assert.match(before[1] ?? "", /\/0 +free +[\d.]+ ms$/)
      assert.match(after[1] ?? "", / unhealthy +[\d.]+ ms +it answered 500$/)
      assert.match(after[2] ?? "", /\/0 +free/)
      assert.strictEqual(after[9], "… and 53 more")
      assert.match(after[10] ?? "", /^61 containers: 60 free, 0 leased, 1 unhealthy, at \d\d:\d\d:\d\dZ$/)
      terminal.type("\u0003")
      assert.strictEqual(yield* terminal.ended, 130)
    })
  )

  it.scopedLive("--wizard asks for each option and argument, shows the command line and runs it", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({ tools: { "": [{ name: "only" }] } })
      const terminal = yield* Pty.start({ columns: 100, rows: 40 }, ["tools", "--wizard"], {
        MIROIR_URLS: container.url
      })
      let from = 0
      for (const question of ["--url-file FILE", "--surface", "--json", "<url>", "Would you like to run"]) {
        // An arrow stands before the answer that is to be given.
        yield* terminal.until((written) => /\u203a/.test(written.slice(from).split(question)[1] ?? ""))
        from = terminal.written().length
        terminal.type("\r")
      }
      assert.strictEqual(yield* terminal.ended, 0)
      const plain = terminal.written().replace(/\u001b\[[\d;?]*[A-Za-z]/g, "")
      assert.include(plain, "\r\n    miroir-effect tools --json\r\n")
      assert.include(plain, '[\r\n{"name":"only"}\r\n]\r\n')
    })
  )

  for (const columns of [80, 200]) {
    it.scopedLive(`rollout draws one line anew at ${columns} columns, with logs above it, and leaves none of it`, () =>
      Effect.gen(function* () {
        let asked = 0
        const { args } = yield* office(2, {
          // Slow, and at times not what was asked for.
          policy: () =>
            ++asked % 7 === 0 ? { status: 500 } : { text: "I give up.", delay: 60, usage: { total_tokens: 700 } }
        }).pipe(Effect.provide(Miroir.layer()))
        const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
        const some = [...args, "--split", "test", "--rollouts", "4", "--traces", `${folder}/${"traces".repeat(20)}`]
        const terminal = yield* Pty.start({ columns, rows: 24 }, [...some, "--log-level", "debug"])
        assert.strictEqual(yield* terminal.ended, 0)
        const drawn = terminal
          .written()
          .split("\r\u001b[K")
          .filter((text) => text !== "" && !text.includes("\n"))
        assert.isNotEmpty(drawn)
        for (const line of drawn) assert.strictEqual(Text.cut(line, columns - 1), line)
        const full = /^\d+ of 16 rollouts: \d+ succeeded, .* in flight, .*; .*k tokens; about \d+ s left$/
        const brief = /^\d+\/16 · .*\d playing · .*k tok · \d+ s left$/
        assert.isTrue(
          drawn.some((line) => (columns === 200 ? full : brief).test(line)),
          drawn.join("\n")
        )
        const lines = Pty.screen(terminal.written())
        assert.lengthOf(
          lines.filter((line) => /is saved in/.test(line)),
          16
        )
        assert.isFalse(lines.some((line) => full.test(line) || brief.test(line)))
        assert.isTrue(lines.some((line) => /^16 of 16 rollouts: .*, 0 failed\.$/.test(line)))
      }).pipe(Effect.provide(NodeFileSystem.layer))
    )
  }

  it.scopedLive("serve says what it serves, until Ctrl-C", () =>
    Effect.gen(function* () {
      const terminal = yield* Pty.start({ columns: 80, rows: 24 }, ["serve"])
      yield* terminal.until((written) => /^http:.*\r\nServing the office in 1 container until .*\r\n$/.test(written))
      terminal.type("\u0003")
      assert.strictEqual(yield* terminal.ended, 130)
    })
  )
})
