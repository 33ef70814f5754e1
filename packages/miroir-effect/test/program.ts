/** Runs the program as it is built (`npm run build`), as a process of its own. */
import { type ChildProcessByStdio, spawn } from "node:child_process"
import type { Readable } from "node:stream"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export const bin = fileURLToPath(new URL("../dist/bin.js", import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

interface Running {
  readonly child: ChildProcessByStdio<null, Readable, Readable>
  /** Waits until stdout and stderr have this in them; fails the test where the program ends before. */
  readonly says: (pattern: RegExp) => Effect.Effect<Omit<Ended, "code">>
  readonly ended: Effect.Effect<Ended>
}

/** Variables of its environment, beside PATH and HOME. */
export type Variables = Readonly<Record<string, string>>

/** Starts it in a folder; it is killed, should it still run, when the scope is closed. */
export const start = (
  folder: string,
  args: ReadonlyArray<string>,
  variables: Variables = {}
): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const env = { PATH: process.env.PATH, HOME: folder, ...variables }
      const child = spawn(process.execPath, [bin, ...args], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] })
      const texts = { stdout: "", stderr: "" }
      const waiting = new Set<() => void>()
      const told = (): void => {
        for (const look of waiting) look()
      }
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        texts.stdout += text
        told()
      })
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        texts.stderr += text
        told()
      })
      const closed = new Promise<number | null>((resolve) => child.on("close", resolve))
      const says = (pattern: RegExp) =>
        Effect.async<Omit<Ended, "code">>((resume) => {
          const look = (): void => {
            if (pattern.test(texts.stdout + texts.stderr)) resume(Effect.succeed({ ...texts }))
          }
          waiting.add(look)
          look()
          return Effect.sync(() => waiting.delete(look))
        })
      const ended = Effect.map(
        Effect.promise(() => closed),
        (code) => ({ code, ...texts })
      )
      const early = Effect.flatMap(ended, (ended) =>
        Effect.dieMessage(`it ended without saying so: ${JSON.stringify(ended)}`)
      )
      return { child, says: (pattern: RegExp) => Effect.raceFirst(says(pattern), early), ended }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

export const run = (folder: string, args: ReadonlyArray<string>, variables: Variables = {}): Effect.Effect<Ended> =>
  Effect.scoped(Effect.flatMap(start(folder, args, variables), ({ ended }) => ended))
