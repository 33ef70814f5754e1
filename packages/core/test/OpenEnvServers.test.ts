/**
 * The whole way on stock OpenEnv servers, from their health to a calibration, with the numbers that OpenEnv's own
 * Python client gets for the same actions. scripts/openenv-versions.mjs makes a table of these tests' titles.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Json from "@miroir-effect/core/Json"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as OpenEnv from "@miroir-effect/core/OpenEnv"
import * as Policy from "@miroir-effect/core/Policy"
import * as Protocol from "@miroir-effect/core/Protocol"
import * as Tasks from "@miroir-effect/core/Tasks"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { client, run } from "./openenv/client.js"
import { type Play, plays } from "./openenv/plays.js"
import * as Server from "./openenv/server.js"
import { temporaryFolder } from "./support/files.js"

interface Served {
  readonly url: string
  /** For each task and each of its rollouts, what Python got. */
  readonly answers: ReadonlyArray<ReadonlyArray<ReadonlyArray<Server.Answer>>>
}

class Servers extends Context.Tag("Servers")<Servers, ReadonlyMap<Play, Served>>() {}

const isTool = ({ tools }: Play): boolean => !tools.includes("act")

/** A rollout's calls as OpenEnv's own client sends them, with what finish adds. */
const actions = (play: Play, calls: ReadonlyArray<Policy.Call>): ReadonlyArray<Json.JsonObject> => {
  const ends = play.finish === undefined || calls.at(-1)?.tool === play.finish.tool
  return [...calls, ...(ends ? [] : [play.finish])].map(({ args, tool }) =>
    isTool(play) ? { type: "call_tool", tool_name: tool, arguments: args } : args
  )
}

const servers = Layer.scoped(
  Servers,
  Effect.gen(function* () {
    const urls = yield* Server.small(...plays.map(({ env }) => ({ env, max_concurrent_envs: 2 })))
    const scripts = plays.flatMap((play, index) =>
      play.tasks.flatMap(({ reset, rollouts }) =>
        rollouts.map((calls) => ({ url: urls[index] ?? "", reset, actions: actions(play, calls) }))
      )
    )
    const answers = [...(yield* Server.play(scripts))]
    return new Map(
      plays.map((play, index) => [
        play,
        {
          url: urls[index] ?? "",
          answers: play.tasks.map(({ rollouts }) => answers.splice(0, rollouts.length))
        }
      ])
    )
  })
)

const servedOf = (play: Play) =>
  Effect.map(Servers, (all): Served => {
    const served = all.get(play)
    return served ?? assert.fail(`${play.env} is not served`)
  })

/** The server's own tasks where it has some, else those of seeds. */
const tasksOf = (play: Play, url: string) =>
  isTool(play)
    ? Effect.flatMap(Catalog.Catalog, (catalog) => catalog.tasks(url))
    : Tasks.seeds(`0..${play.tasks.length - 1}`)

/** The observation's own error, or that of an action which was refused. */
const errorOf = ({ error, observation }: Server.Answer) => error ?? observation?.error

/** What a Python client's answers come to: the record's figures. */
const figures = ([, ...steps]: ReadonlyArray<Server.Answer>) => {
  const rewards = steps.flatMap(({ reward }) => (reward === undefined || reward === null ? [] : [Number(reward)]))
  const reward = rewards.length === 0 ? null : rewards.reduce((sum, next) => sum + next)
  const metadata = steps.at(-1)?.observation?.metadata
  const success = Json.isObject(metadata) ? metadata.success : undefined
  return {
    reward,
    success: success ?? (reward !== null && reward > 1 - 1e-9),
    truncated: steps.at(-1)?.done !== true,
    steps: steps.length,
    tool_errors: steps.filter((step) => Json.truthy(errorOf(step))).length
  }
}

/** Does what is written for each rollout of each task, call by call, then says nothing more. */
const policyOf = ({ tasks }: Play) =>
  Policy.scripted("as-written", ({ messages, rollout, task }) => {
    const calls = tasks.find(({ id }) => id === task.id)?.rollouts[rollout] ?? []
    const next = calls[messages.filter(({ role }) => role === "tool").length]
    return next === undefined ? [] : [next]
  })

