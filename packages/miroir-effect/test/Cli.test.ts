import { readFileSync } from "node:fs"
import * as Error from "@effect/platform/Error"
import * as Terminal from "@effect/platform/Terminal"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Ref from "effect/Ref"
import { run } from "../src/Cli.js"
import { outcome } from "../src/internal/outcome.js"
import { coloured, line, print } from "../src/internal/terminal.js"
import { WrongUsage } from "../src/internal/WrongUsage.js"
import * as Program from "./program.js"

/** A terminal of so many columns, 0 where stdout is none; `display` gets what is printed. */
const terminal = (
  columns: number,
  display: Terminal.Terminal["display"] = () => Effect.void
): Layer.Layer<Terminal.Terminal> =>
  Layer.succeed(
    Terminal.Terminal,
    Terminal.Terminal.of({
      columns: Effect.succeed(columns),
      rows: Effect.succeed(24),
      isTTY: Effect.succeed(columns > 0),
      readInput: Effect.dieMessage("nobody types"),
      readLine: Effect.dieMessage("nobody types"),
      display
    })
  )

const environment = (variables: Record<string, string>) =>
  Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(variables))))

/** What a command line prints. */
const printed = (args: ReadonlyArray<string>, columns = 0) =>
  Effect.gen(function* () {
    const out = yield* Ref.make("")
    const recording = terminal(columns, (text) => Ref.update(out, (before) => before + text))
    yield* Effect.provide(run(args), Layer.mergeAll(NodeFileSystem.layer, NodePath.layer, recording))
    return yield* Ref.get(out)
  }).pipe(environment({}))

const wrong: ReadonlyArray<readonly [args: string, message: string]> = [
  ["", "A command is missing: calibrate, demo, rollout, serve, status, tasks or tools."],
  ["--log-level debug", "A command is missing: calibrate, demo, rollout, serve, status, tasks or tools."],
  ["calbrate t --model m", 'Unknown command "calbrate". Did you mean calibrate?'],
  ["frobnicate", 'Unknown command "frobnicate".'],
  ["calibrate t --modle m", 'Unknown option "--modle". Did you mean --model?'],
  ["calibrate t --MODEL m", 'Unknown option "--MODEL". Did you mean --model?'],
  ["calibrate t -x", 'Unknown option "-x". Did you mean -k?'],
  ["calibrate", "Missing: --model NAME, <traces>."],
  ["calibrate --model m", "Missing: <traces>."],
  ["calibrate --model m --", "Missing: <traces>."],
  ["calibrate t", "Missing: --model NAME."],
  ["calibrate t --model", "--model needs a value."],
  ["calibrate t --model=", "--model needs a value."],
  ["calibrate t --model --json", "--model needs a value; if --json is meant, write --model=--json."],
  ["calibrate t --model m --model=n", "--model is given twice."],
  ["calibrate t --model m --json=yes", "--json takes no value."],
  ["calibrate t --model m -k 0", '-k has to be a whole number of at least 1, not "0".'],
  ["calibrate t --model m -k -1", '-k has to be a whole number of at least 1, not "-1".'],
  ["calibrate t --model m -kx", '-k has to be a whole number of at least 1, not "x".'],
  ["calibrate t --model m -k 1e3", '-k has to be a whole number of at least 1, not "1e3".'],
  [
    "calibrate t --model m -k 99999999999999999999",
    '-k has to be a whole number of at least 1, not "99999999999999999999".'
  ],
  ["--completions tcsh", '--completions is one of sh, bash, fish, zsh, not "tcsh".'],
  ["tools --surface ui u", '--surface is one of api, mcp, code, not "ui".'],
  ["tasks --split u", "No containers: give URLs or --url-file FILE, or set MIROIR_URLS or MIROIR_URL_FILE."],
  ["status --url-file f u", "Give URLs or --url-file, not both."],
  ["rollout http://u", "No model: give --model NAME or set MIROIR_POLICY_MODEL."],
  ["rollout u", '"u" is no base URL: it has to be http(s)://HOST[:PORT][/PATH].'],
  ["rollout --model m", "No containers: give URLs or --url-file FILE, or set MIROIR_URLS or MIROIR_URL_FILE."],
  ["rollout http://c --model m", "No endpoint: give --base-url URL or set MIROIR_POLICY_BASE_URL."],
  [
    "rollout http://c --model m --base-url http://m --coworker-model c",
    "No endpoint for the coworkers: give --coworker-base-url URL or set MIROIR_COWORKER_BASE_URL."
  ],
  [
    "rollout http://c --model m --base-url http://m --coworker-concurrency 2",
    "No model for the coworkers: give --coworker-model NAME or set MIROIR_COWORKER_MODEL."
  ],
  ["rollout http://c --model m --base-url http://m --extra-body [1]", "--extra-body has to be a JSON object."],
  ["rollout http://c --tasks f --seeds 1..2", "Give --tasks or --seeds, not both."],
  [
    "rollout http://c --seeds 1..2 --split test",
    "--split is of the env's own tasks: leave it out where --tasks or --seeds says which."
  ],
  [
    "rollout http://c --seeds 1..2 --dialect miroir",
    "--seeds is for OpenEnv servers: a Miroir env begins its own tasks only, so leave --seeds away."
  ],
  ["rollout http://c --keep learnable", "--keep needs --calibration FILE."],
  ["rollout http://c --keep best", '--keep is one of solved, learnable, out_of_reach, not "best".'],
  ["rollout http://c --fresh --retry-void", "Give --fresh or --retry-void, not both: with --fresh all is done again."],
  ["rollout http://c --dry-run --calibrate f", "Give --dry-run or --calibrate, not both."],
  ["rollout http://c --top-p 1.5", '--top-p has to be a number from 0 to 1, not "1.5".'],
  ["rollout http://c --temperature hot", '--temperature has to be a number from 0 to 100, not "hot".'],
  ["rollout http://c --rollouts 0", '--rollouts has to be a whole number of at least 1, not "0".'],
  ["serve --containers 0", '--containers has to be a whole number of at least 1, not "0".'],
  ["demo --seed x", '--seed has to be a whole number of at least 0, not "x".'],
  ["demo and more", "Received unknown argument: 'and'"]
]

