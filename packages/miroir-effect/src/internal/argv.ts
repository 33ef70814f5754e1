/**
 * Command lines as people write them, put into the one form that @effect/cli 0.77 reads without surprise: each option
 * by its long name with its value behind it, then `--`, then the arguments.
 *
 * Left to itself it takes `-k8` for a cluster of flags and `--out=` for an argument, swallows an argument `y` or `true`
 * behind a flag, takes what follows a `--` for options of its own, matches options whatever their case, and says
 * nothing at all when an option is given twice. What options there are is read from the commands' own declarations.
 */

import * as AutoCorrect from "@effect/cli/AutoCorrect"
import * as BuiltInOptions from "@effect/cli/BuiltInOptions"
import * as CliConfig from "@effect/cli/CliConfig"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as Usage from "@effect/cli/Usage"
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Order from "effect/Order"
import { WrongUsage } from "./WrongUsage.js"

/** An option, or an argument, as it is declared. */
interface Declared {
  /** An option's names, dashes included. */
  readonly names: ReadonlyArray<string>
  /** How its value is called; for a choice, what can be chosen. None for a flag. */
  readonly value: Option.Option<string>
  readonly required: boolean
  readonly repeated: boolean
}

export interface Normal {
  /** The subcommand, where there is one. */
  readonly command: Option.Option<string>
  /** What is asked for: its help, its wizard (the program's, where there is no subcommand), or that it be done. */
  readonly request: "help" | "wizard" | "run"
  /** What to hand to @effect/cli; nothing for help. */
  readonly args: ReadonlyArray<string>
}

/** `args` is all behind the program's name. */
export const normalize = <A>(
  root: CommandDescriptor.Command<A>,
  args: ReadonlyArray<string>
): Either.Either<Normal, WrongUsage> =>
  Either.gen(function* () {
    const { builtIn, command, declarations, given, own, positional } = yield* scan(root, args)
    const found = Option.fromNullable(command)
    if (builtIn.includes("--help")) return { command: found, request: "help", args: [] }
    if (builtIn.includes("--wizard")) {
      return { command: found, request: "wizard", args: [command ?? [], "--wizard"].flat() }
    }
    if (builtIn.includes("--version") || builtIn.includes("--completions")) {
      return { command: found, request: "run", args: builtIn }
    }
    if (command === undefined) {
      const commands = Array.from(HashMap.keys(CommandDescriptor.getSubcommands(root))).sort()
      return yield* wrong(`A command is missing: ${commands.join(", ").replace(/, (\S+)$/, " or $1")}.`)
    }
    if (positional.includes("")) return yield* wrong("An argument is empty.", command)
    const missing = declarations.filter((declaration) => {
      const isOption = declaration.names.some((name) => name.startsWith("-"))
      return declaration.required && (isOption ? !given.has(declaration) : positional.length === 0)
    })
    if (missing.length > 0) {
      const names = missing.map(({ names, value }) =>
        [longest(names), Option.getOrElse(value, () => [])].flat().join(" ")
      )
      return yield* wrong(`Missing: ${names.join(", ")}.`, command)
    }
    // The built-in ones first: behind others they are not seen.
    const forced = positional.length === 0 ? [] : ["--", ...positional]
    return { command: found, request: "run", args: [command, ...builtIn, ...own, ...forced] }
  })

/** A command line taken apart. */
interface Scanned {
  readonly command: string | undefined
  /** What can be given: the subcommand's options and arguments, and the built-in options. */
  readonly declarations: ReadonlyArray<Declared>
  readonly given: ReadonlySet<Declared>
  /** The subcommand's options as they were given, each by its long name, with its value behind it if it takes one. */
  readonly own: ReadonlyArray<string>
  /** The same of the options that every command has. */
  readonly builtIn: ReadonlyArray<string>
  readonly positional: ReadonlyArray<string>
}

