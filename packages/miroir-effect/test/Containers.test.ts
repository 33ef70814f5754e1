/** Which containers a command asks: by its arguments or the environment, and with which token. */
import { assert, describe, it } from "@effect/vitest"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { containers } from "../src/internal/containers.js"
import { run } from "./program.js"

const a = "http://a:1"
const b = "http://b:2/x"

interface Case {
  readonly urls?: ReadonlyArray<string>
  readonly file?: string
  readonly variables?: Record<string, string>
  /** What is asked, or what is wrong. */
  readonly is: { readonly urls: ReadonlyArray<string> } | { readonly urlFile: string } | string
}

const none = "No containers: give URLs or --url-file FILE, or set MIROIR_URLS or MIROIR_URL_FILE."
const noBase = "has to be http(s)://HOST[:PORT][/PATH]."

const cases: Record<string, Case> = {
  "URLs as arguments": { urls: [a, b], is: { urls: [a, b] } },
  "a file as argument": { file: "f", is: { urlFile: "f" } },
  "both as arguments": { urls: [a], file: "f", is: "Give URLs or --url-file, not both." },
  "URLs in the environment, with blanks and a comma too many": {
    variables: { MIROIR_URLS: ` ${a} , ${b},` },
    is: { urls: [a, b] }
  },
  "a file in the environment": { variables: { MIROIR_URL_FILE: "f" }, is: { urlFile: "f" } },
  "both in the environment": {
    variables: { MIROIR_URL_FILE: "f", MIROIR_URLS: a },
    is: "MIROIR_URLS and MIROIR_URL_FILE are both set: unset one, or give URLs or --url-file."
  },
  "arguments win over the environment, whatever is in it": {
    urls: [b],
    variables: { MIROIR_URL_FILE: "f", MIROIR_URLS: "no url" },
    is: { urls: [b] }
  },
  "none at all": { is: none },
  "variables that are set to nothing": { variables: { MIROIR_URL_FILE: "", MIROIR_URLS: "" }, is: none },
  "commas alone": { variables: { MIROIR_URLS: " , " }, is: none },
  "an argument that is no base URL": { urls: [a, "user:hidden@b:2"], is: `"b:2" is no base URL: it ${noBase}` },
  "a variable that is none": {
    variables: { MIROIR_URLS: "b:2" },
    is: `MIROIR_URLS: "b:2" is no base URL: it ${noBase}`
  }
}

describe("a command's containers", () => {
  for (const [name, { file, is, urls = [], variables = {} }] of Object.entries(cases)) {
    it.effect(name, () =>
      Effect.gen(function* () {
        const found = yield* Effect.either(containers("tasks", { urls, urlFile: Option.fromNullable(file) }))
        if (typeof is === "string") {
          assert.deepInclude(Either.getOrThrow(Either.flip(found)), {
            _tag: "WrongUsage",
            message: is,
            command: "tasks"
          })
        } else assert.deepStrictEqual(Either.getOrThrow(found), is)
      }).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(variables)))))
    )
  }

  it.scopedLive("are asked with the token of MIROIR_TOKEN, which is not shown", () =>
    Effect.gen(function* () {
      const container = yield* ScriptedContainer.make({
        token: "tok-0123456789",
        // Containers may answer about health without a token; this one does not.
        health: ({ headers }) =>
          headers.authorization === "Bearer tok-0123456789" ? { body: { status: "healthy" } } : { status: 401 },
        http: { "POST /scripted/tasks": { body: { tasks: [] } } },
        tools: { "": [] }
      })
      for (const command of ["tasks", "tools", "status"]) {
        const variables = { MIROIR_URLS: container.url }
        const without = yield* run(".", [command], variables)
        const wrong = yield* run(".", [command, "--log-level", "all"], {
          ...variables,
          MIROIR_TOKEN: "wrong-0123456789"
        })
        const right = yield* run(".", [command], { ...variables, MIROIR_TOKEN: "tok-0123456789" })
        assert.deepStrictEqual([without.code, wrong.code, right.code], [1, 1, 0], command)
        assert.match(wrong.stderr + wrong.stdout, /401/)
        assert.notMatch(wrong.stderr + wrong.stdout, /0123456789/)
      }
    })
  )

  it.live("that nobody names are wrong usage, told with the ways to name them", () =>
    Effect.gen(function* () {
      for (const command of ["tasks", "tools", "status"]) {
        assert.deepStrictEqual(yield* run(".", [command]), {
          code: 2,
          stdout: "",
          stderr: `error: ${none}\nTry miroir-effect ${command} --help.\n`
        })
      }
    })
  )
})
