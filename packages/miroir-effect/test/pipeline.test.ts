/** An example: a pipeline, tested with stubs; README.md shows it. */
// #region stubs
import { assert, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as StubLeasing from "@miroir-effect/testing/StubLeasing"
import * as Effect from "effect/Effect"

/** The pipeline under test. */
const played = Effect.fn(function* (urls: ReadonlyArray<string>) {
  const leasing = yield* Leasing.Leasing
  const session = yield* leasing.lease({ urls, waitBusy: false })
  yield* session.reset("file-invoice")
  yield* session.step("move_document", { id: "d-02", folder: "Invoices/Paid" })
  return yield* session.finish
}, Effect.scoped)

it.effect("plays the task and gives the container back", () =>
  Effect.gen(function* () {
    const containers = yield* StubLeasing.make([
      { reset: [{}], step: [{ done: true }], record: [{ reward: 1, metadata: { success: true } }] }
    ])
    const { reward } = yield* played(containers.urls).pipe(Effect.provide(containers.layer))
    assert.strictEqual(reward, 1)
    assert.deepStrictEqual(yield* containers.held, [])
  })
)
// #endregion
