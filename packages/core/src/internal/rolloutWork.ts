/** The workers of a run: each leases a container, and plays one place after the other on it for as long as the session is sound. */

import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import type * as Coworker from "../Coworker.js"
import * as Json from "../Json.js"
import type * as Leasing from "../Leasing.js"
import {
  type CoworkerFailed,
  type EpisodeError,
  EpisodeTimeout,
  type LeaseError,
  type PolicyFailed,
  type PolicyRejected,
  TaskChanged,
  type TraceError
} from "../MiroirError.js"
import type * as Policy from "../Policy.js"
import * as Prompt from "../Prompt.js"
import type { Task } from "../Protocol.js"
import type { Attempt, Event, Place } from "../Rollout.js"
import type * as Session from "../Session.js"
import type * as Traces from "../Traces.js"
import * as ContainerLeases from "./containerLeases.js"
import * as Episode from "./episode.js"
import * as ModelGate from "./modelGate.js"
import type { Opened } from "./runFolder.js"
import { shown } from "./text.js"
import * as WorkList from "./workList.js"

/** What the workers need. */
export interface Run {
  readonly leasing: Context.Tag.Service<Leasing.Leasing>
  readonly traces: Context.Tag.Service<Traces.Traces>
  readonly setting: Episode.Setting
  readonly containers: Leasing.Containers
  readonly folder: string
  readonly fail: Opened["fail"]
  /** What is to be done, round by round. */
  readonly places: WorkList.Rounds<Place>
  readonly workers: number
  readonly attempts: number
  readonly leaseTimeout: Duration.DurationInput | undefined
  readonly pause: Duration.DurationInput
  readonly tell: (event: Event) => Effect.Effect<void>
  /** Waits while too much of what was told is unread. */
  readonly awaitReader: Effect.Effect<void>
}

/** What ends the work. */
export type WorkError = LeaseError | PolicyRejected | PolicyFailed | CoworkerFailed | TaskChanged | TraceError

/** An attempt that is to be made, and the containers that those before it broke on. */
interface Job extends Place {
  readonly attempt: number
  readonly containers: ReadonlyArray<string>
}

/** The longest pause between two tries, and how long a model that was there is waited for. */
const longestPause = Duration.minutes(1)
const patience = Duration.minutes(2)

/** What an attempt may take beyond what the env was told, and what where it was told nothing; in seconds. */
const grace = 60
const unlimited = 3600

/** Does all of the work. */
export const work = (run: Run): Effect.Effect<void, WorkError> =>
  Effect.gen(function* () {
    const { attempts, fail, folder, pause, places, tell, traces } = run
    const jobs = yield* WorkList.make({
      jobs: places.jobs,
      round: (index) => places.round(index).map((place): Job => ({ ...place, attempt: 1, containers: [] }))
    })
    const lease = yield* ContainerLeases.make({
      leasing: run.leasing,
      containers: run.containers,
      timeout: run.leaseTimeout,
      pause,
      longestPause,
      awaitNoNeed: jobs.awaitNone
    })
    const policyGate = yield* ModelGate.make({ pause, longestPause, patience })
    const coworkerGate = yield* ModelGate.make({ pause, longestPause, patience })
    const setting: Episode.Setting = {
      ...run.setting,
      policy: watchedPolicy(run.setting.policy, policyGate),
      coworker: Option.map(run.setting.coworker, (coworker) => watchedCoworker(coworker, coworkerGate))
    }
    const seconds = setting.maxSeconds === null ? unlimited : setting.maxSeconds + grace

    const play = (
      session: Session.Service,
      at: Attempt
    ): Effect.Effect<Episode.Played, EpisodeError | PolicyRejected> =>
      Episode.play(session, at, setting, {
        spoke: (usage, seconds) => tell({ _tag: "Spoke", ...at, ...(usage === undefined ? {} : { usage }), seconds }),
        stepped: (tool, seconds, done) => tell({ _tag: "Stepped", ...at, tool, seconds, done })
      }).pipe(
        Effect.timeoutFail({
          duration: Duration.seconds(seconds),
          onTimeout: () => new EpisodeTimeout({ url: session.url, seconds })
        }),
        Effect.annotateLogs({ container: session.url, task_id: at.task.id })
      )

    const hasWarned = yield* Ref.make(false)
    /** Warns once of a policy that was told nothing of what to do. */
    const warnOfSilence = (task: Task, [first]: Episode.Played["messages"]) =>
      isBare(task, first?.content, setting.day)
        ? Effect.unlessEffect(
            Effect.logWarning(
              `Task ${shown(task.id, 80)} has no instruction, and its first observation tells none: the policy was not told what to do`
            ),
            Ref.getAndSet(hasWarned, true)
          )
        : Effect.void

    const save = Effect.fnUntraced(function* (at: Attempt, played: Episode.Played, url: string) {
      const { task } = at
      const hash = Option.getOrElse(played.finished.record.taskHash, () => task.task_hash)
      if (hash !== task.task_hash) {
        return yield* new TaskChanged({ taskId: task.id, hashes: [task.task_hash, hash], url })
      }
      const file = yield* traces.save(folder, played.finished.record)
      yield* tell({ _tag: "Saved", ...at, ...played, file })
    })

    /** Gives the attempt that is to be made next, where this one broke and was not the last. */
    const broke = Effect.fnUntraced(function* (at: Attempt, error: EpisodeError, containers: ReadonlyArray<string>) {
      const { attempt, rollout, task } = at
      if (attempt < attempts) {
        yield* tell({ _tag: "Broke", ...at, error })
        return Option.some<Job>({ task, rollout, attempt: attempt + 1, containers })
      }
      yield* fail({
        task_id: task.id,
        task_hash: task.task_hash,
        rollout,
        attempts: attempt,
        containers,
        code: error.code,
        message: error.message,
        model: setting.policy.model,
        time: DateTime.formatIso(yield* DateTime.now)
      })
      yield* tell({ _tag: "Failed", ...at, error })
      // With a model that never answers all the others would be given up too, one after the other.
      if (error._tag === "PolicyFailed" && (yield* policyGate.isHopeless)) return yield* error
      return Option.none<Job>()
    })

    /** Makes an attempt, and gives what is to be done again and whether the session goes with it. */
    const attempt = (session: Session.Service, job: Job) =>
      Effect.gen(function* () {
        const { attempt, containers, rollout, task } = job
        // It may have broken while a model was waited for: that costs no attempt.
        if (Option.isSome(yield* session.broken)) return { isBroken: true, again: Option.some(job) }
        const at: Attempt = { task, rollout, attempt }
        yield* tell({ _tag: "Started", ...at, url: session.url })
        const played = yield* Effect.either(play(session, at))
        if (played._tag === "Right") {
          yield* Effect.uninterruptible(save(at, played.right, session.url))
          yield* warnOfSilence(task, played.right.messages)
          return { isBroken: false, again: Option.none<Job>() }
        }
        if (played.left._tag === "PolicyRejected") return yield* played.left
        if (played.left._tag === "CoworkerFailed" && played.left.advice !== undefined) return yield* played.left
        const again = yield* Effect.uninterruptible(broke(at, played.left, [...containers, session.url]))
        return { isBroken: true, again }
      }).pipe(policyGate.through, Json.truthy(job.task.coworkers) ? coworkerGate.through : identity)

    const onOneLease = Effect.gen(function* () {
      let url: string | undefined
      yield* Effect.addFinalizer(() => (url === undefined ? Effect.void : tell({ _tag: "Released", url })))
      const leased = yield* lease
      if (Option.isNone(leased)) return
      const session = leased.value
      url = session.url
      yield* tell({ _tag: "Leased", url })
      let goesOn = true
      let hasPlayed = false
      while (goesOn) {
        yield* run.awaitReader
        // One that closes what it has just granted would be leased again and again without a pause.
        if (Option.isSome(yield* session.broken)) {
          if (!hasPlayed) yield* Effect.sleep(pause)
          return
        }
        hasPlayed = true
        let isSound = true
        const found = yield* jobs.next((job) =>
          Effect.map(attempt(session, job), ({ again, isBroken }) => {
            isSound = !isBroken
            return again
          })
        )
        goesOn = found && isSound
      }
    }).pipe(Effect.scoped)

    const worker = Effect.whenEffect(onOneLease, jobs.awaitWork).pipe(Effect.repeat({ while: Option.isSome }))
    yield* allOf(worker, run.workers)
  })

