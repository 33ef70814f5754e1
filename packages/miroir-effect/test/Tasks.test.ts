/** `miroir-effect tasks` and `tools`, against containers on loopback. */
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { run } from "./program.js"

/** Moves the cursor, rings the bell, turns the text's direction, hides. */
const evil = "a\u001b[2Jb\u0007c\u009b1Ad\u202ee\u200bf\r\ng"

const unseen = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b\u202e]/

const hash = { task_hash: "h" }

describe("tasks", () => {
  it.scopedLive("are a table: budget, coworkers and instruction of each", () =>
    Effect.gen(function* () {
      const tasks = [
        { id: "one", ...hash, instruction: "Do\n  it.", max_steps: 3, coworkers: ["ana"], persona: null },
        { id: evil, ...hash, instruction: evil, coworkers: {} },
        { id: "日本", ...hash, instruction: "", max_steps: 12_345_678_901_234_567_890n }
      ]
      const text = Json.stringify({ tasks })
      const container = yield* ScriptedContainer.make({ http: { "POST /scripted/tasks": { text } } })
      const { code, stderr, stdout } = yield* run(".", ["tasks", container.url, "--split", "te\u001bst"])
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.deepStrictEqual(stdout.split("\n"), [
        "task                                                           steps  coworkers  instruction",
        "one                                                                3  yes        Do it.",
        "a\\u001b[2Jb\\u0007c\\u009b1Ad\\u202ee\\u200bf\\r\\ng                     -  -          a\\u001b[2Jb\\u0007c\\u009b1Ad\\u202ee\\u200bf g",
        "日本                                            12345678901234567890  -          -",
        "",
        "3 tasks in the split te\\u001bst, 1 with coworkers",
        ""
      ])
      const { requests } = yield* container.seen
      assert.strictEqual(requests.findLast(({ method }) => method === "POST")?.body, '{"split":"te\\u001bst"}')
    })
  )

  it.scopedLive("come as JSON as the server gave them: every digit, and nothing that moves the cursor", () =>
    Effect.gen(function* () {
      const text = `{"tasks":[{"id":"1","task_hash":"h","instruction":${JSON.stringify(evil)},"seed":12345678901234567890,
        "z":{"b":[1.5,null,-0.25],"a":"日本 😀"},"nan":NaN},{"id":"2","task_hash":"h","instruction":""}]}`
      const container = yield* ScriptedContainer.make({ http: { "POST /scripted/tasks": { text } } })
      const { code, stdout } = yield* run(".", ["tasks", "--json", container.url])
      assert.strictEqual(code, 0)
      assert.notMatch(stdout, unseen)
      assert.include(stdout, "12345678901234567890")
      assert.include(stdout, "日本 😀")
      const served = Either.getOrThrow(Json.parse(text))
      assert.deepStrictEqual({ tasks: Either.getOrThrow(Json.parse(stdout)) }, served)
      // A line for each, between those of the brackets.
      assert.lengthOf(stdout.split("\n"), 5)

      yield* container.update({ http: { "POST /scripted/tasks": { text: '{"tasks":[]}' } } })
      assert.strictEqual((yield* run(".", ["tasks", "--json", container.url])).stdout, "[]\n")
      assert.strictEqual(
        (yield* run(".", ["tasks", container.url])).stdout,
        "0 tasks in the split train, 0 with coworkers\n"
      )
    })
  )

  it.scopedLive("are those of the first container that answers; else the last failure is told in a line", () =>
    Effect.gen(function* () {
      const absent = yield* ScriptedContainer.make({ absent: true })
      const office = yield* EnvServer.make(Office.world)
      const first = yield* run(".", ["tasks", absent.url, office.url])
      assert.deepStrictEqual([first.code, first.stderr], [0, ""])
      assert.match(first.stdout, /^file-invoice +8 {2}- +File the invoice/m)
      assert.deepStrictEqual(yield* run(".", ["tasks", absent.url]), {
        code: 1,
        stdout: "",
        stderr: `error: Could not connect to ${absent.url}: connection refused.\n`
      })
      const split = yield* run(".", ["tasks", office.url, "--split", "nope"])
      assert.strictEqual(split.code, 1)
      assert.match(split.stderr, /^error: .*\/office\/tasks answered 404: .*nope.*\n$/)
    })
  )
})

describe("tools", () => {
  it.scopedLive("are a table: parameters, those that may be left out marked, and description", () =>
    Effect.gen(function* () {
      const schema = { type: "object", properties: { to: {}, cc: {}, "": {} }, required: ["to"] }
      const container = yield* ScriptedContainer.make({
        tools: {
          "": [{ name: "plain" }],
          code: [
            { name: "send", description: "Sends\n a mail.", inputSchema: schema },
            { name: evil, description: evil, input_schema: { properties: { [evil]: {} }, required: [evil] } }
          ]
        }
      })
      const { code, stderr, stdout } = yield* run(".", ["tools", "--surface=code", container.url])
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.notMatch(stdout, unseen)
      const [headings, send, , , summary] = stdout.replace(/ +/g, " ").split("\n")
      assert.deepStrictEqual(
        [headings, send, summary],
        [
          "tool parameters description",
          "send to, cc?, ? Sends a mail.",
          "2 tools on the surface code; a ? marks what may be left out"
        ]
      )
      const plain = yield* run(".", ["tools", container.url])
      assert.match(plain.stdout, /^plain +- +-\n\n1 tool; /m)
      const json = yield* run(".", ["tools", container.url, "--json"])
      assert.strictEqual(json.stdout, '[\n{"name":"plain"}\n]\n')
    })
  )

  it.scopedLive("that a container does not list are a failure, told in a line", () =>
    Effect.gen(function* () {
      const body = { error: { code: -32602, message: `no ${evil}` } }
      const container = yield* ScriptedContainer.make({ http: { "POST /mcp": { body } } })
      const { code, stderr, stdout } = yield* run(".", ["tools", container.url])
      assert.deepStrictEqual({ code, stdout }, { code: 1, stdout: "" })
      assert.match(stderr, /^error: [^\n]*no a\\u001b\[2Jb[^\n]*\n$/)
      assert.notMatch(stderr, unseen)
    })
  )
})
