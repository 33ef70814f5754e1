/**
 * Every fault in every phase of an episode: what comes of it, when, and that nothing is left behind. `npm run faults`
 * prints the table; FAULT_RUNS sets how often each is tried.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Coworker from "@miroir-effect/core/Coworker"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import type * as Session from "@miroir-effect/core/Session"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as FaultProxy from "@miroir-effect/testing/FaultProxy"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { leasing } from "./layers.js"
import { env, leavingNothing } from "./support/faultyEnv.js"

const runs = Number(process.env.FAULT_RUNS ?? 1)

/** Where a test puts what `npm run faults` prints. */
declare module "vitest" {
  interface TaskMeta {
    faults?: ReadonlyArray<{
      readonly phase: string
      readonly fault: string
      readonly outcome: string
      readonly seconds: number
    }>
  }
}

/** The deadline of what is silent; that of all else is far away. */
const short = Duration.millis(300)
const far = Duration.seconds(60)
/** What is not silent is told long before that, on however busy a machine. */
const prompt = 20

const isSilent = (fault: FaultProxy.Fault): boolean => fault === "hang" || fault === "half-open" || fault === "endless"

/** A failure in a few words. */
const named = (error: unknown): string => {
  if (typeof error !== "object" || error === null || !("_tag" in error)) return String(error)
  const more: Array<unknown> = []
  if (error._tag === "NoFreeContainer" && "leased" in error) more.push(error.leased === 1 ? "leased" : "unhealthy")
  for (const key of ["status", "closeCode", "reason"] as const) {
    if (key === "reason" && error._tag !== "CoworkerFailed") continue
    if (key in error) more.push(Reflect.get(error, key))
  }
  if ("message" in error && String(error.message).includes("pings in a row")) more.push("pings")
  return [error._tag, ...more.filter((one) => one !== undefined)].join(" ")
}

const outcomeOf = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<string, never, R> =>
  Effect.match(self, { onFailure: named, onSuccess: () => "ok" })

/** What is done up to a phase and in it, at a URL: gives what came of it, and then of the next question. */
type Play = (url: string, fault: FaultProxy.Fault) => Effect.Effect<string>

const services = (fault: FaultProxy.Fault) => {
  const deadline = isSilent(fault) ? short : far
  const sockets = {
    handshakeTimeout: deadline,
    closeTimeout: short,
    pingInterval: fault === "half-open" ? Duration.times(short, 1 / 4) : 0
  }
  return Layer.mergeAll(
    leasing({ healthTimeout: deadline, openingTimeout: deadline, firstRound: far }, sockets),
    Layer.provideMerge(Catalog.layer({ timeout: deadline, dialect: "miroir" }), NodeHttp.layer)
  )
}

const leased = (url: string) =>
  Effect.flatMap(Leasing.Leasing, ({ lease }) => lease({ urls: [url], waitBusy: false, timeout: 0 }))

/** Asks what may be asked of any session. */
const andThen = (first: string, session: Session.Service): Effect.Effect<string> =>
  Effect.map(outcomeOf(session.state), (next) => (next === first ? first : `${first}, then ${next}`))

const lease: Play = (url, fault) =>
  Effect.matchEffect(leased(url), {
    onFailure: (error) => Effect.succeed(named(error)),
    onSuccess: (session) => andThen("ok", session)
  }).pipe(Effect.scoped, Effect.provide(services(fault)))

const inSession =
  (
    before: (session: Session.Service) => Effect.Effect<unknown, unknown>,
    call: (session: Session.Service) => Effect.Effect<unknown, unknown>
  ): Play =>
  (url, fault) =>
    Effect.gen(function* () {
      const session = yield* leased(url)
      yield* before(session)
      const called = call(session)
      return yield* andThen(yield* outcomeOf(fault === "hang" ? Effect.timeout(called, short) : called), session)
    }).pipe(
      Effect.scoped,
      Effect.provide(services(fault)),
      Effect.catchAll((error) => Effect.succeed(`too early: ${named(error)}`))
    )

const afterReset = (call: (session: Session.Service) => Effect.Effect<unknown, unknown>): Play =>
  inSession((session) => session.reset("t1"), call)

const call: Play = (url, fault) =>
  Effect.flatMap(Catalog.Catalog, ({ tools }) => outcomeOf(tools(url))).pipe(Effect.provide(services(fault)))

const completion: Play = (url, fault) =>
  Effect.flatMap(
    Coworker.make({ baseUrl: url, model: "m", retry: Schedule.stop, timeout: isSilent(fault) ? short : far }),
    ({ complete }) => complete([{ role: "user", content: "?" }])
  ).pipe(outcomeOf, Effect.provide(NodeHttp.layer))

// What has to come of it

type Expected = (fault: FaultProxy.Fault) => string

const ofHealth: Expected = (fault) => (fault === "drips" ? "ok" : "NoFreeContainer unhealthy")

const ofCall: Expected = (fault) => {
  if (typeof fault === "object") return "status" in fault ? `HttpStatusError ${fault.status}` : "none"
  if (fault === "drips" || fault === "huge") return "ok"
  return isSilent(fault) || isCut(fault) ? "ConnectionFailed" : "UnexpectedReply"
}