const scan = <A>(root: CommandDescriptor.Command<A>, args: ReadonlyArray<string>): Either.Either<Scanned, WrongUsage> =>
  Either.gen(function* () {
    const commands = CommandDescriptor.getSubcommands(root)
    const builtIns = declared(Options.getUsage(BuiltInOptions.builtInOptions(root, Usage.empty, HelpDoc.empty)), true)
    const given = new Set<Declared>()
    const own: Array<string> = []
    const builtIn: Array<string> = []
    const positional: Array<string> = []
    let command: string | undefined
    let declarations = builtIns

    for (let at = 0; at < args.length; at++) {
      const arg = args[at] ?? ""
      if (arg === "--") {
        positional.push(...args.slice(at + 1))
        break
      }
      if (arg !== "-" && arg.startsWith("-")) {
        const [name, inline] = split(arg)
        const option = declarations.find(({ names }) => names.includes(name))
        if (option === undefined) {
          const known = declarations.flatMap(({ names }) => names)
          return yield* wrong(`Unknown option ${quoted(name)}.${nearest(name, known)}`, command)
        }
        if (given.has(option) && !option.repeated) return yield* wrong(`${name} is given twice.`, command)
        given.add(option)
        const value = Option.isNone(option.value) ? inline : (inline ?? args[++at])
        const fault = faultOf(name, option, value)
        if (fault !== undefined) return yield* wrong(fault, command)
        if (
          value !== undefined &&
          inline === undefined &&
          declarations.some(({ names }) => names.includes(split(value)[0]))
        ) {
          return yield* wrong(`${name} needs a value; if ${value} is meant, write ${name}=${value}.`, command)
        }
        const canonical = [longest(option.names), value ?? []].flat()
        ;(builtIns.includes(option) ? builtIn : own).push(...canonical)
      } else if (command === undefined) {
        const descriptor = HashMap.get(commands, arg)
        if (Option.isNone(descriptor)) {
          return yield* wrong(`Unknown command ${quoted(arg)}.${nearest(arg, Array.from(HashMap.keys(commands)))}`)
        }
        command = arg
        declarations = [...declared(CommandDescriptor.getUsage(descriptor.value), true), ...builtIns]
      } else {
        positional.push(arg)
      }
    }
    return { command, declarations, given, own, builtIn, positional }
  })

/** What is wrong with an option's value. */
const faultOf = (name: string, { value: expected }: Declared, value: string | undefined): string | undefined => {
  if (Option.isNone(expected)) return value === undefined ? undefined : `${name} takes no value.`
  if (value === undefined || value === "") return `${name} needs a value.`
  const choices = expected.value.split(" | ")
  return choices.length > 1 && !choices.includes(value)
    ? `${name} is one of ${choices.join(", ")}, not ${quoted(value)}.`
    : undefined
}

const declared = (usage: Usage.Usage, required: boolean, repeated = false): ReadonlyArray<Declared> => {
  switch (usage._tag) {
    case "Empty":
    case "Mixed":
      return []
    case "Named":
      // A command's own name is the one that is neither an option's nor an argument's.
      return usage.names.some((name) => /^[-<]/.test(name))
        ? [{ names: usage.names, value: usage.acceptedValues, required, repeated }]
        : []
    case "Optional":
      return declared(usage.usage, false, repeated)
    case "Repeated":
      return declared(usage.usage, required, true)
    case "Alternation":
      return [...declared(usage.left, false, repeated), ...declared(usage.right, false, repeated)]
    case "Concat":
      return [...declared(usage.left, required, repeated), ...declared(usage.right, required, repeated)]
  }
}

/** An option's name and the value that is written with it: `--out=FILE`, `-k8`, `-k=8`. */
const split = (arg: string): readonly [name: string, inline: string | undefined] => {
  const [, name = arg, , inline] = /^(--[^=]+|-[^-])(=?)(.*)$/s.exec(arg) ?? []
  return [name, arg.length === name.length ? undefined : inline]
}

const longest = (names: ReadonlyArray<string>): string =>
  names.reduce((one, other) => (other.length > one.length ? other : one))

/** As it was written, in quotes; cut where it is long. */
export const quoted = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)

/** A question, where one of the known names is near enough to what was written. */
const nearest = (written: string, known: ReadonlyArray<string>): string => {
  const distance = (name: string) => AutoCorrect.levensteinDistance(written, name, CliConfig.defaultConfig)
  const near = known.filter((name) => distance(name) <= Math.max(1, Math.floor(written.length / 3)))
  return Arr.isNonEmptyArray(near) ? ` Did you mean ${Arr.min(near, Order.mapInput(Order.number, distance))}?` : ""
}

const wrong = (message: string, command?: string): Either.Either<never, WrongUsage> =>
  Either.left(new WrongUsage({ message, command }))
