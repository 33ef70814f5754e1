/**
 * The virtual environment in which the tests serve stock OpenEnv: .venv/openenv-VERSION-HASH, the hash being that of all
 * that is installed in it. Prints the path of its Python; makes it first where it is not there, which takes half a
 * minute and asks the package index. Arguments: a version of openenv in the place of the one that the tests' requirements
 * name; `--look`, to make nothing.
 *
 * Exits with 3 where there is no Python 3.11 or newer that can make a virtual environment, with 1 where it is not there
 * or could not be made; the reason is on stderr.
 */
import { spawnSync } from "node:child_process"
import { createHash, randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))

const [version, look] = (() => {
  const args = process.argv.slice(2)
  return [args.find((arg) => !arg.startsWith("-")), args.includes("--look")]
})()

const fail = (code, message) => {
  process.stderr.write(`${message}\n`)
  process.exit(code)
}

/** Dies of a command that fails, with what it said. */
const run = (command, ...args) => {
  const { error, status, stderr, stdout } = spawnSync(command, args, { encoding: "utf8", timeout: 900_000 })
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}:\n${stdout}${stderr}`)
}

/** The first that is new enough and has what makes virtual environments. */
const base = () =>
  ["python3.11", "python3", "python3.12", "python3.13", "python3.14"].find((name) => {
    const check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    return spawnSync(name, ["-c", check], { stdio: "ignore", timeout: 60_000 }).status === 0
  })

const named = await readFile(at("packages/core/test/openenv/requirements-openenv-slim.txt"), "utf8")
const requirements = version === undefined ? named : named.replace(/^openenv==.*$/m, `openenv==${version}`)
const installed = /^openenv==(.*)$/m.exec(requirements)[1]
const hash = createHash("sha256").update(requirements).digest("hex").slice(0, 8)
const folder = at(`.venv/openenv-${installed}-${hash}`)
const python = `${folder}/bin/python`

/** Made beside its place and then put there whole, so that one that was cut short, or two at once, do no harm. */
const make = async () => {
  const found = base()
  if (found === undefined) fail(3, "There is no Python 3.11 or newer here that can make a virtual environment.")
  const making = at(`.venv/making-${randomUUID()}`)
  try {
    await mkdir(at(".venv"), { recursive: true })
    run(found, "-m", "venv", making)
    await writeFile(`${making}/requirements.txt`, requirements)
    const install = ["install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    run(`${making}/bin/python`, "-m", "pip", ...install, "-r", `${making}/requirements.txt`)
    // What is there and does not start is of a Python that has gone since.
    await rm(folder, { recursive: true, force: true })
    await rename(making, folder).catch((error) => {
      if (!existsSync(python)) throw error
    })
  } finally {
    await rm(making, { recursive: true, force: true })
  }
}

if (!existsSync(python)) {
  if (look) fail(1, `There is no virtual environment with openenv ${installed}: \`npm run openenv:venv\` makes it.`)
  await make().catch((error) =>
    fail(1, `Cannot make a virtual environment with openenv ${installed}. ${error.message}`)
  )
}
process.stdout.write(`${python}\n`)