describe("wrong usage", () => {
  for (const [args, message] of wrong) {
    it.effect(`"${args}": ${message}`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(printed(args.split(" ").filter((arg) => arg !== "")))
        assert.instanceOf(error, WrongUsage)
        assert.strictEqual(error.message, message)
      })
    )
  }

  it.effect("an empty value or argument is none", () =>
    Effect.gen(function* () {
      const value = yield* Effect.flip(printed(["calibrate", "t", "--model", ""]))
      const argument = yield* Effect.flip(printed(["calibrate", "", "--model", "m"]))
      assert.deepStrictEqual([value.message, argument.message], ["--model needs a value.", "An argument is empty."])
    })
  )

  it.live("exits with 2, and says so in two lines on stderr", () =>
    Effect.gen(function* () {
      const ended = yield* Program.run(".", ["calibrate", "t", "--modle", "m"])
      assert.deepStrictEqual(ended, {
        code: 2,
        stdout: "",
        stderr: 'error: Unknown option "--modle". Did you mean --model?\nTry miroir-effect calibrate --help.\n'
      })
    })
  )
})

describe("help", () => {
  it.effect("fits in 80 columns, without colour where stdout is no terminal", () =>
    Effect.gen(function* () {
      const text = yield* printed(["calibrate", "--help"])
      assert.strictEqual(
        text,
        `Usage: miroir-effect calibrate --model NAME [--out FILE] [-k N] [--json]
       <traces>...

Say which tasks a policy has solved, can learn from, or cannot reach.

ARGUMENTS
  <traces>...       Trace files, and folders of them (*.jsonl, *.jsonl.gz).

OPTIONS
  --model NAME      The policy that the traces are of; it is noted in the
                    calibration.
  --out FILE        The calibration file to write; calibration.json if not
                    given.
  -k N              The k of pass@k and pass^k; if not given, the most graded
                    rollouts that a task has.
  --json            Print the result as one JSON document.

miroir-effect --help tells of the options that every command has.
`
      )
    })
  )

  it.effect("fits in narrow terminals, with titles in bold", () =>
    Effect.gen(function* () {
      for (const command of [[], ["calibrate"], ["tasks"], ["tools"], ["status"], ["serve"], ["demo"]]) {
        const args = [...command, "--help"]
        const text = yield* printed(args, 44)
        assert.include(text, "\u001b[1mOPTIONS\u001b[0m")
        const widest = Math.max(
          ...text
            .replaceAll(/\u001b\[\d+m/g, "")
            .split("\n")
            .map((line) => line.length)
        )
        assert.isAtMost(widest, 44)
      }
    })
  )

  it.effect("the program's names each command and what it does", () =>
    Effect.gen(function* () {
      const text = yield* printed(["--help"])
      assert.match(text, /^COMMANDS\n {2}rollout {11}Roll out .*\n {2}calibrate {9}Say which tasks/m)
    })
  )

  it.effect("--version is the package's", () =>
    Effect.gen(function* () {
      const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"))
      assert.strictEqual(yield* printed(["--version"]), `${version}\n`)
    })
  )

  it.effect("--completions knows commands and options", () =>
    Effect.gen(function* () {
      for (const shell of ["sh", "bash", "fish", "zsh"]) {
        const text = yield* printed(["--completions", shell])
        for (const name of ["calibrate", "tasks", "tools", "status", "serve", "demo"]) assert.include(text, name)
        for (const option of ["model", "url-file", "surface", "watch"]) assert.include(text, option)
      }
    })
  )

  it.live("reaches stdout, and exits with 0", () =>
    Effect.gen(function* () {
      const { code, stderr, stdout } = yield* Program.run(".", ["--help"])
      assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
      assert.match(stdout, /^Usage: miroir-effect COMMAND/)
    })
  )
})

describe("logs", () => {
  it.effect("are a line each, with what they are of; a cause is whole at the level debug only", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const recorded = Logger.replace(
        Logger.defaultLogger,
        Logger.map(line, (text) => {
          lines.push(text)
        })
      )
      const failing = Effect.logWarning("a task failed", Cause.fail(new TypeError("no\n  way")))
      yield* Effect.all([
        Effect.logInfo("1 of 2 done"),
        Effect.annotateLogs(failing, { task_id: "a b", container: "http://127.0.0.1:1/x" }),
        Effect.logDebug("unseen"),
        Logger.withMinimumLogLevel(failing, LogLevel.Debug)
      ]).pipe(Effect.provide(recorded))
      assert.deepStrictEqual(lines.slice(0, 2), [
        "1 of 2 done",
        'warning: a task failed: no way container=http://127.0.0.1:1/x task_id="a b"'
      ])
      assert.strictEqual(lines.length, 3)
      assert.match(lines[2] ?? "", /^warning: a task failed: no way\nTypeError: no\n {2}way\n {4}at /)
    })
  )
})