describe.skipIf(Server.missing !== undefined)("OpenEnv's", () => {
  layer(Layer.merge(servers, client), { excludeTestServices: true, timeout: "1 minute" })((it) => {
    for (const play of plays) {
      const { env, tasks: played, tools } = play

      it.scoped(`${env} is found healthy, with its tasks and its tools`, () =>
        Effect.gen(function* () {
          const { url } = yield* servedOf(play)
          const catalog = yield* Catalog.Catalog
          const health = yield* catalog.health(url)
          assert.deepInclude(health, { health: "free", reason: Option.none() })
          assert.deepStrictEqual(
            (yield* tasksOf(play, url)).map(({ id }) => id),
            played.map(({ id }) => id)
          )
          assert.deepStrictEqual(
            (yield* catalog.tools(url)).map(({ name }) => name),
            tools
          )
        })
      )

      it.scoped(`${env} shows each step as it shows it to OpenEnv's own client`, () =>
        Effect.gen(function* () {
          const { answers, url } = yield* servedOf(play)
          const leasing = yield* Leasing.Leasing
          const session = yield* leasing.lease({ urls: [url], waitBusy: true })
          for (const [index, task] of (yield* tasksOf(play, url)).entries()) {
            for (const [rollout, calls] of (played[index]?.rollouts ?? []).entries()) {
              const [first, ...steps] = answers[index]?.[rollout] ?? []
              const observation = yield* session.reset(task.id, { taskHash: task.task_hash, extra: task.reset })
              assert.deepStrictEqual(observation, first?.observation)
              for (const [at, { args, tool }] of calls.entries()) {
                const { done, observation, reward } = yield* session.step(tool, args)
                const { error, ...answer } = steps[at] ?? {}
                const seen = { observation, reward, done }
                const expected = error === undefined ? answer : { observation, reward: null, done: false }
                assert.deepStrictEqual<unknown>(seen, expected)
                if (error !== undefined) assert.include(error, Protocol.observationError(observation) ?? "no error")
              }
            }
          }
        })
      )

      it.scoped(`${env} is rolled out and calibrated with the numbers that OpenEnv's own client gets`, () =>
        Effect.gen(function* () {
          const { answers, url } = yield* servedOf(play)
          const tasks = yield* tasksOf(play, url)
          const traces = `${yield* temporaryFolder}/traces`
          const rollouts = played[0]?.rollouts.length ?? 0
          const events = yield* run(policyOf(play), { tasks, rollouts, urls: [url], traces })
          const saved = events.flatMap((event) => (event._tag === "Saved" ? [event] : []))
          assert.lengthOf(saved, played.length * rollouts)
          for (const { finished, messages, rollout, task } of saved) {
            const answered = answers[tasks.indexOf(task)]?.[rollout] ?? []
            const { reward, steps, success, tool_errors, truncated } = figures(answered)
            const { diagnostics, metadata, reward: recorded, task_id } = finished.record.value
            assert.deepStrictEqual<unknown>(
              { task_id, reward: recorded, metadata, diagnostics },
              {
                task_id: task.id,
                reward,
                metadata: { task_hash: task.task_hash, success, truncated },
                diagnostics: { steps, tool_errors }
              }
            )
            const [prompt, ...said] = messages.filter(({ role }) => role !== "assistant").map(({ content }) => content)
            assert.include(`${prompt}`, play.prompt)
            const shown = answered.slice(1).map(({ observation }) => observation && OpenEnv.show(observation))
            for (const [at, content] of said.entries()) {
              if (shown[at] !== undefined) assert.deepStrictEqual<unknown>(content, shown[at])
            }
          }
          const calibration = yield* Calibration.Calibration
          const { tasks: calibrated } = yield* calibration.calibrate({ traces, model: "as-written" })
          for (const [index, task] of tasks.entries()) {
            const outcomes = (answers[index] ?? []).map(figures).filter(({ reward }) => reward !== null)
            const sum = outcomes.reduce((sum, { reward }) => sum + Number(reward), 0)
            const found = calibrated.get(task.id)
            assert.deepStrictEqual<unknown>(
              [found?.task_hash, found?.class, found?.rollouts, found?.void],
              [task.task_hash, played[index]?.class, outcomes.length, rollouts - outcomes.length]
            )
            const passed = outcomes.filter(({ success }) => success).length / outcomes.length
            assert.approximately(found?.["pass@1"] ?? Number.NaN, passed, 1e-12)
            assert.approximately(found?.reward_mean ?? Number.NaN, sum / outcomes.length, 1e-12)
          }
        })
      )
    }

    it.scoped("gallery shows a model its images and nested objects once, and whole", () =>
      Effect.gen(function* () {
        const gallery = plays.find(({ env }) => env === "gallery") ?? assert.fail("it is not served")
        const { answers } = yield* servedOf(gallery)
        const seen = (answers[1]?.[0] ?? []).map(({ observation }) => observation ?? {})
        const data = /"data":\s*"(iVBORw0KGgo[^"]*)"/.exec(Json.stringify(seen[1] ?? {}))?.[1]
        const image = { type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }
        assert.deepStrictEqual<unknown>(seen.map(OpenEnv.show), [
          "{}",
          [image],
          [{ type: "text", text: '{"size":{"height":1,"width":1}}' }, image],
          '{"pixels":[{"at":{"x":0,"y":0},"colour":[0,0,255]}],"frame":null,"names":["é","\u2028"]}',
          "noted"
        ])
      })
    )
  })
})
