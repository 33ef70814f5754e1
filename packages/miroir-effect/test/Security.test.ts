/** The program with secrets all about, against servers that are up to no good: nothing of it reaches terminal or file. */
import { readdir, readFile, writeFile } from "node:fs/promises"
import * as Http from "node:http"
import { join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { type Ended, run } from "./program.js"
import * as Pty from "./pty.js"

const token = "tok-3f9d27c1e0"
const policyKey = "sk-policy-59b1d7"
const coworkerKey = "sk-coworker-e2f0"
const password = "pw-81c6e0aa"
const proxyPassword = "px-7be2440d"
const hidden = [
  token,
  policyKey,
  coworkerKey,
  password,
  proxyPassword,
  btoa(`pilot:${password}`),
  btoa(`agent:${proxyPassword}`)
]

const secrets = {
  MIROIR_TOKEN: token,
  MIROIR_POLICY_API_KEY: policyKey,
  MIROIR_COWORKER_API_KEY: coworkerKey
}

/** But for the line's end. */
const unseen = /[^\P{Cc}\n]|[\p{Bidi_Control}\p{Zl}\p{Zp}\u200b-\u200d\u2060-\u2064\ufeff\u{e0000}-\u{e007f}]/u

const hostile = "evil\u001b[2J\u009b31m\u202e\u2066\u200f\u061c\u0007\r\u2028\u{e0041}"

const withUserinfo = (url: string): string => url.replace("//", `//pilot:${password}@`)

/** Sends back what it got, and worse, as the first part of the path says. */
const echoing = Effect.acquireRelease(
  Effect.async<Http.Server>((resume) => {
    const server = Http.createServer(({ headers, url = "" }, response) => {
      const sent = `${headers.authorization} ${headers["proxy-authorization"]}`
      const echo = `${hostile} ${sent} ${sent.replace(/[\w+/=]{8,}/g, (text) => Buffer.from(text, "base64").toString("latin1"))}`
      const [, mode = ""] = url.split("/")
      if (mode === "status") response.writeHead(400).end(echo)
      else if (mode === "redirect") response.writeHead(307, { location: `http://127.0.0.1:1/${encodeURI(echo)}` }).end()
      else if (mode === "error")
        response.end(JSON.stringify({ error: { code: echo, message: echo }, choices: echo, status: echo }))
      else if (url.endsWith("/list_environments")) response.end(JSON.stringify([echo]))
      else response.writeHead(404).end(echo)
    })
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) =>
    Effect.sync(() => {
      server.closeAllConnections()
      server.close()
    })
).pipe(
  Effect.map((server) => {
    const address = server.address()
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : address}`
  })
)

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const holdsNone = (what: string, text: string): void => {
  for (const secret of hidden) if (text.includes(secret)) assert.fail(`${secret} is in what came of ${what}:\n${text}`)
}

const isClean = (what: string, { stderr, stdout }: Ended): void => {
  holdsNone(what, stdout + stderr)
  const moved = unseen.exec(stdout + stderr)
  if (moved !== null) assert.fail(`${JSON.stringify(moved[0])} is in what came of ${what}:\n${stdout}${stderr}`)
}

layer(NodeFileSystem.layer, { excludeTestServices: true })("the program", (it) => {
  it.scoped(
    "tells no secret, and shows nothing that moves the cursor or hides, whatever servers answer",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        const url = withUserinfo(yield* echoing)
        for (const mode of ["status", "redirect", "error", "names"]) {
          const env = `${url}/${mode}`
          const proxied = { ...secrets, http_proxy: url.replace(`pilot:${password}`, `agent:${proxyPassword}`) }
          const runs = [
            [["tasks", env], secrets],
            [["tasks", env], {}],
            [["tasks", env], proxied],
            [["tools", env, "--json"], secrets],
            [["status", env, "--json"], secrets],
            [["rollout", env, "--model", "m", "--base-url", `${url}/${mode}`], proxied]
          ] as const
          yield* Effect.forEach(
            runs,
            ([command, variables]) =>
              Effect.map(run(folder, [...command, "--log-level", "all"], variables), (ended) => {
                isClean(`${command.join(" ")} ${mode}`, ended)
                assert.strictEqual(ended.code, 1, ended.stderr)
              }),
            { concurrency: 2 }
          )
        }
      }),
    120_000
  )

  it.scoped(
    "tells no secret of its environment, and no userinfo that stands in a wrong place",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        const url = `http://pilot:${password}@127.0.0.1:1`
        const variables = {
          ...secrets,
          MIROIR_URLS: url,
          MIROIR_COWORKER_BASE_URL: url,
          MIROIR_POLICY_BASE_URL: url,
          HTTP_PROXY: `http://agent:${proxyPassword}@127.0.0.1:1`
        }
        const commands = [
          ["--help"],
          ["--version"],
          ["--completions", "bash"],
          ["rollout", "--help"],
          ["status"],
          ["tasks", "--wizard"],
          [url],
          ["tasks", `ftp${url.slice(4)}`],
          ["tasks", "--split", "--json", url],
          ["tasks", "--url-file", url],
          ["tools", "--surface", url],
          [`--${url}`],
          ["calibrate", url, "--model", "m"],
          ["rollout", "--model", "m", "--base-url", `ftp${url.slice(4)}`, url],
          ["rollout", "--model", "m", "--base-url", url, "--tasks", url]
        ]
        yield* Effect.forEach(
          commands,
          (command) =>
            Effect.map(run(folder, [...command, "--log-level", "all"], variables), (ended) =>
              isClean(command.join(" "), ended)
            ),
          { concurrency: 4 }
        )
      }),
    120_000
  )

  it.scoped(
    "leaves no secret in the files of a run",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        const env = yield* EnvServer.make(Office.world, { token: Redacted.make(token) })
        let asked = 0
        const policy = yield* ChatEndpoint.make({
          apiKey: policyKey,
          // One rollout fails for good, and its server tells all it knows.
          answers: ({ headers }) =>
            asked++ === 0
              ? {
                  status: 500,
                  headers: { "x-should-retry": "false" },
                  body: { error: { message: `${headers.authorization}` } }
                }
              : { text: "I give up." }
        })
        const ended = yield* run(
          folder,
          [
            ...["rollout", withUserinfo(env.url), "--model", "m", "--base-url", withUserinfo(policy.url)],
            ...["--task", "file-invoice", "--rollouts", "2", "--traces", "traces", "--log-level", "all"]
          ],
          secrets
        )
        isClean("a run", ended)
        assert.isAbove(asked, 2)
        const names = yield* Effect.promise(() => readdir(join(folder, "traces"), { recursive: true }))
        assert.isTrue(names.some((name) => name.endsWith(".jsonl")))
        for (const name of names) {
          holdsNone(name, yield* Effect.promise(() => readFile(join(folder, "traces", name), "utf8").catch(() => "")))
        }
      }),
    120_000
  )

  it.scoped(
    "shows ids and names of servers and files without what moves the cursor or hides, and as JSON says the same",
    () =>
      Effect.gen(function* () {
        const folder = yield* temporary
        const task = {
          id: hostile,
          task_hash: "h",
          instruction: hostile,
          coworkers: false,
          persona: { description: "" }
        }
        const env = yield* ScriptedContainer.make({
          environments: [hostile],
          tasks: { train: [task] },
          tools: { "": [{ name: hostile, description: hostile }], api: [{ name: hostile }] }
        })
        const line = JSON.stringify({ task_id: hostile, reward: 1, metadata: { task_hash: "h", success: true } })
        yield* Effect.promise(() => writeFile(join(folder, "a.jsonl"), `${line}\n`.repeat(2)))
        const model = ["--model", hostile]
        const policy = [...model, "--base-url", "http://127.0.0.1:1"]
        const commands = [
          ["tasks", env.url],
          ["tools", env.url],
          ["rollout", env.url, ...policy, "--dry-run"],
          ["calibrate", "a.jsonl", ...model]
        ]
        for (const command of commands) {
          const [plain, json] = yield* Effect.all(
            [run(folder, [...command, "--log-level", "all"]), run(folder, [...command, "--json"])],
            { concurrency: 2 }
          )
          isClean(command.join(" "), plain)
          isClean(command.join(" "), json)
          assert.deepStrictEqual([plain.code, json.code, json.stderr], [0, 0, ""], plain.stderr)
          assert.include(plain.stdout, "evil")
          assert.include(JSON.stringify(JSON.parse(json.stdout)), JSON.stringify(hostile).slice(1, -1))
        }
      }),
    120_000
  )

  it.scoped.skipIf(!Pty.available)("shows no secret and no userinfo in the command line that --wizard makes", () =>
    Effect.gen(function* () {
      const terminal = yield* Pty.start({ columns: 100, rows: 40 }, ["calibrate", "--wizard"], secrets)
      let from = 0
      for (const [question, answer] of [
        ["--model NAME", `http://pilot:${password}@127.0.0.1:1/`],
        ["--out FILE", ""],
        ["-k N", ""],
        ["--json", ""]
      ] as const) {
        // An arrow stands before the answer that is to be given.
        yield* terminal.until((written) => /\u203a/.test(written.slice(from).split(question)[1] ?? ""))
        from = terminal.written().length
        terminal.type(`${answer}\r`)
      }
      yield* terminal.until((written) => /COMMAND:.*\r\n/.test(written.slice(from)))
      const written = terminal.written()
      const typed = written.slice(0, written.lastIndexOf("COMMAND:"))
      const shown = written.slice(typed.length)
      // What is typed is seen; what is made of it is not.
      assert.include(typed, password)
      assert.include(shown, "calibrate --model http://127.0.0.1:1/")
      holdsNone("the wizard", shown + typed.replaceAll(password, ""))
    })
  )
})
