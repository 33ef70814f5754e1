/** Removes all that was built. */
import { readdir, rm } from "node:fs/promises"

const packages = new URL("../packages/", import.meta.url)
for (const name of await readdir(packages)) {
  for (const built of ["dist", "build", "coverage"]) {
    await rm(new URL(`${name}/${built}`, packages), { recursive: true, force: true })
  }
}
