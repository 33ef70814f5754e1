import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import type { FinishError, StepError } from "@miroir-effect/core/MiroirError"
import type * as Session from "@miroir-effect/core/Session"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { leasing } from "./layers.js"
import { type SessionVector, sessions } from "./vectors.js"

type Call = SessionVector["calls"][number]["call"]

/** Makes a recorded call; the result in the form that the vectors have it. */
const make = (session: Session.Service, [name, ...args]: Call): Effect.Effect<unknown, StepError | FinishError> => {
  const [first, second] = args
  const text = typeof first === "string" ? first : ""
  switch (name) {
    case "reset": {
      const options = Json.isObject(second) ? second : {}
      return session.reset(text, {
        coworkers: options.coworkers === true,
        maxSeconds: typeof options.max_seconds === "number" ? options.max_seconds : null
      })
    }
    case "step":
      return session.step(text, Json.isObject(second) ? second : {})
    case "state":
      return session.state
    case "coworkers":
      return session.coworkers
    case "coworker_reply":
      return Effect.map(session.coworkerReply(text, String(second)), Option.getOrThrow)
    case "finish":
      return Effect.map(session.finish, ({ metadata, record, reward, success }) => ({
        metadata,
        record: record.value,
        reward,
        success
      }))
    default:
      return Effect.dieMessage(`the vectors have a call that the test does not know: ${name}`)
  }
}

/** Episode ids by their order of appearance, as the vectors have them. */
const withoutIds = (texts: ReadonlyArray<string>): unknown => {
  const ids: Array<string> = []
  return JSON.parse(`[${texts.join(",")}]`, (key, value) => {
    if (key !== "episode_id" || typeof value !== "string") return value
    assert.match(value, /^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    if (!ids.includes(value)) ids.push(value)
    return `<episode ${ids.indexOf(value) + 1}>`
  })
}

describe("sessions agree with the Python client", () => {
  for (const vector of sessions) {
    it.scopedLive(vector.name, () =>
      Effect.gen(function* () {
        const container = yield* ScriptedContainer.make({
          replies: vector.replies,
          ...(vector.opened === undefined ? {} : { opened: vector.opened })
        })
        const leases = yield* Leasing.Leasing
        const session = yield* leases.lease({ urls: [container.url], waitBusy: false })
        if (vector.opened !== undefined) assert.deepStrictEqual(session.opened, vector.opened)
        for (const { call, error, result } of vector.calls) {
          const answer = yield* Effect.match(make(session, call), {
            onSuccess: (result) => ({ result }),
            onFailure: (failure) => ({
              error:
                failure._tag === "EnvError" && error?.message !== undefined
                  ? { code: failure.code, message: failure.reason }
                  : { code: failure.code }
            })
          })
          assert.deepStrictEqual(answer, error === undefined ? { result } : { error })
        }
        const { frames } = yield* container.seen
        assert.deepStrictEqual(withoutIds(frames.map(({ text }) => text)), vector.frames)
      }).pipe(Effect.provide(leasing()))
    )
  }
})
