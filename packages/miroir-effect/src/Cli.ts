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
import { normalize, quoted } from "./internal/argv.js"
import * as help from "./internal/help.js"
import { coloured, type OutputFailed, print, width, withoutUserinfo } from "./internal/terminal.js"
import { version } from "./internal/version.js"
import { WrongUsage } from "./internal/WrongUsage.js"

const json = (description = "Print the result as one JSON document.") =>
  Options.boolean("json").pipe(Options.withDescription(description))

/** An option whose value is read by `parse`; its errors name it, which those of @effect/cli's own options do not. */
const parsed = <A>(
  name: string,
  pseudoName: string,
  expected: string,
  parse: (text: string) => Option.Option<A>
): Options.Options<A> =>
  Options.text(name).pipe(
    Options.withPseudoName(pseudoName),
    Options.mapEffect((text) =>
      Option.match(parse(text), {
        onSome: Effect.succeed,
        onNone: () => {
          const option = `${name.length === 1 ? "-" : "--"}${name}`
          return Effect.fail(
            ValidationError.invalidValue(HelpDoc.p(`${option} has to be ${expected}, not ${quoted(text)}.`))
          )
        }
      })
    )
  )

/** A whole number, `least` or more. */
const whole = (name: string, least: number): Options.Options<number> =>
  parsed(name, "N", `a whole number of at least ${least}`, (text) => {
    const value = Number(text)
    return /^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least ? Option.some(value) : Option.none()
  })

/** A number between two others. */
const decimal = (name: string, pseudoName: string, least: number, most: number): Options.Options<number> =>
  parsed(name, pseudoName, `a number from ${least} to ${most}`, (text) => {
    const value = Number(text)
    return text.trim() !== "" && value >= least && value <= most ? Option.some(value) : Option.none()
  })

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
).pipe(Command.withDescription("Serve the embedded env, roll out a stub model and calibrate it, in one go."))

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

/** Any number of times, also never; optional, so that its usage says so. */
const severally = <A>(option: Options.Options<A>): Options.Options<ReadonlyArray<A>> =>
  option.pipe(Options.repeated, Options.optional, Options.map(Option.getOrElse(() => [])))

const noted = <A>(option: Options.Options<A>, description: string): Options.Options<Option.Option<A>> =>
  option.pipe(Options.withDescription(description), Options.optional)

const text = (name: string, pseudoName: string): Options.Options<string> =>
  Options.text(name).pipe(Options.withPseudoName(pseudoName))

const rollout = Command.make(
  "rollout",
  {
    ...containers,
    split: noted(text("split", "NAME"), "The split of the env's tasks; train if not given."),
    task: text("task", "ID").pipe(Options.withDescription("Only this task; may be given several times."), severally),
    tasks: noted(text("tasks", "FILE"), "Tasks of your own, a JSON object a line: id, prompt, reset."),
    seeds: noted(text("seeds", "A..B"), "A task for each seed from A to B, for an env that has no tasks."),
    calibration: noted(text("calibration", "FILE"), "Only those tasks whose class in this calibration is kept."),
    keep: Options.choice("keep", ["solved", "learnable", "out_of_reach"]).pipe(
      Options.withDescription("A class to keep; may be given several times; learnable if not given."),
      severally
    ),
    model: noted(text("model", "NAME"), "The policy's model; MIROIR_POLICY_MODEL if not given."),
    baseUrl: noted(
      text("base-url", "URL"),
      "Its OpenAI-compatible endpoint; MIROIR_POLICY_BASE_URL if not given. The key is in MIROIR_POLICY_API_KEY."
    ),
    temperature: noted(decimal("temperature", "T", 0, 100), "Sampling temperature; the endpoint's own if not given."),
    topP: noted(decimal("top-p", "P", 0, 1), "Nucleus sampling; the endpoint's own if not given."),
    maxTokens: noted(whole("max-tokens", 1), "Tokens of a message at most; the endpoint's own if not given."),
    seed: noted(
      whole("seed", 0),
      "The sampling seed of each task's first rollout, the next ones have the next ones; none if not given."
    ),
    extraBody: noted(text("extra-body", "JSON"), "Further members of each request, as a JSON object."),
    rollouts: whole("rollouts", 1).pipe(
      Options.withDescription("How often each task; 8 if not given."),
      Options.withDefault(8)
    ),
    concurrency: noted(whole("concurrency", 1), "Episodes at a time; as many as there are containers if not given."),
    policyConcurrency: noted(
      whole("policy-concurrency", 1),
      "Calls to the policy's model at a time; no limit if not given."
    ),
    maxSeconds: noted(whole("max-seconds", 1), "The env's limit on an episode; its own if not given."),
    maxSteps: whole("max-steps", 1).pipe(
      Options.withDescription("Tool calls of a task that names no budget; 50 if not given."),
      Options.withDefault(50)
    ),
    surface: Options.choice("surface", ["api", "mcp", "code"]).pipe(
      Options.withDescription("The set of tools; api if not given."),
      Options.withDefault("api")
    ),
    coworkerModel: noted(
      text("coworker-model", "NAME"),
      "The model that speaks for the coworkers; MIROIR_COWORKER_MODEL if not given. Without one, tasks with coworkers are left out."
    ),
    coworkerBaseUrl: noted(
      text("coworker-base-url", "URL"),
      "Its endpoint; MIROIR_COWORKER_BASE_URL if not given. The key is in MIROIR_COWORKER_API_KEY."
    ),
    coworkerConcurrency: noted(whole("coworker-concurrency", 1), "Calls to it at a time; no limit if not given."),
    dialect: Options.choice("dialect", ["auto", "miroir", "openenv"]).pipe(
      Options.withDescription("How the servers speak; found out by what they answer if not given."),
      Options.withDefault("auto")
    ),
    reward: noted(
      Options.choice("reward", ["sum", "last"]),
      "What an OpenEnv episode is worth: the sum of its steps' rewards, if not given, or the last."
    ),
    successAt: noted(
      decimal("success-at", "R", -1e9, 1e9),
      "The reward from which an OpenEnv episode counts as a success; 1 if not given."
    ),
    traces: text("traces", "DIR").pipe(
      Options.withDescription(
        "The run's folder; traces if not given. What it holds of the same run is kept and gone on with."
      ),
      Options.withDefault("traces")
    ),
    retryVoid: Options.boolean("retry-void").pipe(Options.withDescription("Do again what could not be graded before.")),
    fresh: Options.boolean("fresh").pipe(
      Options.withDescription("Begin anew; what the folder holds goes to DIR/superseded.")
    ),
    dryRun: Options.boolean("dry-run").pipe(Options.withDescription("Say what would be run, and change nothing.")),
    calibrate: noted(text("calibrate", "FILE"), "Calibrate the rollouts at the end, and write this file."),
    json: json()
  },
  (options) =>
    Effect.flatMap(
      Effect.promise(() => import("./commands/rollout.js")),
      (command) => command.rollout(options)
    )
).pipe(Command.withDescription("Roll out a chat model on containers, and save the traces."))

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
  Command.withSubcommands([rollout, calibrate, tasks, tools, status, serve, demo]),
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
    Console.withConsole(yield* consoleFor(layout, failed, normal.request === "wizard" ? reusable : identity)),
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
const reusable = (text: string): string =>
  withoutUserinfo(text).replace(/( --[\w-]+) (true|false)\b/g, (_, flag: string, value: string) =>
    value === "true" ? flag : ""
  )
