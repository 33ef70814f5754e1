/** `calibrate`: 1 GB of 6 KB records. */
import { compare } from "./calibrating.mjs"

export const rows = () =>
  compare({
    name: "calibrate",
    data: { bytes: 1e9, tasks: 1000, long: true },
    pairs: 5,
    target: { speed: 2.5, megabytes: 160 }
  })
