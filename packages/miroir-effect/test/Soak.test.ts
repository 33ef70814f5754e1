/** `npm run soak` in short: the servers in another process, more faults, fewer episodes. The heap is judged by the long one. */
import { fileURLToPath } from "node:url"
import * as Command from "@effect/platform/Command"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"

const root = fileURLToPath(new URL("../../..", import.meta.url))

it.live(
  "many episodes under fault leave no lease, fiber or socket, and each is in the traces once",
  () =>
    Effect.gen(function* () {
      const options = { episodes: 400, containers: 8, faults: 0.03, minutes: 3, schedules: 0 }
      const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
      const soak = Command.make("node", "--expose-gc", "bench/soak.mjs", ...args).pipe(Command.workingDirectory(root))
      const printed = yield* Command.string(soak)
      assert.match(printed, /No lease, fiber or socket is left, .* exactly once\.\s*$/)
    }).pipe(Effect.provide(NodeContext.layer)),
  240_000
)
