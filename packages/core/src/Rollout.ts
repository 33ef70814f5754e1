/**
 * Rollouts: tasks and a policy turned into traces, on as many containers as there
 * are. A run is a stream of events; who stops listening stops the run.
 *
 * @since 0.1.0
 */

import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Stream from "effect/Stream"
import * as Catalog from "./Catalog.js"
import * as Coworker from "./Coworker.js"
import * as Json from "./Json.js"
import * as Leasing from "./Leasing.js"
import type { EpisodeError, RolloutError } from "./MiroirError.js"
import * as Policy from "./Policy.js"
import * as Prompt from "./Prompt.js"
import type { ChatMessage, Surface, Task, Tool } from "./Protocol.js"
import type * as Session from "./Session.js"
import * as Traces from "./Traces.js"

/**
 * What to roll out.
 *
 * @since 0.1.0
 * @category models
 */
export interface Plan {
  readonly tasks: ReadonlyArray<Task>
  /** How often each task; default 8. */
  readonly rollouts?: number | undefined
  /** The containers' base URLs. */
  readonly urls: ReadonlyArray<string>
  /** Workers, each with a container of its own; default as many as there are URLs. */
  readonly concurrency?: number | undefined
  /** The folder that the records are saved to. */
  readonly traces: string
  /** The tools that the policy is offered; default `api`. */
  readonly surface?: Surface | undefined
  /** The step budget of a task that names none; default 50. */
  readonly maxSteps?: number | undefined
  /** The env's limit on an episode, in whole seconds; default its own. */
  readonly maxSeconds?: number | undefined
  /** The day in the prompts, as `YYYY-MM-DD`; default today, in UTC. */
  readonly today?: string | undefined
}

/**
 * One rollout of the plan.
 *
 * @since 0.1.0
 * @category models
 */
export interface Place {
  readonly task: Task
  /** From 0. */
  readonly attempt: number
}

/**
 * Why the policy's part in an episode ended.
 *
 * @since 0.1.0
 * @category models
 */
export type Stop = "done" | "no_tool_call" | "budget"

/**
 * What happens in a run.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | { readonly _tag: "Leased"; readonly url: string }
  | (Place & { readonly _tag: "Started"; readonly url: string })
  | (Place & {
      readonly _tag: "Saved"
      readonly stop: Stop
      /** The whole conversation: the prompt, then assistant and tool messages in turn. */
      readonly messages: ReadonlyArray<ChatMessage>
      readonly finished: Session.Finished
      readonly file: string
    })
  /** The episode broke: it is no reward and no trace. Its container has been given up. */
  | (Place & { readonly _tag: "Failed"; readonly error: EpisodeError })

/**
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
     */
    readonly run: (plan: Plan) => Stream.Stream<Event, RolloutError>
  }
>() {}

/**
 * @since 0.1.0
 * @category constructors
 */
