/**
 * The command line: what there is to be given, and what each of it means. A subcommand's work is in commands/, and
 * loaded when it is asked for.
 */

import * as Args from "@effect/cli/Args"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Terminal from "@effect/platform/Terminal"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import { normalize } from "./internal/argv.js"
import * as help from "./internal/help.js"
import { coloured, type OutputFailed, print, width } from "./internal/terminal.js"
import { version } from "./internal/version.js"
import { WrongUsage } from "./internal/WrongUsage.js"

const json = (description = "Print the result as one JSON document.") =>
  Options.boolean("json").pipe(Options.withDescription(description))

/** An option whose value is a whole number, `least` or more; its errors name it, which those of `Options.integer` do not. */
const whole = (name: string, least: number) =>
  Options.text(name).pipe(
    Options.withPseudoName("N"),
    Options.mapEffect((text) => {
      const value = Number(text)
      const option = `${name.length === 1 ? "-" : "--"}${name}`
      return /^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least
        ? Effect.succeed(value)
        : Effect.fail(
            ValidationError.invalidValue(
              HelpDoc.p(`${option} has to be a whole number of at least ${least}, not ${JSON.stringify(text)}.`)
            )
          )
    })
  )

const calibrate = Command.make(
  "calibrate",
  {
    traces: Args.text({ name: "traces" }).pipe(
      Args.withDescription("Trace files, and folders of them (*.jsonl, *.jsonl.gz)."),
      Args.atLeast(1)
    ),
    model: Options.text("model").pipe(
      Options.withPseudoName("NAME"),
      Options.withDescription("The policy that the traces are of; it is noted in the calibration.")
    ),
    out: Options.text("out").pipe(
      Options.withPseudoName("FILE"),
      Options.withDescription("The calibration file to write; calibration.json if not given."),
      Options.withDefault("calibration.json")
    ),
    k: whole("k", 1).pipe(
      Options.withDescription("The k of pass@k and pass^k; if not given, the most graded rollouts that a task has."),
      Options.optional
    ),
    json: json()
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/calibrate.js")),
      (command) => command.calibrate(options)
    )
).pipe(Command.withDescription("Say which tasks a policy has solved, can learn from, or cannot reach."))

const demo = Command.make(
  "demo",
  {
    out: Options.text("out").pipe(
      Options.withPseudoName("DIR"),
      Options.withDescription("Where each run makes a folder of its own; miroir-demo if not given."),
      Options.withDefault("miroir-demo")
    ),
    seed: whole("seed", 0).pipe(
      Options.withDescription("What the policy's mistakes are drawn from; 1 if not given."),
      Options.withDefault(1)
    )
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/demo.js")),
      (command) => command.demo(options)
    )
).pipe(Command.withDescription("Serve the embedded env, roll out a scripted policy and calibrate it, in one go."))

const containers = {
  urls: Args.text({ name: "url" }).pipe(
    Args.withDescription(
      "Base URLs of containers. If neither they nor --url-file is given, MIROIR_URLS (commas between them) or MIROIR_URL_FILE says which."
    ),
    Args.atLeast(1),
    Args.withDefault<ReadonlyArray<string>>([])
  ),
  urlFile: Options.text("url-file").pipe(
    Options.withPseudoName("FILE"),
    Options.withDescription("A file that lists the URLs, one a line."),
    Options.optional
  )
}

const tasks = Command.make(
  "tasks",
  {
    ...containers,
    split: Options.text("split").pipe(
      Options.withPseudoName("NAME"),
      Options.withDescription("The split of the tasks; train if not given."),
      Options.withDefault("train")
    ),
    json: json()
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/tasks.js")),
      (command) => command.tasks(options)
    )
).pipe(Command.withDescription("List the tasks of a split, as the first container that answers has them."))

const tools = Command.make(
  "tools",
  {
    ...containers,
    surface: Options.choice("surface", ["api", "mcp", "code"]).pipe(
      Options.withDescription("The set of tools; the env's own choice if not given."),
      Options.optional
    ),
    json: json()
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/tools.js")),
      (command) => command.tools(options)
    )
).pipe(Command.withDescription("List the tools of a surface, as the first container that answers has them."))

