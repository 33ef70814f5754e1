/**
 * What works on which version of openenv: runs the tests against its servers on each of the versions (the arguments, or
 * those below) in a virtual environment of its own, and prints a table, a row a test. With `--write`, also into
 * docs/openenv-versions.md. What fails is told below the table; exits with 1 if anything did.
 */
import { spawnSync } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const tests = ["OpenEnvServers", "OpenEnvLife"].map((name) => `packages/core/test/${name}.test.ts`)

const args = process.argv.slice(2)
const given = args.filter((arg) => arg !== "--write")
const versions = given.length > 0 ? given : ["0.4.2", "0.6.0", "0.8.0", "0.10.0"]

const node = (command, variables = {}) =>
  spawnSync(process.execPath, command, {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, ...variables },
    maxBuffer: 1e8
  })

/** The tests' titles with what came of them: undefined where it passed, else the reason. */
const outcomes = async (version, folder) => {
  const made = node(["scripts/openenv-venv.mjs", version])
  if (made.status !== 0) return { installed: false, why: made.stderr.trim(), tests: new Map() }
  const file = join(folder, `${version}.json`)
  const vitest = ["node_modules/vitest/vitest.mjs", "run", ...tests, "--reporter=json", `--outputFile=${file}`]
  const { stderr } = node(vitest, { OPENENV_VERSION: version })
  const report = JSON.parse(await readFile(file, "utf8").catch(() => "null"))
  if (report === null) return { installed: true, why: stderr.trim(), tests: new Map() }
  const results = report.testResults.flatMap(({ assertionResults }) => assertionResults)
  return {
    installed: true,
    tests: new Map(
      results.map(({ failureMessages, fullName, status }) => [
        fullName.trim(),
        status === "passed" ? undefined : (failureMessages[0] ?? status).split("\n")[0]
      ])
    )
  }
}

const folder = await mkdtemp(join(tmpdir(), "openenv-versions-"))
const seen = new Map()
try {
  for (const version of versions) {
    process.stderr.write(`openenv ${version} …\n`)
    seen.set(version, await outcomes(version, folder))
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}

const rows = [...new Set([...seen.values()].flatMap((outcome) => [...outcome.tests.keys()]))]
const row = (cells) => `| ${cells.join(" | ")} |`
const cell = (version, test) => {
  const { tests } = seen.get(version)
  return !tests.has(test) ? "-" : tests.get(test) === undefined ? "yes" : "no"
}
const table = [
  row(["", ...versions]),
  row(["---", ...versions.map(() => "---")]),
  row(["installs", ...versions.map((version) => (seen.get(version).installed ? "yes" : "no"))]),
  ...rows.map((test) => row([test, ...versions.map((version) => cell(version, test))]))
]
const failures = versions.flatMap((version) => {
  const { tests, why } = seen.get(version)
  const failed = [...tests].filter(([, reason]) => reason !== undefined)
  return [
    ...(why === undefined ? [] : [`openenv ${version}: ${why}`]),
    ...failed.map(([test, reason]) => `openenv ${version}: ${test}: ${reason}`)
  ]
})

console.log([...table, ...(failures.length > 0 ? ["", ...failures] : [])].join("\n"))
if (args.includes("--write")) {
  const text = [
    "# Versions of OpenEnv",
    "",
    "What works on which version of the package `openenv`, as `npm run openenv:versions -- --write` finds it: a row for each",
    "test of packages/core/test/OpenEnvServers.test.ts and OpenEnvLife.test.ts. Each version is installed with the other",
    "packages that packages/core/test/openenv/requirements-openenv-slim.txt names. What the environments toy, guess, gallery,",
    "echo and korrel are is told at the head of packages/core/test/openenv/small_envs.py.",
    "",
    ...table
  ]
  await writeFile(join(root, "docs/openenv-versions.md"), `${text.join("\n")}\n`)
}
process.exitCode = failures.length === 0 ? 0 : 1