/**
 * Runs an effect several times at once, and interrupts the others where one fails. Not by `Effect.forEach`: there a timeout or
 * a race in an effect would not hear of that interruption, since its fibers would be children of another fiber.
 */
const allOf = <A, E>(effect: Effect.Effect<A, E>, count: number): Effect.Effect<void, E> =>
  Effect.gen(function* () {
    const over = yield* Deferred.make<void, E>()
    if (count === 0) return
    let left = count
    const one = Effect.onExit(effect, (exit) => {
      if (Exit.isFailure(exit)) return Deferred.failCause(over, exit.cause)
      return --left === 0 ? Deferred.succeed(over, undefined) : Effect.void
    })
    yield* Effect.acquireUseRelease(
      Effect.replicateEffect(Effect.fork(Effect.interruptible(one)), count),
      () => Deferred.await(over),
      Fiber.interruptAll
    )
  })

/** Whether a prompt has nothing but what every prompt has. */
const isBare = (task: Task, prompt: Json.Json | undefined, day: string): boolean =>
  [true, false].some((hasSubmit) => prompt === Prompt.prompt({ ...task, instruction: "" }, day, hasSubmit))

/** Tells the gate whether the model is there. That it has no room left or refuses is an answer. */
const watchedPolicy = (
  policy: Context.Tag.Service<Policy.Policy>,
  gate: ModelGate.ModelGate
): Context.Tag.Service<Policy.Policy> => ({
  ...policy,
  next: (moment) =>
    Effect.tapBoth(policy.next(moment), {
      onSuccess: () => gate.answered,
      onFailure: ({ _tag }) => (_tag === "PolicyFailed" ? gate.silent : gate.answered)
    })
})

/** The same for the coworkers' model, which is asked only where a coworker is to speak. */
const watchedCoworker = (
  coworker: Context.Tag.Service<Coworker.Coworker>,
  gate: ModelGate.ModelGate
): Context.Tag.Service<Coworker.Coworker> => ({
  ...coworker,
  answerCoworkers: (session) =>
    Effect.tapBoth(coworker.answerCoworkers(session), {
      onSuccess: (turns) => Effect.when(gate.answered, () => turns > 0),
      onFailure: (error) => Effect.when(gate.silent, () => error._tag === "CoworkerFailed" && isAway.has(error.reason))
    })
})

/** With the other reasons the model did answer, if nothing of use. */
const isAway: ReadonlySet<string> = new Set(["transport", "timeout", "status"])
