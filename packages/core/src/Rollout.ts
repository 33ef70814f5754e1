/**
 * Rollouts: tasks and a policy turned into traces, on as many containers as there
 * are. A run is a stream of events; who stops listening stops the run.
 *
 * @since 0.1.0
 */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as STM from "effect/STM"
import * as Stream from "effect/Stream"
import * as TRef from "effect/TRef"
import * as Catalog from "./Catalog.js"
import * as Coworker from "./Coworker.js"
import * as RolloutWork from "./internal/rolloutWork.js"
import * as RunFolder from "./internal/runFolder.js"
import * as RunSettings from "./internal/runSettings.js"
import { counted } from "./internal/text.js"
import type * as Json from "./Json.js"
import * as Leasing from "./Leasing.js"
import { type EpisodeError, type RolloutError, TaskChanged } from "./MiroirError.js"
import * as Policy from "./Policy.js"
import * as Prompt from "./Prompt.js"
import type { ChatMessage, Surface, Task, Tool } from "./Protocol.js"
import type * as Session from "./Session.js"
import * as Traces from "./Traces.js"
import * as UrlFile from "./UrlFile.js"

/**
 * What to roll out. A run that was cut short is gone on with by the same plan: what its folder holds is counted, and only
 * the rest is run.
 *
 * @since 0.1.0
 * @category models
 */
export type Plan = Leasing.Containers & {
  readonly tasks: ReadonlyArray<Task>
  /** How often each task; default 8. */
  readonly rollouts?: number | undefined
  /** Workers, each with a container of its own; default as many as there are containers when the run begins. */
  readonly concurrency?: number | undefined
  /** The run's folder, which is made on demand: records, `run.json`, `failures.ndjson` and, while a run goes on, `run.lock`. */
  readonly traces: string
  /** The tools that the policy is offered; default `api`. */
  readonly surface?: Surface | undefined
  /** The step budget of a task that names none; default 50. */
  readonly maxSteps?: number | undefined
  /**
   * The env's limit on an episode, in whole seconds; default its own. An attempt is given up 60 s after it, or after 3600 s
   * where there is none; waiting for a container does not count.
   */
  readonly maxSeconds?: number | undefined
  /** The day in the prompts of a new run, as `YYYY-MM-DD`; default today, in UTC. A run that is gone on with keeps its own. */
  readonly today?: string | undefined
  /** How long to try for a container; default what `Leasing` is set to. */
  readonly leaseTimeout?: Duration.DurationInput | undefined
  /**
   * How often a rollout is begun, where its episodes break, until it is given up; default 3. So all attempts together take no
   * longer than so many times what one may. One that is begun again comes behind the round that is under way.
   */
  readonly attempts?: number | undefined
  /**
   * Between two tries while a container refuses to be leased, or while a model that had answered is away (for two minutes,
   * then episodes break as they come): so long at first, then twice as long each time, a minute at most. Default 1 s.
   */
  readonly pause?: Duration.DurationInput | undefined
  /** Whether rollouts that are there, but void, are done again; their records go to the folder's `superseded/TIME/`. */
  readonly retryVoid?: boolean | undefined
  /** What else decides what a rollout is worth, as how an env's rewards are summed up: a run is gone on with the same only. */
  readonly settings?: Json.JsonObject | undefined
  /** Whether to begin anew: what the folder holds of a run goes to its `superseded/TIME/`. */
  readonly fresh?: boolean | undefined
}

/**
 * One rollout of the plan.
 *
 * @since 0.1.0
 * @category models
 */
export interface Place {
  readonly task: Task
  /** Which of the task's rollouts, from 0. */
  readonly rollout: number
}

/**
 * One attempt at a place.
 *
 * @since 0.1.0
 * @category models
 */
export interface Attempt extends Place {
  /** From 1. */
  readonly attempt: number
}

/**
 * Why the policy's part in an episode ended: the env said so, the policy called no tool, the step budget was spent, or the
 * policy's model had no room left or refused to go on.
 *
 * @since 0.1.0
 * @category models
 */
export type Stop = "done" | "no_tool_call" | "budget" | "context_full" | "refused"

