/** The command line on stock OpenEnv servers, as processes of their own: from their health to a calibration. */
import { readdir, readFile, writeFile } from "node:fs/promises"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, layer } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Server from "../../core/test/openenv/server.js"
import { type Ended, run } from "./program.js"

class Servers extends Context.Tag("Servers")<Servers, { readonly guess: string; readonly tools: string }>() {}

/** An env of actions of its own, without tasks, and one of tools, with tasks. */
const servers = Layer.scoped(
  Servers,
  Effect.map(
    Server.small({ env: "guess", max_concurrent_envs: 2 }, { env: "toy", max_concurrent_envs: 2 }),
    ([guess, tools]) => ({ guess, tools })
  )
)

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const well = ({ code, stderr, stdout }: Ended): string => {
  assert.strictEqual(code, 0, stderr)
  return stdout
}

/** A message of a conversation, as far as it is looked at here. */
interface Message {
  readonly role: string
  readonly content: string
  readonly tool_calls?: ReadonlyArray<{ readonly function: { readonly arguments: string } }>
}

interface Asked {
  readonly messages: ReadonlyArray<Message>
  /** Which of a task's rollouts it is: the command is given the seed 0. */
  readonly seed: number
}

/**
 * A chat endpoint whose model answers with a call, or ends the episode by saying something. The first answer comes when so
 * many requests have come.
 */
const model = Effect.fnUntraced(function* (plays: (asked: Asked) => ChatEndpoint.ChatCall | undefined, atOnce = 1) {
  const come = yield* Deferred.make<void>()
  return yield* ChatEndpoint.make({
    answers: ({ index, text }) => {
      const call = plays(JSON.parse(text))
      const answer: ChatEndpoint.ChatAnswer = call === undefined ? { text: "I give up." } : { calls: [call] }
      return Effect.as(index + 1 < atOnce ? Deferred.await(come) : Deferred.succeed(come, undefined), answer)
    }
  })
})

const actionsOf = (messages: ReadonlyArray<Message>): ReadonlyArray<Json.JsonObject> =>
  messages.flatMap(({ tool_calls = [] }) => tool_calls.map((call) => JSON.parse(call.function.arguments)))

/** First it looks for the number by halves, then it makes the same guess again and again, then it guesses nothing. */
const guesses = ({ messages, seed }: Asked): ChatEndpoint.ChatCall | undefined => {
  if (seed > 0) return seed === 1 ? { tool: "act", args: { number: 99 } } : undefined
  const told = messages.filter(({ role }) => role === "tool").map(({ content }) => content)
  let [low, high] = [0, 99]
  for (const [index, { number }] of actionsOf(messages).entries()) {
    if (told[index]?.includes('"higher"')) low = Number(number) + 1
    else high = Number(number) - 1
  }
  return { tool: "act", args: { number: Math.floor((low + high) / 2) } }
}

/** Adds up, and submits the sum or, every other time, something else. */
const sums = ({ messages, seed }: Asked): ChatEndpoint.ChatCall => {
  const [, a = "", b = ""] = /What is (\d+) \+ (\d+)\?/.exec(messages[0]?.content ?? "") ?? []
  return messages.length === 1
    ? { tool: "add", args: { a: Number(a), b: Number(b) } }
    : { tool: "submit", args: { answer: Number(a) + Number(b) + (seed % 2) } }
}

interface Trace {
  readonly task_id: string
  readonly reward: number | null
  readonly metadata: Json.JsonObject
  readonly rollout: { readonly rollout: number; readonly messages: ReadonlyArray<Message> }
}

const tracesIn = (folder: string): Effect.Effect<ReadonlyArray<Trace>> =>
  Effect.promise(async () => {
    const names = (await readdir(folder)).filter((name) => name.endsWith(".jsonl"))
    const texts = await Promise.all(names.map((name) => readFile(`${folder}/${name}`, "utf8")))
    return texts.flatMap((text) =>
      text
        .trimEnd()
        .split("\n")
        .map((line): Trace => JSON.parse(line))
    )
  })

const calibrationIn = (file: string) => Effect.promise(async () => JSON.parse(await readFile(file, "utf8")))