const ofCompletion: Expected = (fault) => {
  if (typeof fault === "object") return "status" in fault ? `CoworkerFailed ${fault.status} status` : "none"
  if (fault === "drips" || fault === "huge") return "ok"
  if (isSilent(fault)) return "CoworkerFailed timeout"
  const isUnfinished = isCut(fault) || fault === "empty" || fault === "truncated"
  return isUnfinished ? "CoworkerFailed transport" : "CoworkerFailed malformed"
}

const ofHandshake: Expected = (fault) => {
  if (fault === "html") return "ConnectionFailed 200"
  if (fault === "endless") return "ConnectionFailed 401"
  if (typeof fault === "string") return "NoFreeContainer unhealthy"
  if ("close" in fault) return "NoFreeContainer leased"
  const isPassing = fault.status >= 500 || fault.status === 408 || fault.status === 429
  return isPassing ? "NoFreeContainer unhealthy" : `ConnectionFailed ${fault.status}`
}

const ofOpening: Expected = (fault) => {
  if (typeof fault === "object" || isSilent(fault) || isCut(fault)) return "NoFreeContainer leased"
  if (fault === "garbage" || fault === "truncated") return "NoFreeContainer unhealthy"
  // Any other reply makes the container ours.
  return fault === "lacking" ? "ok" : ofFrame(fault)
}

const ofFrame: Expected = (fault) => {
  if (typeof fault === "object") return "close" in fault ? `ConnectionLost ${fault.close}` : "none"
  if (isCut(fault)) return "ConnectionLost 1006"
  switch (fault) {
    case "hang":
      return "TimeoutException, then ConnectionLost"
    case "half-open":
      return "ConnectionLost pings"
    case "twice":
    case "unasked":
      return "ok, then UnexpectedReply"
    case "nested":
    case "huge":
    case "drips":
      return "ok"
    default:
      return "UnexpectedReply"
  }
}

const isCut = (fault: FaultProxy.Fault): boolean => fault === "refuse" || fault === "cut" || fault === "torn"

const nothing = () => Effect.void
const phases: ReadonlyArray<{
  readonly name: string
  readonly phase: FaultProxy.Phase
  readonly play: Play
  readonly expected: Expected
}> = [
  { name: "health", phase: "health", play: lease, expected: ofHealth },
  { name: "catalog call", phase: "call", play: call, expected: ofCall },
  { name: "completion", phase: "call", play: completion, expected: ofCompletion },
  { name: "handshake", phase: "handshake", play: lease, expected: ofHandshake },
  { name: "opening state", phase: "opening", play: lease, expected: ofOpening },
  { name: "reset", phase: "reset", play: inSession(nothing, ({ reset }) => reset("t1")), expected: ofFrame },
  { name: "step", phase: "step", play: afterReset(({ step }) => step("look")), expected: ofFrame },
  { name: "state", phase: "state", play: inSession(nothing, ({ state }) => state), expected: ofFrame },
  { name: "coworkers", phase: "coworkers", play: afterReset(({ coworkers }) => coworkers), expected: ofFrame },
  {
    name: "coworker_reply",
    phase: "coworker_reply",
    play: afterReset(({ coworkerReply }) => coworkerReply("ana", "hi")),
    expected: ofFrame
  },
  {
    name: "record",
    phase: "record",
    play: inSession(
      (session) => Effect.zipRight(session.reset("t1"), session.step("submit")),
      ({ finish }) => finish
    ),
    expected: ofFrame
  },
  { name: "close", phase: "close", play: inSession(nothing, nothing), expected: () => "ok" }
]

describe("a fault", () => {
  for (const { expected, name, phase, play } of phases) {
    const cells = FaultProxy.faults[phase].flatMap((fault) => Array.from({ length: runs }, () => fault))
    it.scopedLive(
      `in the phase "${name}" is told by its tag in time, and nothing is left`,
      ({ task }) =>
        Effect.gen(function* () {
          const played = yield* Effect.forEach(
            cells,
            (fault) =>
              Effect.gen(function* () {
                const container = yield* ScriptedContainer.make(env)
                const model = yield* ChatEndpoint.make({ answers: () => ({ text: "Yes." }) })
                const proxy = yield* FaultProxy.make(name === "completion" ? model.url : container.url)
                yield* proxy.inject(phase, fault, { times: Number.POSITIVE_INFINITY })
                const timed = Effect.timed(play(proxy.url, fault))
                const exit = yield* leavingNothing(timed, { proxies: [proxy], containers: [container] })
                const [duration, outcome] = yield* exit
                return {
                  phase: name,
                  fault: FaultProxy.nameOf(fault),
                  outcome,
                  seconds: Duration.toSeconds(duration),
                  isSilent: isSilent(fault)
                }
              }).pipe(Effect.scoped),
            { concurrency: 4 }
          )
          task.meta.faults = played
          assert.deepStrictEqual(
            played.map(({ fault, outcome }) => `${fault}: ${outcome}`),
            cells.map((fault) => `${FaultProxy.nameOf(fault)}: ${expected(fault)}`)
          )
          for (const { fault, isSilent, seconds } of played) {
            // A refusal whose body has no end is told by its status.
            const waits = isSilent && !(phase === "handshake" && fault === "endless")
            assert.isAbove(seconds, waits ? Duration.toSeconds(short) * 0.9 : 0, fault)
            assert.isBelow(seconds, prompt, fault)
          }
        }),
      60_000 + 10_000 * runs
    )
  }
})
