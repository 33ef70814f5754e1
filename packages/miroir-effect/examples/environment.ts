/** An environment of one's own, served; README.md shows it. */
// #region environment
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as World from "@miroir-effect/env/World"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"

interface CellarTask extends World.Task {
  readonly setup: { readonly bottles: number; readonly leave: number }
}

const train: ReadonlyArray<CellarTask> = [
  { id: "leave-three", instruction: "Leave 3 bottles.", max_steps: 6, setup: { bottles: 5, leave: 3 } }
]

const take = World.tool({
  name: "take_bottles",
  description: "Takes bottles from the shelf, and says how many are left.",
  parameters: Schema.Struct({ count: Schema.Int.pipe(Schema.positive()) }),
  handle: ({ count }, shelf: Ref.Ref<number>) =>
    Effect.gen(function* () {
      const there = yield* Ref.get(shelf)
      if (count > there) return yield* new World.ToolError({ type: "too_many", message: `There are only ${there}.` })
      yield* Ref.set(shelf, there - count)
      return { left: there - count }
    })
})

export const cellar = World.make({
  name: "cellar",
  tasks: { train },
  tools: [take],
  reset: ({ setup }) => Ref.make(setup.bottles),
  grade: (shelf, { setup }) =>
    Effect.map(Ref.get(shelf), (left) => ({
      reward: left === setup.leave ? 1 : 0,
      success: left === setup.leave,
      harm: false
    }))
})

/** A container: `url` is its base URL. It is served until the scope closes. */
export const container = EnvServer.make(cellar)
// #endregion
