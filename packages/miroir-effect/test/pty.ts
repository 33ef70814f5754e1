/** The program on a pseudo-terminal, which Python makes; and what is then to be seen on its screen. */
import { spawn, spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { bin, type Variables } from "./program.js"

const onPty = fileURLToPath(new URL("./onPty.py", import.meta.url))

/** Whether there is a Python that can make one. */
export const available = spawnSync("python3", ["-c", "import pty, os; os.waitstatus_to_exitcode"]).status === 0

export interface Terminal {
  /** All that was written to it. */
  readonly written: () => string
  readonly type: (text: string) => void
  /** Waits until this is true; fails the test where the program ends before. */
  readonly until: (predicate: (written: string) => boolean) => Effect.Effect<void>
  /** The exit code. */
  readonly ended: Effect.Effect<number | null>
}

/** Starts the program on a terminal of this size; it is killed, should it still run, when the scope is closed. */
export const start = (
  size: { readonly columns: number; readonly rows: number },
  args: ReadonlyArray<string>,
  variables: Variables = {}
): Effect.Effect<Terminal, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const env = { PATH: process.env.PATH, TERM: "xterm-256color", ...variables }
      const command = [onPty, `${size.columns}`, `${size.rows}`, process.execPath, bin, ...args]
      const child = spawn("python3", command, { env, stdio: ["pipe", "pipe", "inherit"] })
      let written = ""
      const waiting = new Set<() => void>()
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        written += text
        for (const look of waiting) look()
      })
      const closed = new Promise<number | null>((resolve) => child.on("close", resolve))
      const ended = Effect.promise(() => closed)
      const until = (predicate: (written: string) => boolean) =>
        Effect.async<void>((resume) => {
          const look = (): void => {
            if (predicate(written)) resume(Effect.void)
          }
          waiting.add(look)
          look()
          return Effect.sync(() => waiting.delete(look))
        })
      return {
        child,
        written: () => written,
        type: (text: string) => child.stdin.write(text),
        until: (predicate: (written: string) => boolean) =>
          Effect.raceFirst(
            until(predicate),
            Effect.flatMap(ended, (code) => Effect.dieMessage(`it ended with ${code}: ${JSON.stringify(written)}`))
          ),
        ended
      }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

/**
 * The lines of a screen of endless height after what was written to it. Knows what the program may write: text, line
 * ends, colours, the cursor up and the erasing below it, a line that is erased from its beginning; anything else is an error.
 */
export const screen = (written: string): ReadonlyArray<string> => {
  let lines = [""]
  let at = 0
  for (const [token, , count, command] of written.matchAll(/\u001b(\[(\d*)(.))?|[^\u001b]/gsu)) {
    if (token === "\r") continue
    else if (token === "\n") {
      at++
      lines[at] ??= ""
    } else if (command === "A") at = Math.max(0, at - Number(count))
    else if (command === "K") lines[at] = ""
    else if (command === "J") lines = [...lines.slice(0, at), ""]
    else if (command === "m") continue
    else if (/^[\u0000-\u001f\u007f-\u009f]/.test(token)) throw new Error(`${JSON.stringify(token)} was written`)
    else lines[at] += token
  }
  return lines
}
