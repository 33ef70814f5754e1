/** What stubs need to see of a client's frame. */

import * as Json from "@miroir-effect/core/Json"
import * as Either from "effect/Either"

export interface Head {
  /** Empty where the frame is no JSON object with a type. */
  readonly type: string
  readonly data: Json.Json | undefined
}

export const headOf = (text: string): Head => {
  const value = Either.getOrUndefined(Json.parse(text))
  if (!Json.isObject(value)) return { type: "", data: undefined }
  return { type: typeof value.type === "string" ? value.type : "", data: value.data }
}

/** The data of the first `state` of a session. */
export const freshState: Json.Json = { episode_id: null, step_count: 0, done: false }
