/**
 * Compiles the trace scanner (packages/core/assembly, AssemblyScript) into a module of its bytes, which is kept with the
 * sources, so that neither a build nor a test has to compile it. `--check` only compares.
 */
import { readFile, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import asc from "assemblyscript/asc"

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const target = "packages/core/src/internal/traceScannerCode.ts"

const compiled = async () => {
  let code
  const { error, stderr } = await asc.main(
    [
      "packages/core/assembly/index.ts",
      ...["--outFile", "scanner.wasm", "-O3", "--runtime", "stub", "--enable", "simd"],
      // The memory comes from outside; see traceScanner.ts.
      ...["--importMemory", "--zeroFilledMemory", "--initialMemory", "4", "--maximumMemory", "65536"]
    ],
    {
      readFile: (name, folder) => readFile(`${folder}/${name}`, "utf8").catch(() => null),
      writeFile: (_name, contents) => {
        code = Buffer.from(contents)
      }
    }
  )
  if (error !== null) throw new Error(`The scanner does not compile.\n${stderr}`)
  return code
}

process.chdir(at("."))
const lines = (await compiled()).toString("base64").match(/.{1,110}/g)
const text = `/** Made of packages/core/assembly by \`npm run scanner\`: the scanner as a WebAssembly module, in base64. */

export const code =
${lines.map((line) => `  "${line}"`).join(" +\n")}
`
if (!process.argv.includes("--check")) {
  await writeFile(at(target), text)
} else if ((await readFile(at(target), "utf8").catch(() => "")) !== text) {
  console.error(`${target} is not what packages/core/assembly compiles to: run \`npm run scanner\`.`)
  process.exitCode = 1
}
