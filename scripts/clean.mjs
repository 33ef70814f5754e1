/** Removes all that was built. */
import { readdir, rm } from "node:fs/promises"

await rm(new URL("../docs/api", import.meta.url), { recursive: true, force: true })

const packages = new URL("../packages/", import.meta.url)
for (const name of await readdir(packages)) {
  for (const built of ["dist", "build", "coverage"]) {
    await rm(new URL(`${name}/${built}`, packages), { recursive: true, force: true })
  }
}
