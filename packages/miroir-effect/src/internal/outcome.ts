/** How a run of the command line ends: its exit code, and what it says of a failure, in a line or two. */

import * as Cause from "effect/Cause"
import * as ConfigError from "effect/ConfigError"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { oneLine } from "./terminal.js"
import { WrongUsage } from "./WrongUsage.js"

export type Signal = "SIGINT" | "SIGTERM"

/** As the shell has it for a process that a signal ended: 128 and its number. */
export const signalCode = (signal: Signal): number => (signal === "SIGINT" ? 130 : 143)

export interface Outcome {
  readonly code: number
  /** For stderr. */
  readonly lines: ReadonlyArray<string>
}

/** `signal` is the one that interrupted the run, if any did. */
export const outcome = (exit: Exit.Exit<unknown, unknown>, signal: Signal | undefined): Outcome => {
  if (Exit.isSuccess(exit)) return { code: 0, lines: [] }
  const failure = Cause.failureOption(exit.cause)
  const defect = Cause.dieOption(exit.cause)
  if (Option.isSome(defect)) {
    return {
      code: signal === undefined ? 1 : signalCode(signal),
      lines: [
        `error: This is a bug in miroir-effect: ${oneLine(defect.value)}`,
        "Run it again with --log-level debug to see where."
      ]
    }
  }
  if (signal !== undefined) return { code: signalCode(signal), lines: [] }
  if (Option.isNone(failure)) return { code: 1, lines: ["error: The run was interrupted."] }
  const error = failure.value
  if (error instanceof WrongUsage) {
    const command = error.command === undefined ? "" : ` ${error.command}`
    return { code: 2, lines: [`error: ${error.message}`, `Try miroir-effect${command} --help.`] }
  }
  if (ConfigError.isConfigError(error)) return { code: 2, lines: [`error: ${said(error).join("; ")}.`] }
  return { code: 1, lines: [`error: ${oneLine(error)}`] }
}

/** What is wrong with which variable of the environment. */
const said = (error: ConfigError.ConfigError): ReadonlyArray<string> =>
  error._op === "And" || error._op === "Or"
    ? [...said(error.left), ...said(error.right)]
    : [`${error.path.join("_")}: ${error.message}`]
