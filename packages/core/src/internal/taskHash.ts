/** The version of a task that tells none: what it is, hashed. */

import { createHash } from "node:crypto"
import canonicalize from "canonicalize"
import * as Either from "effect/Either"
import * as Json from "../Json.js"

/**
 * `sha256:` and the hex digest of a value's canonical JSON (RFC 8785). What that has no number for, an integer that no
 * double is and what is not finite, is taken as a string, as the RFC advises. The left side says in a few words why there is
 * no hash.
 */
export const taskHash = (value: Json.Json): Either.Either<string, string> =>
  Either.try({
    try: () =>
      `sha256:${createHash("sha256")
        .update(canonicalize(canonical(value)) ?? "")
        .digest("hex")}`,
    // Both go as deep as the engine's stack.
    catch: () => "it is nested too deeply"
  })

const canonical = (value: Json.Json): Json.Json => {
  if (typeof value === "bigint") return BigInt(Number(value)) === value ? Number(value) : String(value)
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value)
  if (Json.isArray(value)) return value.map(canonical)
  if (!Json.isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, canonical(member)]))
}