/**
 * What happens in a run.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | {
      readonly _tag: "Began"
      /** Rollouts of the plan, those among them that the folder holds already, and of the latter those that are void or succeeded. */
      readonly total: number
      readonly kept: number
      readonly void: number
      readonly successes: number
      /** The day in the prompts. */
      readonly day: string
      /** As in `Preview`. */
      readonly tasks: Preview["tasks"]
      /** Where what the folder held went, with `fresh`. */
      readonly superseded?: string
    }
  | { readonly _tag: "Leased"; readonly url: string }
  | { readonly _tag: "Released"; readonly url: string }
  | (Attempt & { readonly _tag: "Started"; readonly url: string })
  /** A message of the policy came. */
  | (Attempt & { readonly _tag: "Spoke"; readonly usage?: Json.JsonObject; readonly seconds: number })
  | (Attempt & { readonly _tag: "Stepped"; readonly tool: string; readonly seconds: number; readonly done: boolean })
  /** The record's line is written. */
  | (Attempt & {
      readonly _tag: "Saved"
      readonly stop: Stop
      /** The whole conversation: the prompt, then assistant messages, as they came, and tool messages in turn. */
      readonly messages: ReadonlyArray<ChatMessage>
      readonly finished: Session.Finished
      readonly file: string
    })
  /** The episode broke: it is no reward and no trace. Its container has been given up, and it is done again. */
  | (Attempt & { readonly _tag: "Broke"; readonly error: EpisodeError })
  /** The last attempt broke too: the rollout is given up, and `failures.ndjson` has a line more. */
  | (Attempt & { readonly _tag: "Failed"; readonly error: EpisodeError })

/**
 * What a run of a plan would do.
 *
 * @since 0.1.0
 * @category models
 */
export interface Preview {
  /** As in `Began`. */
  readonly total: number
  readonly kept: number
  readonly void: number
  readonly successes: number
  readonly day: string
  readonly tasks: ReadonlyArray<{
    readonly task: Task
    /** How many of its rollouts the folder holds: graded, of these succeeded, and void. */
    readonly graded: number
    readonly successes: number
    readonly void: number
    /** How many of its rollouts would be run. */
    readonly left: number
  }>
  /** What the policy would be offered. */
  readonly tools: ReadonlyArray<Tool>
}

/**
 * Turns tasks and a policy into traces, on as many containers as there are.
 *
 * @since 0.1.0
 * @category services
 */
export class Rollout extends Context.Tag("@miroir-effect/core/Rollout")<
  Rollout,
  {
    /**
     * Rolls out a plan. Work goes round by round, each task's first rollout, then each task's second, so that a run
     * cut short is of use. Without a coworker model the tasks that have coworkers are left out, with a warning; a caller who
     * needs to know which asks `Coworker.answerable` first.
     *
     * Who stops listening stops the run: no lease is left, and the same plan goes on with it later. Within an episode no
     * worker waits for who listens; between two it does while very many events are unread.
     */
    readonly run: (plan: Plan) => Stream.Stream<Event, RolloutError>
    /** What a run would do, without doing it or changing anything. It fails as the run would. */
    readonly preview: (plan: Plan) => Effect.Effect<Preview, RolloutError>
  }
>() {}

/** After so many unread events no episode begins. */
const mostUnread = 1000

/**
 * The service, with the model that answers for coworkers, or none: then tasks that have coworkers are left out.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function* (
  coworker: Option.Option<Context.Tag.Service<Coworker.Coworker>>
): Effect.fn.Return<Context.Tag.Service<Rollout>, never, Needs> {
  const catalog = yield* Catalog.Catalog
  const leasing = yield* Leasing.Leasing
  const traces = yield* Traces.Traces
  const policy = yield* Policy.Policy
  const services = Context.make(Traces.Traces, traces).pipe(
    Context.add(FileSystem.FileSystem, yield* FileSystem.FileSystem),
    Context.add(Path.Path, yield* Path.Path)
  )

  /** What the plan comes to, with what the containers say to it. */
  const prepare = Effect.fnUntraced(function* (plan: Plan) {
    const { fresh = false, maxSeconds = null, maxSteps = 50, retryVoid = false, surface = "api" } = plan
    const urls = plan.urlFile === undefined ? plan.urls : yield* UrlFile.read(plan.urlFile)
    const tasks = yield* Effect.flatMap(Coworker.answerable(plan.tasks, Option.isSome(coworker)), (answerable) =>
      eachOnce(answerable)
    )
    const tools = yield* catalog.tools(yield* catalog.answering(urls), surface)
    const wanted: RunFolder.Wanted = {
      folder: plan.traces,
      settings: {
        model: policy.model,
        sampling: policy.settings,
        surface,
        maxSteps,
        maxSeconds,
        coworker: Option.match(coworker, { onNone: () => null, onSome: ({ model }) => model }),
        tools: RunSettings.digests(tools),
        prompt: RunSettings.promptFormat,
        settings: plan.settings ?? {}
      },
      tasks: new Map(tasks.map(({ id, task_hash }) => [id, task_hash])),
      rollouts: Math.max(0, Math.floor(plan.rollouts ?? 8)),
      day: plan.today ?? (yield* Prompt.today),
      retryVoid,
      fresh
    }
    return { urls, tasks, wanted, setting: { policy, coworker, tools, maxSteps, maxSeconds } }
  })

  const run = (plan: Plan): Stream.Stream<Event, RolloutError> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const { setting, tasks, urls, wanted } = yield* prepare(plan)
        const opened = yield* RunFolder.open(wanted)
        const ledger = ledgerOf(tasks, wanted, opened)
        const { superseded } = opened
        const { day, isLeft, kept, successes, total } = ledger
        const events = yield* Mailbox.make<Event, RolloutError>()
        const unread = yield* TRef.make(0)
        const tell = (event: Event): Effect.Effect<void> =>
          Effect.zipRight(
            TRef.update(unread, (count) => count + 1),
            events.offer(event)
          )
        yield* tell({
          _tag: "Began",
          total,
          kept,
          void: ledger.void,
          successes,
          day,
          tasks: ledger.tasks,
          ...(Option.isSome(superseded) ? { superseded: superseded.value } : {})
        })
        yield* RolloutWork.work({
          leasing,
          traces,
          setting: { ...setting, day },
          containers: plan.urlFile === undefined ? { urls: plan.urls } : { urlFile: plan.urlFile },
          folder: plan.traces,
          fail: opened.fail,
          places: {
            jobs: total - kept,
            round: (rollout) =>
              tasks.flatMap((task): ReadonlyArray<Place> => (isLeft(task, rollout) ? [{ task, rollout }] : []))
          },
          workers: Math.min(Math.max(1, Math.floor(plan.concurrency ?? new Set(urls).size)), total - kept),
          attempts: Math.max(1, plan.attempts ?? 3),
          leaseTimeout: plan.leaseTimeout,
          pause: plan.pause ?? Duration.seconds(1),
          tell,
          awaitReader: STM.flatMap(TRef.get(unread), (count) => STM.check(() => count < mostUnread))
        }).pipe(Mailbox.into(events), Effect.forkScoped)
        return Stream.mapChunksEffect(Mailbox.toStream(events), (chunk) =>
          Effect.as(
            TRef.update(unread, (count) => count - chunk.length),
            chunk
          )
        )
      }).pipe(Effect.provide(services))
    )

  const preview = (plan: Plan): Effect.Effect<Preview, RolloutError> =>
    Effect.gen(function* () {
      const { setting, tasks, wanted } = yield* prepare(plan)
      const { isLeft: _, ...ledger } = ledgerOf(tasks, wanted, yield* RunFolder.look(wanted))
      return { ...ledger, tools: setting.tools }
    }).pipe(Effect.provide(services))

  return { run, preview }
})