describe.skipIf(Server.missing !== undefined)("on a stock OpenEnv server", () => {
  layer(Layer.merge(servers, NodeFileSystem.layer), { excludeTestServices: true, timeout: "1 minute" })((it) => {
    it.scoped("without tasks: the command line finds the one tool, and rolls out and calibrates seeds", () =>
      Effect.gen(function* () {
        const { guess } = yield* Servers
        const folder = yield* temporary
        const miroir = (...args: ReadonlyArray<string>) => run(folder, [...args, guess])
        const health = JSON.parse(well(yield* miroir("status", "--json")))
        assert.deepInclude(health[0], { url: guess, health: "free", reason: null })

        const tasks = yield* miroir("tasks")
        assert.deepInclude(tasks, { code: 1, stdout: "" })
        assert.match(tasks.stderr, /^error: .*no task API: .*--tasks FILE.*--seeds A\.\.B\.\n$/)

        const [act, ...others] = JSON.parse(well(yield* miroir("tools", "--json")))
        assert.deepStrictEqual(others, [])
        assert.strictEqual(act.name, "act")
        assert.deepStrictEqual(Object.keys(act.inputSchema.properties), ["number", "pause"])

        const endpoint = yield* model(guesses, 2)
        const rollout = ["rollout", "--model", "m", "--base-url", endpoint.url, "--seed", "0", "--concurrency", "2"]
        const seeds = ["--seeds", "0..2", "--rollouts", "3", "--calibrate", "c.json"]
        const said = well(yield* miroir(...rollout, ...seeds))
        assert.include(said, "6 of 9 rollouts graded, 2 of them successes; 3 void")
        assert.include(said, "void: 3 of 9 rollouts (33.33%)")

        // As many points as OpenEnv's own client gets for the same actions.
        const traces = yield* tracesIn(`${folder}/traces`)
        assert.lengthOf(traces, 9)
        const answers = yield* Server.play(
          traces.map(({ rollout, task_id }) => ({
            url: guess,
            reset: { seed: Number(task_id.slice("seed-".length)) },
            actions: actionsOf(rollout.messages)
          }))
        )
        for (const [index, { metadata, reward }] of traces.entries()) {
          const [, ...steps] = answers[index] ?? []
          const sum = steps.reduce((sum, step) => sum + Number(step.reward), 0)
          if (reward === null) assert.deepStrictEqual(steps, [])
          else assert.strictEqual(reward, sum)
          assert.strictEqual(metadata.truncated, steps.at(-1)?.done !== true)
        }

        // The numbers are 49, 17 and 7; the last one takes six guesses, of which there are five.
        const calibration = yield* calibrationIn(`${folder}/c.json`)
        for (const [id, kind, found, mean] of [
          ["seed-0", "learnable", 0.5, (1 - 0.5) / 2],
          ["seed-1", "learnable", 0.5, (0.7 - 0.5) / 2],
          ["seed-2", "out_of_reach", 0, -0.5]
        ] as const) {
          const { reward_mean, ...task } = calibration.tasks[id]
          assert.deepInclude(task, { class: kind, rollouts: 2, void: 1, "pass@1": found })
          assert.closeTo(reward_mean, mean, 1e-12)
        }

        const last = [...rollout, "--seeds", "1..1", "--rollouts", "1", "--reward", "last", "--traces", "last"]
        assert.include(well(yield* miroir(...last)), "1 of 1 rollout graded, 1 of them successes")
        assert.strictEqual((yield* tracesIn(`${folder}/last`))[0]?.reward, 1)
      })
    )

    it.scoped("without tasks: tasks of one's own tell the policy what to do, and the env what it begins with", () =>
      Effect.gen(function* () {
        const { guess } = yield* Servers
        const folder = yield* temporary
        const endpoint = yield* model(guesses)
        const own = { id: "first", prompt: "Find the number.", reset: { seed: 0 }, max_steps: 9 }
        yield* Effect.promise(() => writeFile(`${folder}/own.jsonl`, Json.stringify(own)))
        const args = ["--model", "m", "--base-url", endpoint.url, "--seed", "0", "--tasks", "own.jsonl"]
        well(yield* run(folder, ["rollout", ...args, "--rollouts", "1", guess]))
        const [trace] = yield* tracesIn(`${folder}/traces`)
        assert.deepInclude(trace, { task_id: "first", reward: 1 })
        assert.match(
          trace?.rollout.messages[0]?.content ?? "",
          /^Find the number\.\n\n\{"hint":"guess","guesses_left":5\}\n\nYou have 9 tool calls\.\n\nToday is [\d-]+ \(UTC\)\.$/
        )
      })
    )

    it.scoped("with tasks: the command line lists them and their splits, rolls them out, and goes on with it", () =>
      Effect.gen(function* () {
        const { tools } = yield* Servers
        const folder = yield* temporary
        const miroir = (...args: ReadonlyArray<string>) => run(folder, [...args, tools])
        assert.match(well(yield* miroir("tasks")), /^train-4 .*What is 4 \+ 4\?\n\n5 tasks in the split train/m)
        const nowhere = yield* miroir("tasks", "--split", "dev")
        assert.match(nowhere.stderr, /^error: .*It has no split "dev"\. Its splits are: train, test\.\n$/)

        const endpoint = yield* model(sums)
        const rollout = ["rollout", "--model", "m", "--base-url", endpoint.url, "--seed", "0", "--calibrate", "c.json"]
        const few = yield* miroir(...rollout, "--rollouts", "1")
        assert.deepInclude(few, { code: 1, stdout: "5 of 5 rollouts graded, 5 of them successes\nTraces in traces\n" })
        assert.match(few.stderr, /^error: .*roll out more\.$/m)
        const said = well(yield* miroir(...rollout, "--rollouts", "2", "--concurrency", "2"))
        assert.include(said, "10 of 10 rollouts graded, 5 of them successes")
        for (const { reward, rollout } of yield* tracesIn(`${folder}/traces`)) {
          assert.strictEqual(reward, rollout.rollout === 0 ? 1 : 0)
        }
        // Five times two messages, and five times two more.
        assert.lengthOf(yield* endpoint.requests, 20)
        const { tasks } = yield* calibrationIn(`${folder}/c.json`)
        assert.lengthOf(Object.keys(tasks), 5)
        for (const id of Object.keys(tasks)) {
          assert.deepInclude(tasks[id], { class: "learnable", rollouts: 2, void: 0, "pass@1": 0.5, "pass@k": 1 })
        }
      })
    )
  })
})