describe("how a run ends", () => {
  const interrupted = Exit.failCause(Cause.interrupt(FiberId.none))

  it("a failure is told in a line, a bug as one, a signal has its code", () => {
    assert.deepStrictEqual(outcome(Exit.void, undefined), { code: 0, lines: [] })
    assert.deepStrictEqual(outcome(interrupted, "SIGINT"), { code: 130, lines: [] })
    assert.deepStrictEqual(outcome(interrupted, "SIGTERM"), { code: 143, lines: [] })
    assert.deepStrictEqual(outcome(Exit.fail({ message: "not an Error" }), undefined).code, 1)
    assert.deepStrictEqual(outcome(Exit.die(new TypeError("x is\n  undefined")), undefined), {
      code: 1,
      lines: [
        "error: This is a bug in miroir-effect: x is undefined",
        "Run it again with --log-level debug to see where."
      ]
    })
  })

  it.effect("output that nobody reads is no failure, output that cannot be written is one", () => {
    const failing = (code: string) =>
      terminal(0, () => Effect.fail(new Error.BadArgument({ module: "Terminal", method: "display", cause: { code } })))
    return Effect.gen(function* () {
      yield* Effect.provide(print("results"), failing("EPIPE"))
      const failed = yield* Effect.flip(Effect.provide(print("results"), failing("ENOSPC")))
      assert.strictEqual(failed.message, "The results could not be written to stdout (ENOSPC).")
    })
  })

  it.effect("colour is for terminals, unless NO_COLOR is set", () =>
    Effect.gen(function* () {
      const wanted = (columns: number, variables: Record<string, string>) =>
        coloured.pipe(Effect.provide(terminal(columns)), environment(variables))
      assert.isTrue(yield* wanted(80, { TERM: "xterm" }))
      assert.isTrue(yield* wanted(80, { NO_COLOR: "" }))
      assert.isFalse(yield* wanted(80, { NO_COLOR: "1" }))
      assert.isFalse(yield* wanted(80, { TERM: "dumb" }))
      assert.isFalse(yield* wanted(0, {}))
    })
  )
})