export const make = Effect.fnUntraced(function* (coworker: Option.Option<Context.Tag.Service<Coworker.Coworker>>) {
  const catalog = yield* Catalog.Catalog
  const leasing = yield* Leasing.Leasing
  const traces = yield* Traces.Traces
  const policy = yield* Policy.Policy

  /** Lets policy and env speak in turn until one of them ends the episode. */
  const converse = Effect.fnUntraced(function* (
    session: Session.Service,
    place: Place,
    plan: Plan,
    tools: ReadonlyArray<Tool>,
    today: string
  ) {
    const { task } = place
    const answers = Json.truthy(task.coworkers) ? coworker : Option.none()
    const budget = typeof task.max_steps === "number" ? task.max_steps : (plan.maxSteps ?? 50)
    yield* session.reset(task.id, { coworkers: Option.isSome(answers), maxSeconds: plan.maxSeconds ?? null })
    const messages: Array<ChatMessage> = [{ role: "user", content: Prompt.prompt(task, today) }]
    const ended = (stop: Stop) => ({ stop, messages })
    let steps = 0
    while (steps < budget) {
      const message = yield* policy.next({ ...place, messages: [...messages], tools })
      messages.push(message)
      const calls = message.tool_calls ?? []
      if (calls.length === 0) return ended("no_tool_call")
      for (const call of calls) {
        if (steps++ >= budget) return ended("budget")
        const { arguments: args, name } = call.function
        const stepped = yield* session.step(name, args === "" ? "{}" : args).pipe(
          Effect.map(Either.right),
          Effect.catchTag("InvalidArguments", (error) => Effect.succeed(Either.left(error)))
        )
        const observation = Either.isLeft(stepped)
          ? { error: { message: stepped.left.message } }
          : stepped.right.observation
        messages.push({ role: "tool", tool_call_id: call.id, content: Json.stringify(observation) })
        if (Either.isLeft(stepped)) continue
        if (Option.isSome(answers)) yield* answers.value.answerCoworkers(session)
        if (stepped.right.done) return ended("done")
      }
    }
    return ended("budget")
  })

  const roll = (session: Session.Service, place: Place, plan: Plan, tools: ReadonlyArray<Tool>, today: string) =>
    Effect.gen(function* () {
      const started = yield* Clock.currentTimeMillis
      const { messages, stop } = yield* converse(session, place, plan, tools, today)
      const finished = yield* session.finish
      const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
      const record = finished.record.with("rollout", {
        model: policy.model,
        attempt: place.attempt,
        started: new Date(started).toISOString(),
        seconds,
        stop,
        messages
      })
      return { stop, messages, finished: { ...finished, record } }
    })

  const run = (plan: Plan): Stream.Stream<Event, RolloutError> =>
    Stream.unwrapScoped(
      Effect.gen(function* () {
        const events = yield* Mailbox.make<Event, RolloutError>()
        const tasks = yield* Coworker.answerable(plan.tasks, Option.isSome(coworker))
        const url = yield* catalog.answering(plan.urls)
        const tools = yield* catalog.tools(url, plan.surface ?? "api")
        const today = plan.today ?? (yield* Prompt.today)
        const places = Array.from({ length: plan.rollouts ?? 8 }, (_, attempt) =>
          tasks.map((task): Place => ({ task, attempt }))
        ).flat()
        const taken = yield* Ref.make(0)
        const allTaken = yield* Deferred.make<void>()
        const next = Ref.getAndUpdate(taken, (count) => count + 1).pipe(
          Effect.tap((index) => Effect.when(Deferred.succeed(allTaken, undefined), () => index + 1 >= places.length)),
          Effect.map((index) => Option.fromNullable(places[index]))
        )
        const workLeft = Effect.map(Ref.get(taken), (count) => count < places.length)

        /**
         * A session, or none where it is waited for in vain: once no work is left, or while others of this run have
         * containers, who then do the work.
         */
        const leases = yield* Ref.make({ granted: 0, held: 0 })
        const lease = Effect.gen(function* () {
          const before = yield* Ref.get(leases)
          return yield* Effect.raceFirst(
            Effect.asSome(leasing.lease({ urls: plan.urls, waitBusy: true })),
            Effect.as(Deferred.await(allTaken), Option.none())
          ).pipe(
            Effect.catchTag("NoFreeContainer", (error) =>
              Effect.gen(function* () {
                const { granted } = yield* Ref.get(leases)
                if (before.held === 0 && granted === before.granted) return yield* error
                yield* Effect.logWarning(`${error.message} Going on with those that are leased.`)
                return Option.none()
              })
            )
          )
        })

        /** Plays one place after the other for as long as the session is sound. */
        const onOneLease = Effect.scoped(
          Effect.gen(function* () {
            const leased = yield* lease
            if (Option.isNone(leased)) return
            const session = leased.value
            yield* Effect.acquireRelease(
              Ref.update(leases, ({ granted, held }) => ({ granted: granted + 1, held: held + 1 })),
              () => Ref.update(leases, ({ granted, held }) => ({ granted, held: held - 1 }))
            )
            yield* events.offer({ _tag: "Leased", url: session.url })
            while (Option.isNone(yield* session.broken)) {
              const place = yield* next
              if (Option.isNone(place)) return
              yield* events.offer({ _tag: "Started", ...place.value, url: session.url })
              const rolled = yield* Effect.either(roll(session, place.value, plan, tools, today)).pipe(
                Effect.annotateLogs({ container: session.url, task_id: place.value.task.id })
              )
              if (rolled._tag === "Left") {
                yield* events.offer({ _tag: "Failed", ...place.value, error: rolled.left })
                return
              }
              const file = yield* traces.save(plan.traces, rolled.right.finished.record)
              yield* events.offer({ _tag: "Saved", ...place.value, ...rolled.right, file })
            }
          })
        )
        const worker = Effect.whenEffect(onOneLease, workLeft).pipe(Effect.repeat({ while: Option.isSome }))
        const concurrency = Math.max(1, plan.concurrency ?? plan.urls.length)
        const workers = Array.from({ length: Math.min(concurrency, places.length) })
        yield* Effect.forEach(workers, () => worker, { concurrency: "unbounded", discard: true }).pipe(
          Mailbox.into(events),
          Effect.forkScoped
        )
        return Mailbox.toStream(events)
      })
    )

  return { run }
})

type Needs = Catalog.Catalog | Leasing.Leasing | Traces.Traces | Policy.Policy

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
