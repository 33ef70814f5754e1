/** Stock OpenEnv servers as child processes, in the virtual environment that scripts/openenv-venv.mjs makes. */
import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process"
import type { Readable, Writable } from "node:stream"
import { fileURLToPath } from "node:url"
import type * as Json from "@miroir-effect/core/Json"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

const script = fileURLToPath(new URL("../../../../scripts/openenv-venv.mjs", import.meta.url))

/** A version of openenv in the place of the one that the requirements name: scripts/openenv-versions.mjs sets it. */
const version = process.env.OPENENV_VERSION

/** It costs each file that asks a start of Node's, but keeps one place that knows where the environment is. */
const looked = spawnSync(process.execPath, [script, "--look", ...(version === undefined ? [] : [version])], {
  encoding: "utf8"
})

/** Why no server can be started here; undefined where one can. */
export const missing = looked.status === 0 ? undefined : looked.stderr.trim()

const python = looked.stdout.trim()

if (missing !== undefined) process.stderr.write(`Tests against stock OpenEnv servers are SKIPPED. ${missing}\n`)

const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

interface Process {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>
  /** Its first line on stdout; fails the test where it ends before. */
  readonly line: Effect.Effect<string>
  /** All of its stdout, once it has ended well. */
  readonly output: Effect.Effect<string>
  readonly closed: Promise<number | null>
}

const run = (
  file: string,
  args: ReadonlyArray<string>,
  variables: Readonly<Record<string, string>> = {}
): Effect.Effect<Process, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync((): Process => {
      const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: "1", ...variables }
      const child = spawn(python, [pathOf(file), ...args], { env, stdio: ["pipe", "pipe", "pipe"] })
      const texts = { stdout: "", stderr: "" }
      let look = (): void => undefined
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        texts.stdout += text
        look()
      })
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        texts.stderr += text
      })
      const closed = new Promise<number | null>((resolve) => child.on("close", resolve))
      const line = Effect.async<string>((resume) => {
        look = () => {
          const end = texts.stdout.indexOf("\n")
          if (end >= 0) resume(Effect.succeed(texts.stdout.slice(0, end)))
        }
        look()
      })
      const ended = Effect.promise(() => closed)
      const early = Effect.flatMap(ended, (code) => Effect.dieMessage(`${file} ended with ${code}: ${texts.stderr}`))
      return {
        child,
        closed,
        line: Effect.raceFirst(line, early),
        output: Effect.flatMap(ended, (code) => (code === 0 ? Effect.succeed(texts.stdout) : early))
      }
    }),
    ({ child, closed }) => Effect.sync(() => child.kill("SIGKILL")).pipe(Effect.zipRight(Effect.promise(() => closed)))
  )

const url = (port: number): string => `http://127.0.0.1:${port}`

/** What small_envs.py can serve. */
export interface Wanted {
  readonly env: "toy" | "guess" | "gallery" | "echo" | "korrel"
  /** Sessions at once; default 1. */
  readonly max_concurrent_envs?: number
  /** In seconds; it is looked at every five. */
  readonly session_timeout?: number
  /** In seconds; default 20, as uvicorn's. */
  readonly ws_ping_interval?: number
  /** In seconds; default 20, as uvicorn's. */
  readonly ws_ping_timeout?: number
}

/** Serves each of these on a port of its own, and gives their URLs. */
export const small = <const A extends ReadonlyArray<Wanted>>(
  ...wanted: A
): Effect.Effect<{ readonly [I in keyof A]: string }, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { line } = yield* run("small_envs.py", [JSON.stringify(wanted)])
    const { openenv, ports } = JSON.parse(yield* line)
    if (version !== undefined && openenv !== `openenv==${version}`) {
      return yield* Effect.dieMessage(`${openenv} is served in the place of ${version}`)
    }
    return ports.map(url)
  })

/** A process of openenv_server.py; on this port, where one is given. */
export const toy = (variables: Readonly<Record<string, string>>, port = 0) =>
  Effect.gen(function* () {
    const { child, closed, line } = yield* run("openenv_server.py", [], { PORT: `${port}`, ...variables })
    const ready: { readonly port: number } = JSON.parse(yield* line)
    return {
      port: ready.port,
      url: url(ready.port),
      /** Ends it; by SIGTERM it says goodbye. */
      end: (signal: "SIGKILL" | "SIGTERM") =>
        Effect.promise(() => {
          child.kill(signal)
          return closed
        })
    }
  })

/** What to play. */
export interface Script {
  readonly url: string
  readonly reset: Json.JsonObject
  readonly actions: ReadonlyArray<Json.JsonObject>
}

/** An answer, as OpenEnv's own client got it; with an error, which it raised, there is nothing else. */
export interface Answer {
  readonly observation?: Json.JsonObject
  readonly reward?: number | boolean | null
  readonly done?: boolean
  readonly error?: string
}

/** The answers to the reset and to each action, as OpenEnv's own Python client gets them. */
export const play = (scripts: ReadonlyArray<Script>): Effect.Effect<ReadonlyArray<ReadonlyArray<Answer>>> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { child, output } = yield* run("play.py", [])
      child.stdin.end(JSON.stringify(scripts))
      return JSON.parse(yield* output)
    })
  )

/** Whether OpenEnv's own client is served now. Blocks all else in this process until that is known. */
export const plays = (script: Script): boolean => {
  const { status, stdout } = spawnSync(python, [pathOf("play.py")], {
    encoding: "utf8",
    input: JSON.stringify([script]),
    env: { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: "1" }
  })
  return status === 0 && !stdout.includes('"error"')
}
