/** `calibrate-many`: 1,000,000 short records of 100,000 tasks. */
import { compare } from "./calibrating.mjs"

export const rows = () =>
  compare({
    name: "calibrate-many",
    data: { records: 1e6, tasks: 100_000, long: false },
    pairs: 5,
    target: { speed: 1.5, megabytes: 400 }
  })