const status = Command.make(
  "status",
  {
    ...containers,
    watch: Options.boolean("watch").pipe(
      Options.withDescription("Ask again every 2 seconds: a table on a terminal, elsewhere a line for each change.")
    ),
    json: json("Print one JSON document; with --watch one a line, for each change.")
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/status.js")),
      (command) => command.status(options)
    )
).pipe(Command.withDescription("Say of each container whether it is free, leased or unhealthy, and its latency."))

const serve = Command.make(
  "serve",
  {
    containers: whole("containers", 1).pipe(
      Options.withDescription("How many containers; 1 if not given."),
      Options.withDefault(1)
    ),
    port: whole("port", 0).pipe(
      Options.withDescription("The first one's port, those of the others follow; 0, or not given: any that are free."),
      Options.withDefault(0)
    ),
    urlFile: Options.text("url-file").pipe(
      Options.withPseudoName("FILE"),
      Options.withDescription("A file to list the URLs in for as long as they are served."),
      Options.optional
    )
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/serve.js")),
      (command) => command.serve(options)
    )
).pipe(Command.withDescription("Serve the embedded env on loopback, until a signal."))

const name = "miroir-effect"

const root = Command.make(name).pipe(
  Command.withDescription(
    "A client of RL environments that are served in containers: lease them, run episodes, keep traces, calibrate."
  ),
  Command.withSubcommands([calibrate, tasks, tools, status, serve, demo]),
  // To be seen at --log-level debug: where a failure, or a bug, comes from.
  Command.transformHandler((effect) => Effect.tapErrorCause(effect, (cause) => Effect.logDebug("It failed", cause)))
)

const parseAndRun = Command.run(root, { name, version })

/**
 * Runs a command line, given as what stands behind the program's name. All that is wrong with it, be it found here, by
 * @effect/cli or by the subcommand, is a WrongUsage; the other errors are the subcommand's.
 */
export const run = Effect.fnUntraced(function* (args: ReadonlyArray<string>) {
  const normal = yield* normalize(root.descriptor, args)
  const layout = {
    columns: Math.min(
      Option.getOrElse(yield* width, () => 80),
      120
    ),
    styled: yield* coloured
  }
  if (normal.request === "help") {
    const command = Option.flatMap(normal.command, (asked) => HashMap.get(Command.getSubcommands(root), asked))
    return yield* print(
      Option.match(command, {
        onNone: () => help.ofProgram(name, root.descriptor, layout),
        onSome: (found) => help.ofCommand(name, found, layout)
      })
    )
  }
  if (normal.request === "wizard" && !process.stdin.isTTY) {
    return yield* new WrongUsage({ message: "--wizard asks questions, which needs a terminal." })
  }
  const failed = yield* Ref.make(Option.none<OutputFailed>())
  yield* parseAndRun([process.execPath, name, ...normal.args]).pipe(
    Effect.catchIf(ValidationError.isValidationError, ({ error }) => {
      const command = Option.getOrUndefined(normal.command)
      return Effect.fail(new WrongUsage({ message: help.lineOf(error), command }))
    }),
    Console.withConsole(yield* consoleFor(layout, failed, normal.request === "wizard" ? withoutTruth : identity)),
    Effect.provide(CliConfig.layer({ isCaseSensitive: true }))
  )
  return yield* Effect.flatMap(Ref.get(failed), Option.match({ onNone: () => Effect.void, onSome: Effect.fail }))
})

/**
 * What @effect/cli prints (version, completions, wizard) goes through the console. So does what is wrong with a command
 * line, which it says at length and which is told elsewhere.
 */
const consoleFor = Effect.fnUntraced(function* (
  layout: help.Layout,
  failed: Ref.Ref<Option.Option<OutputFailed>>,
  edit: (text: string) => string
) {
  const terminal = yield* Terminal.Terminal
  return yield* Console.consoleWith((console) =>
    Effect.succeed<Console.Console>({
      ...console,
      log: (text = "") =>
        print(edit(layout.styled ? String(text) : help.plain(String(text)))).pipe(
          Effect.provideService(Terminal.Terminal, terminal),
          Effect.catchAll((error) => Ref.set(failed, Option.some(error)))
        ),
      error: () => Effect.void
    })
  )
})

/** The wizard shows a command line to be used again, in which it writes `--json true` for what is a flag. */
const withoutTruth = (text: string): string =>
  text.replace(/( --[\w-]+) (true|false)\b/g, (_, flag: string, value: string) => (value === "true" ? flag : ""))
