/** Runs of rollouts with a scripted env and a policy that is a function: what several test files need of them. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Json from "@miroir-effect/core/Json"
import type * as Leasing from "@miroir-effect/core/Leasing"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Traces from "@miroir-effect/core/Traces"
import type * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as StubCatalog from "@miroir-effect/testing/StubCatalog"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { leasing } from "../layers.js"
import { temporaryFolder } from "./files.js"

export const task = { id: "t1", task_hash: "h1", instruction: "do it" }

export const tasks = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ ...task, id: `t${index + 1}`, task_hash: `h${index + 1}` }))

type Reply = ScriptedContainer.Reply

/** The record of the last episode that was begun, with a reward that `grade` tells. */
const recordOf = (taskId: string, reward: number | null): Reply => ({
  send: {
    type: "record",
    data: { task_id: taskId, reward, metadata: { task_hash: taskId.replace("t", "h"), success: reward === 1 } }
  }
})

/**
 * A container whose env ends an episode with `submit`; what a step gives otherwise is `observation`. `fault` comes before it.
 */
export const env = ({
  fault = () => undefined,
  grade = () => 1,
  observation = '{"ok":true}'
}: {
  readonly fault?: (frame: ScriptedContainer.Frame) => Reply | undefined
  readonly grade?: (taskId: string, steps: ReadonlyArray<Json.JsonObject>) => number | null
  readonly observation?: string
} = {}): ScriptedContainer.Script => {
  const taskIds = new Map<number, string>()
  const steps = new Map<number, Array<Json.JsonObject>>()
  return {
    capacity: 1,
    replies: (frame) => {
      const { session, text, type } = frame
      const data = Json.isObject(frame.data) ? frame.data : {}
      if (type === "reset") {
        taskIds.set(session, String(data.task_id))
        steps.set(session, [])
      }
      if (type === "step") steps.get(session)?.push(data)
      const broken = fault(frame)
      if (broken !== undefined) return broken
      const taskId = taskIds.get(session) ?? ""
      if (type === "record") return recordOf(taskId, grade(taskId, steps.get(session) ?? []))
      return { raw: `{"data":{"observation":${observation},"done":${text.includes('"submit"')}}}` }
    }
  }
}

export type Next = Policy.Policy["Type"]["next"]

/** A message with calls: of a tool, with the text of its arguments. */
export const message = (...calls: ReadonlyArray<readonly [tool: string, args: string]>): Policy.Turn => ({
  message: {
    role: "assistant",
    content: null,
    tool_calls: calls.map(([name, args], index) => ({
      id: `call_${index}`,
      type: "function",
      function: { name, arguments: args }
    }))
  }
})

/** Looks once, then submits. */
export const looks: Next = ({ messages }) => Effect.succeed(message([messages.length === 1 ? "look" : "submit", "{}"]))

/** A message after the other; then it submits. */
export const says =
  (...turns: ReadonlyArray<Policy.Turn>): Next =>
  ({ messages }) => {
    const spoken = messages.filter(({ role }) => role === "assistant").length
    return Effect.succeed(turns[spoken] ?? message(["submit", "{}"]))
  }

export type Plan = Partial<Omit<Rollout.Plan, "urls" | "urlFile">>

/** A run on containers, in a folder of its own unless the plan says which. */
export const running = (containers: ReadonlyArray<{ readonly url: string }>, plan: Plan = {}) =>
  runningOn({ urls: containers.map(({ url }) => url) }, plan)

export const runningOn = (containers: Leasing.Containers, plan: Plan = {}) =>
  Stream.unwrapScoped(
    Effect.gen(function* () {
      const { run } = yield* Rollout.Rollout
      const traces = plan.traces ?? (yield* Effect.orDie(temporaryFolder))
      return run({ tasks: [task], rollouts: 1, pause: Duration.millis(5), ...plan, traces, ...containers })
    })
  )

export const collected = <E, R>(events: Stream.Stream<Rollout.Event, E, R>) =>
  Effect.map(Stream.runCollect(events), Chunk.toReadonlyArray)

/** Leases over real sockets, real traces, and a policy of one function. */
export const services = (
  next: Next,
  {
    model = "m",
    settings = {},
    tools = ["look", "submit"]
  }: {
    readonly model?: string
    readonly settings?: Json.JsonObject
    readonly tools?: ReadonlyArray<string>
  } = {}
) =>
  Layer.mergeAll(
    leasing({ firstRound: Duration.seconds(1), roundPause: Duration.millis(10) }),
    StubCatalog.of({ tools: { api: tools.map((name) => ({ name })), mcp: tools.map((name) => ({ name })) } }),
    Traces.layer,
    Layer.succeed(Policy.Policy, { model, settings, next })
  ).pipe(Layer.provideMerge(NodeContext.layer))

export const withPolicy =
  (next: Next, options?: Parameters<typeof services>[1]) =>
  <A, E, R>(self: Effect.Effect<A, E, R>) =>
    Effect.provide(self, Rollout.layer.pipe(Layer.provideMerge(services(next, options))))

export const tags = (events: ReadonlyArray<Rollout.Event>) => events.map(({ _tag }) => _tag)

/** The events of some kinds. */
export const only = <Tag extends Rollout.Event["_tag"]>(events: ReadonlyArray<Rollout.Event>, ...kinds: Array<Tag>) =>
  events.filter((event): event is Extract<Rollout.Event, { _tag: Tag }> => kinds.some((kind) => kind === event._tag))

/** The lines of a folder's `failures.ndjson`. */
export const failures = (folder: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = `${folder}/failures.ndjson`
    const text = (yield* fs.exists(file)) ? yield* fs.readFileString(file) : ""
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => Either.getOrThrow(Json.parse(line)))
  })

/** `task/rollout` of each record in a folder, with its reward. */
export const recordsIn = (folder: string) =>
  Effect.gen(function* () {
    const traces = yield* Traces.Traces
    const records = yield* Stream.runCollect(traces.read(folder))
    return Array.from(records, ({ reward, value }) => {
      const { rollout } = Json.isObject(value.rollout) ? value.rollout : {}
      return `${value.task_id}/${rollout}: ${reward}`
    }).sort()
  })
