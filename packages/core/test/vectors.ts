/** Recorded behaviour of the Python client, which this client has to agree with. */
import { readFileSync } from "node:fs"
import type { Json, JsonObject } from "@miroir-effect/core/Json"
import type * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"

const read = (name: string) => JSON.parse(readFileSync(new URL(`./vectors/${name}.json`, import.meta.url), "utf8"))

interface Failure {
  readonly code: string
  readonly message?: string
}

export interface SessionVector {
  readonly name: string
  readonly replies: ReadonlyArray<ScriptedContainer.Reply>
  readonly calls: ReadonlyArray<{
    readonly call: readonly [string, ...ReadonlyArray<Json>]
    readonly result?: Json
    readonly error?: Failure
  }>
  readonly frames: ReadonlyArray<Json>
  readonly opened?: Json
}

export const sessions: ReadonlyArray<SessionVector> = read("sessions")

export interface LeaseVector {
  readonly name: string
  readonly containers: ReadonlyArray<ScriptedContainer.Script>
  readonly wait_busy: boolean
  readonly timeout_s: number
  readonly outcomes_seen: ReadonlyArray<JsonObject>
}

export const leases: ReadonlyArray<LeaseVector> = read("leases")
