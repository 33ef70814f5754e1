/** Runs the program as it is built (`npm run build`), as a process of its own. */
import { type ChildProcessByStdio, spawn } from "node:child_process"
import type { Readable } from "node:stream"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const bin = fileURLToPath(new URL("../dist/bin.js", import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

interface Running {
  readonly child: ChildProcessByStdio<null, Readable, Readable>
  readonly ended: Effect.Effect<Ended>
}

/** Starts it in a folder; it is killed, should it still run, when the scope is closed. */
export const start = (folder: string, args: ReadonlyArray<string>): Effect.Effect<Running, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const env = { PATH: process.env.PATH, HOME: folder }
      const child = spawn(process.execPath, [bin, ...args], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] })
      const texts = { stdout: "", stderr: "" }
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        texts.stdout += text
      })
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        texts.stderr += text
      })
      const closed = new Promise<number | null>((resolve) => child.on("close", resolve))
      return {
        child,
        ended: Effect.map(
          Effect.promise(() => closed),
          (code) => ({ code, ...texts })
        )
      }
    }),
    ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
  )

export const run = (folder: string, args: ReadonlyArray<string>): Effect.Effect<Ended> =>
  Effect.scoped(Effect.flatMap(start(folder, args), ({ ended }) => ended))
