/**
 * All that is checked without running the code: builds, then goes through the checks one after the other, reports
 * each that fails, and exits with 1 if any did.
 */
import { spawn } from "node:child_process"
import { readdir, readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const packages = ["core", "testing", "env", "miroir-effect"]

/** Resolves to the output of a command that failed, to undefined where it succeeded. */
const run = (command, ...args) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    const output = []
    child.stdout.on("data", (chunk) => output.push(chunk))
    child.stderr.on("data", (chunk) => output.push(chunk))
    child.on("error", reject)
    child.on("close", (code) => resolve(code === 0 ? undefined : Buffer.concat(output).toString().trim()))
  })

/** A tool of node_modules/.bin. */
const tool = (name, ...args) => run("npm", "exec", "--no", "--", name, ...args)

/** One after the other; the failures' outputs, undefined where all succeeded. */
const each = async (items, check) => {
  const failures = []
  for (const item of items) {
    const failure = await check(item)
    if (failure !== undefined) failures.push(failure)
  }
  return failures.length === 0 ? undefined : failures.join("\n")
}

/** Written so that npm asks the registry that each machine is set up for. */
const lockfile = async () => {
  const lock = JSON.parse(await readFile(`${root}/package-lock.json`, "utf8"))
  const named = Object.entries(lock.packages).filter(([, { resolved }]) => resolved?.includes("://"))
  return named.length === 0
    ? undefined
    : named.map(([path, { resolved }]) => `${path} is bound to ${new URL(resolved).origin}`).join("\n")
}

/** What the linter has no rule for. */
const banned = [
  { pattern: /\bas (any|never)\b/, why: "a cast that silences the compiler" },
  { pattern: /\bas unknown as\b/, why: "a cast that silences the compiler" },
  { pattern: /@ts-(ignore|expect-error|nocheck)/, why: "it silences the compiler" },
  { pattern: /\bcatchAllCause\(/, why: "it hides bugs" },
  { pattern: /\b(runSync|runPromise|decodeSync|decodeUnknownSync)\(/, why: "effects are run by who uses the library" },
  { pattern: /\bnew Error\(/, why: "errors have a tag" }
]

const sources = async () => {
  const found = []
  for (const name of packages) {
    const folder = `packages/${name}/src`
    for (const file of await readdir(`${root}/${folder}`, { recursive: true })) {
      if (!file.endsWith(".ts")) continue
      const lines = (await readFile(`${root}/${folder}/${file}`, "utf8")).split("\n")
      for (const [index, line] of lines.entries()) {
        for (const { pattern, why } of banned) {
          const match = pattern.exec(line)
          if (match !== null) found.push(`${folder}/${file}:${index + 1}: ${match[0]}: ${why}`)
        }
      }
    }
  }
  return found.length === 0 ? undefined : found.join("\n")
}

/** A module's first comment says what it is for; the compiler drops it where it has no blank line behind it. */
const headers = async () => {
  const found = []
  for (const name of packages) {
    const folder = `packages/${name}/dist`
    const { exports } = JSON.parse(await readFile(`${root}/packages/${name}/package.json`, "utf8"))
    for (const file of await readdir(`${root}/${folder}`)) {
      const hidden = exports[`./${file.replace(/\.d\.ts$/, "")}`] === null
      if (!file.endsWith(".d.ts") || hidden) continue
      const text = await readFile(`${root}/${folder}/${file}`, "utf8")
      if (!text.startsWith("/**")) found.push(`${folder}/${file} does not begin with what its module is for`)
    }
  }
  return found.length === 0 ? undefined : found.join("\n")
}

const checks = {
  build: () => run("npm", "run", "--silent", "build"),
  types: () => tool("tsc", "-b"),
  // All packages as one project: one after the other takes five times as long.
  effects: () => tool("effect-language-service", "diagnostics", "--project", "tsconfig.effects.json", "--strict"),
  lint: () => tool("biome", "check", "--error-on-warnings"),
  unused: () => tool("knip", "--no-progress"),
  docs: () => run("node", "scripts/docs.mjs", "--check"),
  scanner: () => run("node", "scripts/scanner.mjs", "--check"),
  publishing: () =>
    each(
      packages.map((name) => `packages/${name}`),
      (folder) =>
        each(
          [
            ["publint", "run", folder, "--pack", "npm", "--strict"],
            ["attw", "--pack", folder, "--profile", "esm-only", "--no-definitely-typed", "--no-color", "--no-emoji"]
          ],
          (command) => tool(...command)
        )
    ),
  lockfile,
  sources,
  headers
}

let failed = 0
for (const [name, check] of Object.entries(checks)) {
  const started = performance.now()
  const failure = await check()
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  console.log(`${failure === undefined ? "ok    " : "FAILED"} ${name} (${seconds} s)`)
  if (failure !== undefined) {
    failed++
    console.log(failure.replace(/^/gm, "    "))
  }
}
console.log(failed === 0 ? "All checks passed." : `${failed} of ${Object.keys(checks).length} checks failed.`)
process.exitCode = failed === 0 ? 0 : 1