/** The tasks without those that are there twice, of which a warning tells. One that is there in two versions is no plan. */
const eachOnce = (tasks: ReadonlyArray<Task>): Effect.Effect<ReadonlyArray<Task>, TaskChanged> =>
  Effect.gen(function* () {
    const seen = new Map<string, Task>()
    for (const task of tasks) {
      const { task_hash } = seen.get(task.id) ?? task
      if (task_hash !== task.task_hash) {
        return yield* new TaskChanged({ taskId: task.id, hashes: [task_hash, task.task_hash] })
      }
      seen.set(task.id, task)
    }
    const more = tasks.length - seen.size
    if (more > 0) yield* Effect.logWarning(`Left out ${counted(more, "task")} that had been given before`)
    return [...seen.values()]
  })

/** What is kept of the plan, and what is left to be done. */
const ledgerOf = (
  tasks: ReadonlyArray<Task>,
  { retryVoid, rollouts }: RunFolder.Wanted,
  { day, held }: RunFolder.Found
): Omit<Preview, "tools"> & { readonly isLeft: (task: Task, rollout: number) => boolean } => {
  const heldOf = ({ id }: Task) => held.get(id) ?? RunFolder.heldNone
  const entries = tasks.map((task) => {
    const { graded, void: voids } = heldOf(task)
    const successes = [...graded.values()].filter((success) => success).length
    const kept = graded.size + (retryVoid ? 0 : voids.size)
    return { task, graded: graded.size, successes, void: voids.size, kept, left: rollouts - kept }
  })
  const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((one, other) => one + other, 0)
  return {
    total: tasks.length * rollouts,
    kept: sum(entries.map(({ kept }) => kept)),
    void: retryVoid ? 0 : sum(entries.map((entry) => entry.void)),
    successes: sum(entries.map(({ successes }) => successes)),
    day,
    tasks: entries.map(({ kept: _, ...entry }) => entry),
    isLeft: (task, rollout) => {
      const { graded, void: voids } = heldOf(task)
      return rollout < rollouts && !graded.has(rollout) && (retryVoid || !voids.has(rollout))
    }
  }
}

type Needs = Catalog.Catalog | Leasing.Leasing | Traces.Traces | Policy.Policy | FileSystem.FileSystem | Path.Path

/**
 * Rollouts without a coworker model: tasks that have coworkers are left out.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Rollout, never, Needs> = Layer.effect(Rollout, make(Option.none()))

/**
 * Rollouts in which a model answers for the coworkers, after each step.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWithCoworker: Layer.Layer<Rollout, never, Needs | Coworker.Coworker> = Layer.effect(
  Rollout,
  Effect.flatMap(Coworker.Coworker, (coworker) => make(Option.some(coworker)))
)
