/** A command line that cannot be what its writer meant: exit code 2, where every other failure is 1. */

import * as Data from "effect/Data"

export class WrongUsage extends Data.TaggedError("WrongUsage")<{
  /** What is wrong with it, in one line. */
  readonly message: string
  /** The subcommand, where it is known: its help is what to read next. */
  readonly command?: string | undefined
}> {}
