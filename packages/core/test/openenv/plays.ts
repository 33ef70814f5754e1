/** What is played on each of the small servers: its tasks, and each task's rollouts, good and bad. */
import type * as Calibration from "@miroir-effect/core/Calibration"
import type * as Json from "@miroir-effect/core/Json"
import type * as Policy from "@miroir-effect/core/Policy"
import type { Wanted } from "./server.js"

/** A task as it is played. */
interface Played {
  readonly id: string
  /** What a Python client has its reset say. */
  readonly reset: Json.JsonObject
  /** The calls of each rollout. */
  readonly rollouts: ReadonlyArray<ReadonlyArray<Policy.Call>>
  readonly class: Calibration.Class
}

export interface Play {
  readonly env: Wanted["env"]
  readonly tools: ReadonlyArray<string>
  /** What the first message to the policy says, among other things. */
  readonly prompt: string
  /** What finish does where the calls have not ended the episode. */
  readonly finish?: Policy.Call
  readonly tasks: ReadonlyArray<Played>
}

const call = (tool: string, args: Json.JsonObject = {}): Policy.Call => ({ tool, args })
const act = (args: Json.JsonObject): Policy.Call => call("act", args)

/** Python's `random.Random(seed).randrange(100)`. */
const secrets = [49, 17, 7]

export const plays: ReadonlyArray<Play> = [
  {
    env: "toy",
    tools: ["echo", "add", "submit", "slow", "block", "big", "fail"],
    prompt: "What is ",
    finish: call("submit"),
    tasks: [0, 1, 2, 3, 4].map((index) => ({
      id: `train-${index}`,
      reset: { task_id: `train-${index}`, split: "train", index },
      rollouts: [
        [call("add", { a: index, b: index }), call("submit", { answer: 2 * index })],
        [call("fail", { message: "boo" }), call("add", { a: "one" }), call("submit", { answer: -1 })],
        [call("echo", { message: "\u2028 é 😀" }), call("submit", { answer: 2 * index })],
        [call("echo", { message: "" })]
      ],
      class: "learnable"
    }))
  },
  {
    env: "guess",
    tools: ["act"],
    prompt: '"guesses_left":5',
    tasks: secrets.map((secret, seed) => ({
      id: `seed-${seed}`,
      reset: { seed },
      rollouts: [
        [act({ number: 99 }), act({ number: secret })],
        [act({ number: 13 }), act({ number: 100 }), act({ guess: 1 }), act({ number: secret })],
        [act({ number: secret - 1 }), act({ number: secret - 2 })]
      ],
      class: "learnable"
    }))
  },
  {
    env: "gallery",
    tools: ["look", "label", "palette", "answer"],
    prompt: " called?",
    tasks: ["Dawn", "Sea"].map((title, index) => ({
      id: `train-${index}`,
      reset: { split: "train", index },
      rollouts: [
        [call("look"), call("label"), call("palette", { names: true }), call("answer", { title })],
        [call("answer", { title })],
        [call("look")]
      ],
      class: "solved"
    }))
  },
  {
    env: "echo",
    tools: ["act"],
    prompt: "Echo environment ready!",
    tasks: ["seed-0"].map((id) => ({
      id,
      reset: { seed: 0 },
      rollouts: [[act({ message: "hi" })], [act({ message: "aaaaa" }), act({ message: "" })], [act({ message: "b" })]],
      class: "learnable"
    }))
  },
  {
    env: "korrel",
    tools: ["act"],
    prompt: "Do you have a red umbrella?",
    tasks: ["seed-0"].map((id) => ({
      id,
      reset: {},
      rollouts: [
        [
          act({ tool_calls: [{ id: "1", name: "search", arguments: '{"what":"umbrella"}' }] }),
          act({ content: "Yes." }),
          act({ content: "B4" })
        ],
        [act({ content: "No." }), act({ content: "None." })],
        [act({ tool_calls: [{ id: "2", name: "search", arguments: "{}" }] })]
      ],
      class: "learnable"
    }))
  }
]
