/** One episode: a task is reset, the policy and its tools have their turns, and the env grades what came of it. */

import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Coworker from "../Coworker.js"
import { EpisodeRecord } from "../EpisodeRecord.js"
import * as Json from "../Json.js"
import { type EpisodeError, type PolicyRejected, UnexpectedReply } from "../MiroirError.js"
import type * as Policy from "../Policy.js"
import type { ChatMessage, Task, Tool } from "../Protocol.js"
import type { Attempt, Stop } from "../Rollout.js"
import type * as Session from "../Session.js"
import { Conversation, isEmpty } from "./conversation.js"
import { steadyMillis } from "./steadyTime.js"
import { listed } from "./text.js"
import type { Call } from "./toolCalls.js"

/** What is the same for all episodes of a run. */
export interface Setting {
  readonly policy: Context.Tag.Service<Policy.Policy>
  /** Who answers for coworkers; with none they are not asked. */
  readonly coworker: Option.Option<Context.Tag.Service<Coworker.Coworker>>
  readonly tools: ReadonlyArray<Tool>
  readonly maxSteps: number
  readonly maxSeconds: number | null
  readonly day: string
}

/** Hears what happens. */
export interface Listener {
  readonly spoke: (usage: Json.JsonObject | undefined, seconds: number) => Effect.Effect<void>
  readonly stepped: (tool: string, seconds: number, done: boolean) => Effect.Effect<void>
}

export interface Played {
  readonly stop: Stop
  readonly messages: ReadonlyArray<ChatMessage>
  /** Its record has the conversation too. */
  readonly finished: Session.Finished
}

export const play = (
  session: Session.Service,
  { attempt, rollout, task }: Attempt,
  { coworker, day, maxSeconds, maxSteps, policy, tools }: Setting,
  listener: Listener
): Effect.Effect<Played, EpisodeError | PolicyRejected> =>
  Effect.gen(function* () {
    const started = yield* Clock.currentTimeMillis
    const began = yield* steadyMillis
    const answering = Option.filter(coworker, () => Json.truthy(task.coworkers))
    const known = new Set([...tools.map(({ name }) => name), ...(session.hasSubmit ? ["submit"] : [])])
    const budget = stepBudget(task) ?? maxSteps
    const steps: Array<number> = []

    const observation = yield* session.reset(task.id, {
      coworkers: Option.isSome(answering),
      maxSeconds,
      taskHash: task.task_hash,
      ...(task.reset === undefined ? {} : { extra: task.reset })
    })
    const conversation = new Conversation(session.prompt({ task, observation, tools, day }))

    const next = Effect.gen(function* () {
      const [seconds, turn] = yield* timed(
        policy.next({ task, rollout, attempt, messages: conversation.toPolicy, tools })
      )
      yield* listener.spoke(turn.usage, seconds)
      return turn
    })

    /** Does one call, whose answer goes into the conversation; gives whether that ended the episode. */
    const step = Effect.fnUntraced(function* (tool: string, args: string, id: string) {
      const [seconds, stepped] = yield* timed(session.step(tool, args))
      steps.push(seconds)
      conversation.answer(id, session.show(stepped.observation))
      yield* listener.stepped(tool, seconds, stepped.done)
      if (Option.isSome(answering)) yield* answering.value.answerCoworkers(session)
      return stepped.done
    })

    const converse = Effect.gen(function* () {
      let calls = 0
      let isOver = yield* session.isOver
      while (!isOver && calls < budget) {
        let turn = yield* next
        if (isEmpty(turn)) {
          conversation.drop(turn)
          turn = yield* next
        }
        const called = conversation.take(turn)
        if (called.length === 0) return "no_tool_call"
        for (const call of called) {
          const refusal = refusalOf(call, { isOver, isSpent: calls >= budget, known })
          calls++
          if (refusal !== undefined) conversation.answer(call.id, Json.stringify({ error: { message: refusal } }))
          else isOver = yield* step(call.name, call.arguments, call.id)
        }
      }
      return isOver ? "done" : "budget"
    })

    const stop = yield* converse.pipe(
      Effect.catchTags({
        ContextFull: () => Effect.succeed<Stop>("context_full"),
        PolicyRefused: () => Effect.succeed<Stop>("refused")
      })
    )
    const finished = yield* session.finish
    if (Option.exists(finished.record.taskId, (id) => id !== task.id)) {
      const reason = `it is of another task, "${Option.getOrElse(finished.record.taskId, () => "")}"`
      return yield* new UnexpectedReply({ url: session.url, request: "record", reason })
    }
    const named = nameTask(finished.record, task)
    const record = named.with("rollout", {
      model: policy.model,
      settings: policy.settings,
      rollout,
      attempt,
      started: new Date(started).toISOString(),
      seconds: ((yield* steadyMillis) - began) / 1000,
      stop,
      ...conversation.record,
      steps
    })
    return { stop, messages: conversation.messages, finished: { ...finished, metadata: record.metadata, record } }
  })

/** Why a call is not made, as the model is told; undefined where it is. */
const refusalOf = (
  { name, problem }: Call,
  {
    isOver,
    isSpent,
    known
  }: { readonly isOver: boolean; readonly isSpent: boolean; readonly known: ReadonlySet<string> }
): string | undefined => {
  if (isOver) return "The episode is over, so that this call was not made."
  if (isSpent) return "All tool calls are used up, so that this one was not made."
  return known.has(name)
    ? problem
    : `There is no tool ${JSON.stringify(name)}. The tools are: ${listed([...known], 50)}.`
}

/** The record with the task's id and version where the env tells none: without them nobody could count it. */
const nameTask = (record: EpisodeRecord, { id, task_hash }: Task): EpisodeRecord =>
  Option.isSome(record.taskId) && Option.isSome(record.taskHash)
    ? record
    : EpisodeRecord.of({
        ...record.value,
        task_id: Option.getOrElse(record.taskId, () => id),
        reward: record.reward,
        metadata: { ...record.metadata, task_hash: Option.getOrElse(record.taskHash, () => task_hash) }
      })

const stepBudget = ({ max_steps: steps }: Task): number | undefined =>
  typeof steps === "number" || typeof steps === "bigint" ? Number(steps) : undefined

/** With how many seconds it took. */
const timed = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<readonly [number, A], E, R> =>
  Effect.map(Effect.timed(self), ([taken, value]) => [Math.round(Duration.toMillis(taken)) / 1000, value])
