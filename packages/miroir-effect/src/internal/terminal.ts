/** What the terminal, or what stands in its place, gets to see: results on stdout, all else on stderr. */

import * as Terminal from "@effect/platform/Terminal"
import * as Text from "@miroir-effect/core/Text"
import * as Cause from "effect/Cause"
import * as Config from "effect/Config"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as FiberRefs from "effect/FiberRefs"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"

/** The results could not be written: a full disk, say. */
export class OutputFailed extends Data.TaggedError("OutputFailed")<{ readonly message: string }> {}

/**
 * Writes results to stdout, with a line end behind them. Tells whether there still is a reader: one that has gone away
 * (`| head`) wants no more of them, which is no failure.
 */
export const write = (text: string): Effect.Effect<boolean, OutputFailed, Terminal.Terminal> =>
  Effect.flatMap(Terminal.Terminal, (terminal) => terminal.display(text.endsWith("\n") ? text : `${text}\n`)).pipe(
    Effect.as(true),
    Effect.catchAll(({ cause }) =>
      errorCode(cause) === "EPIPE"
        ? Effect.succeed(false)
        : Effect.fail(
            new OutputFailed({
              message: `The results could not be written to stdout (${errorCode(cause) ?? "no reason"}).`
            })
          )
    )
  )

/** Writes results to stdout, whether or not there still is a reader. */
export const print = (text: string): Effect.Effect<void, OutputFailed, Terminal.Terminal> => Effect.asVoid(write(text))

/** Whether stdout is a terminal on which the cursor can be moved. */
export const isLive: Effect.Effect<boolean, never, Terminal.Terminal> = Effect.gen(function* () {
  const terminal = yield* Terminal.Terminal
  const kind = yield* Config.string("TERM").pipe(
    Config.withDefault(""),
    Effect.orElseSucceed(() => "")
  )
  return (yield* terminal.isTTY) && kind !== "dumb"
})

/** Whether stdout wants colour: it is a terminal, and nobody said no (https://no-color.org). */
export const coloured: Effect.Effect<boolean, never, Terminal.Terminal> = Effect.gen(function* () {
  const refused = yield* Config.nonEmptyString("NO_COLOR").pipe(Effect.isSuccess)
  return (yield* isLive) && !refused
})

/** Columns of the terminal on stdout; none where stdout goes elsewhere. */
export const width: Effect.Effect<Option.Option<number>, never, Terminal.Terminal> = Effect.flatMap(
  Terminal.Terminal,
  (terminal) =>
    Effect.map(
      terminal.columns,
      Option.liftPredicate((columns) => columns > 0)
    )
)

/** Columns and lines of the terminal on stdout; 80 and 24 where it does not tell them. */
export const size: Effect.Effect<{ readonly columns: number; readonly rows: number }, never, Terminal.Terminal> =
  Effect.gen(function* () {
    const terminal = yield* Terminal.Terminal
    return { columns: (yield* terminal.columns) || 80, rows: (yield* terminal.rows) || 24 }
  })

/**
 * A log in one line: `warning: ...`, `error: ...`; progress (level info) as it is. A cause is told in the same line, and
 * whole below it at the level debug.
 */
export const line: Logger.Logger<unknown, string> = Logger.make(
  ({ annotations, cause, context, logLevel, message }) => {
    const parts = Array.isArray(message) ? message : [message]
    const texts = parts.map((part) => (typeof part === "string" ? part : Inspectable.toStringUnknown(part, 0)))
    const text = (Cause.isEmpty(cause) ? texts : [...texts, oneLine(Cause.squash(cause))]).join(": ")
    const noted = Array.from(HashMap.entries(annotations), ([key, value]) => ` ${key}=${annotation(value)}`).join("")
    const isWhole = LogLevel.lessThanEqual(
      FiberRefs.getOrDefault(context, FiberRef.currentMinimumLogLevel),
      LogLevel.Debug
    )
    const whole = isWhole && !Cause.isEmpty(cause) ? `\n${Cause.pretty(cause, { renderErrorCause: true })}` : ""
    return safe(`${labels[logLevel._tag]}${text}${noted}${whole}`)
  }
)

/** Logs go to stderr. */
export const logger: Logger.Logger<unknown, void> = Logger.map(line, (text) => {
  process.stderr.write(`${text}\n`)
})

/**
 * Lines that may be shown, whoever chose their words: nothing in them moves the cursor or hides, and no URL has a
 * userinfo, as where somebody has put one in the wrong place of a command line.
 */
export const safe = (lines: string): string => withoutUserinfo(lines.split("\n").map(Text.visible).join("\n"))

export const withoutUserinfo = (text: string): string => text.replace(/(?<=\w:\/\/)[^\s/?#]*@/g, "")

const labels: Record<LogLevel.LogLevel["_tag"], string> = {
  All: "",
  Trace: "trace: ",
  Debug: "debug: ",
  Info: "",
  Warning: "warning: ",
  Error: "error: ",
  Fatal: "error: ",
  None: ""
}

const annotation = (value: unknown): string => {
  const text = typeof value === "string" ? value : Inspectable.toStringUnknown(value, 0)
  return /^[\w.:/@+-]+$/.test(text) ? text : JSON.stringify(text)
}

/** What can be told of anything that was thrown, in one line. */
export const oneLine = (error: unknown): string =>
  (error instanceof Error ? error.message || error.name : Inspectable.toStringUnknown(error, 0)).replace(
    /\s*\n\s*/g,
    " "
  )

const errorCode = (cause: unknown): string | undefined =>
  typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : undefined
