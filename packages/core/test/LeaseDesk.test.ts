/**
 * Leasing against random scripts: containers that are slow, hang, lie, refuse, die and come back, and clients that
 * come, wait, hold and leave at any moment. After every step of every fiber it is looked at whether what may never be
 * is; whenever all is still, whether what has to be is. LEASE_RUNS sets how many scripts are tried.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import type { LeaseError } from "@miroir-effect/core/MiroirError"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FastCheck from "effect/FastCheck"
import type * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as LeaseWorld from "./support/leaseWorld.js"
import * as VirtualTime from "./support/virtualTime.js"

const runs = Number(process.env.LEASE_RUNS ?? 2000)

// Scripts

interface Client {
  readonly arrives: number
  /** Indices of containers, or the URL file. */
  readonly list: ReadonlyArray<number> | "file"
  readonly token: string | undefined
  readonly waitBusy: boolean
  readonly timeout: number | undefined
  readonly holds: number
  /** When it is interrupted, if it is: so many steps into that millisecond. */
  readonly leaves: { readonly at: number; readonly step: number } | undefined
}

interface Script {
  readonly containers: ReadonlyArray<{
    /** In turn; the last stays. */
    readonly phases: ReadonlyArray<{ readonly lasts: number; readonly behaviour: LeaseWorld.Behaviour }>
    readonly endsWell: boolean
  }>
  readonly clients: ReadonlyArray<Client>
  /** What the URL file lists, from when on. */
  readonly file: ReadonlyArray<{ readonly from: number; readonly list: ReadonlyArray<number> }>
  readonly maxProbes: number
  readonly maxHandshakes: number
  /** When all is shut down, clients and Leasing at once. */
  readonly ends: { readonly at: number; readonly step: number } | undefined
  readonly seed: number
}

/** The longest that a close takes, in milliseconds. */
const longestClose = 300

/** On a grid, so that things often happen at once. */
const times = (max: number) => FastCheck.integer({ min: 0, max: max / 100 }).map((n) => n * 100)
const moment = FastCheck.record({ at: times(4000), step: FastCheck.integer({ min: 0, max: 12 }) })
const optional = <A>(one: FastCheck.Arbitrary<A>) => FastCheck.option(one, { nil: undefined, freq: 1 })

const behaviour: FastCheck.Arbitrary<LeaseWorld.Behaviour> = FastCheck.record({
  health: FastCheck.oneof(
    { weight: 5, arbitrary: FastCheck.constant<LeaseWorld.Behaviour["health"]>("honest") },
    {
      weight: 3,
      arbitrary: FastCheck.constantFrom<Array<LeaseWorld.Behaviour["health"]>>("free", "leased", "unhealthy", "hang")
    }
  ),
  healthDelay: times(600),
  opening: FastCheck.oneof(
    { weight: 5, arbitrary: FastCheck.constant<LeaseWorld.Behaviour["opening"]>("accept") },
    {
      weight: 4,
      arbitrary: FastCheck.constantFrom<Array<LeaseWorld.Behaviour["opening"]>>(
        "full",
        "cut",
        "factory",
        "garbled",
        "busy",
        "down",
        "refuse",
        "badToken",
        "hang",
        "silent"
      )
    }
  ),
  openDelay: times(700),
  closeDelay: times(longestClose),
  notice: times(800),
  foreign: FastCheck.boolean()
})

/** Indices of containers; those beyond the last begin anew. */
const list = FastCheck.uniqueArray(FastCheck.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 4 })

const scripts: FastCheck.Arbitrary<Script> = FastCheck.record({
  containers: FastCheck.array(
    FastCheck.record({
      phases: FastCheck.array(FastCheck.record({ lasts: times(2000), behaviour }), { minLength: 1, maxLength: 3 }),
      endsWell: FastCheck.boolean()
    }),
    { minLength: 1, maxLength: 4 }
  ),
  clients: FastCheck.array(
    FastCheck.record({
      arrives: times(3000),
      list: FastCheck.oneof(
        { weight: 5, arbitrary: list },
        { weight: 1, arbitrary: FastCheck.constant<"file">("file") }
      ),
      token: FastCheck.constantFrom(undefined, undefined, "t"),
      waitBusy: FastCheck.constantFrom(true, true, false),
      timeout: optional(times(3000)),
      holds: times(1000),
      leaves: optional(moment)
    }),
    { minLength: 1, maxLength: 7 }
  ),
  file: FastCheck.array(FastCheck.record({ from: times(4000), list }), { minLength: 1, maxLength: 3 }).map((lists) =>
    lists.toSorted((a, b) => a.from - b.from)
  ),
  maxProbes: FastCheck.constantFrom(64, 64, 3, 1),
  maxHandshakes: FastCheck.constantFrom(64, 64, 2, 1),
  ends: optional(moment),
  seed: FastCheck.integer()
})

// The model

const settings = {
  healthTimeout: 500,
  openingTimeout: 1000,
  hedgeAfter: 200,
  roundPause: 1000,
  firstRound: 2000
}
/** The longest that a round's pause can be, its jitter with it. */
const longestPause = settings.roundPause * 1.2

interface Guest extends Client {
  state: "coming" | "waiting" | "holding" | "gone"
  fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined
  /** When it came: the time, and the moment of the world. */
  since: number
  moment: number
  interrupted: boolean
  /** What it got. */
  container: LeaseWorld.Container | undefined
}

/** Plays a script, and gives what was wrong. */
const play = (script: Script): ReadonlyArray<string> => {
  const time = VirtualTime.make(script.seed)
  const limits = { ...settings, maxProbes: script.maxProbes, maxHandshakes: script.maxHandshakes }
  const world = LeaseWorld.make(script.containers.length, limits)
  const { containers, faults } = world
  const fault = (text: string): void => {
    faults.push(`${Math.round(time.now())} ms: ${text}`)
  }
  const isAmple = script.maxProbes > 3 && script.maxHandshakes > 3
  const gauges = () =>
    Effect.runSync(Effect.all([Metric.value(Telemetry.leasesHeld), Metric.value(Telemetry.leaseWaiters)])).map(
      ({ value }) => value
    )
  const gaugesBefore = gauges()

  const scope = time.run(Scope.make())
  const leasing = time.run(
    Leasing.make({
      ...limits,
      healthTimeout: Duration.millis(settings.healthTimeout),
      openingTimeout: Duration.millis(settings.openingTimeout),
      hedgeAfter: Duration.millis(settings.hedgeAfter),
      roundPause: Duration.millis(settings.roundPause),
      firstRound: Duration.millis(settings.firstRound)
    }).pipe(Effect.provide(world.layer), Scope.extend(scope))
  )

  const listed = (list: ReadonlyArray<number>): ReadonlyArray<LeaseWorld.Container> =>
    Array.from(new Set(list.flatMap((index) => containers[index % containers.length] ?? [])))
  const urlsOf = (list: ReadonlyArray<number>): ReadonlyArray<string> => listed(list).map(({ url }) => url)
  const listOf = ({ list }: Client): ReadonlyArray<LeaseWorld.Container> => (list === "file" ? [] : listed(list))
  const authorizationOf = ({ token }: Client): string => (token === undefined ? "" : `Bearer ${token}`)
  const since = (guest: Guest, container: LeaseWorld.Container, verdict: LeaseWorld.Fact["verdict"]): boolean =>
    (container.told.get(`${authorizationOf(guest)} ${verdict}`) ?? -1) >= guest.moment

  const guests = script.clients.map(
    (client): Guest => ({
      ...client,
      state: "coming",
      fiber: undefined,
      since: 0,
      moment: 0,
      interrupted: false,
      container: undefined
    })
  )
  /** In the order in which they came. */
  const queue: Array<Guest> = []
  /** Since when nobody waits. */
  let lonely: number | undefined
  /** In this instant. */
  let granted: Array<Guest> = []

  const waited = (guest: Guest): number => time.now() - guest.since
  const deadline = ({ timeout }: Client): number =>
    timeout === undefined ? Number.POSITIVE_INFINITY : Math.max(timeout, settings.firstRound)

  const onLease = (guest: Guest, url: string): void => {
    guest.state = "holding"
    const container = containers.find((one) => one.url === url)
    guest.container = container
    granted.push(guest)
    if (guest.interrupted) fault("a lease after an interruption")
    if (waited(guest) > deadline(guest)) fault("a lease after the deadline")
    if (container?.ours !== "held") fault(`a lease of ${url}, which is ${container?.ours}`)
    if (guest.list !== "file" && !urlsOf(guest.list).includes(url)) fault("a lease of what was not listed")
  }

  const onFailure = (guest: Guest, error: LeaseError): void => {
    const list = listOf(guest)
    if (error._tag === "ConnectionFailed" || error._tag === "EnvError") {
      if (guest.list !== "file" && !list.some((one) => since(guest, one, "refusing"))) fault("failed with no refusal")
      return
    }
    if (error._tag !== "NoFreeContainer") {
      fault(`failed with ${error._tag}`)
      return
    }
    if (error.leased + error.unhealthy !== error.total) fault("the counts of a failure do not add up")
    if (guest.timeout !== undefined && waited(guest) >= guest.timeout) return
    if (guest.waitBusy || error.unhealthy > 0) fault("gave up before its time")
    for (const one of list) {
      if (one.ours !== "held" && one.released < guest.moment && !since(guest, one, "leased")) {
        fault(`gave up ${one.url}, of which nobody said that it was leased`)
      }
    }
  }

  const come = (guest: Guest) => (): void => {
    queue.push(guest)
    lonely = undefined
    guest.state = "waiting"
    guest.since = time.now()
    guest.moment = world.moment()
    const lease = leasing.lease({
      ...(guest.list === "file" ? { urlFile: "urls" } : { urls: urlsOf(guest.list) }),
      waitBusy: guest.waitBusy,
      ...(guest.timeout === undefined ? {} : { timeout: guest.timeout }),
      ...(guest.token === undefined ? {} : { token: Redacted.make(guest.token) })
    })
    const stay = Effect.flatMap(lease, ({ url }) => {
      onLease(guest, url)
      return Effect.sleep(guest.holds)
    })
    guest.fiber = time.fork(
      Effect.scoped(stay).pipe(
        Effect.catchAll((error) => Effect.sync(() => onFailure(guest, error))),
        Effect.ensuring(
          Effect.sync(() => {
            guest.state = "gone"
          })
        ),
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit) && !Exit.isInterrupted(exit)) fault(`died: ${exit.cause}`)
          })
        )
      )
    )
  }
  const leave = (guest: Guest) => (): void => {
    if (guest.fiber === undefined || guest.state === "gone") return
    guest.interrupted = true
    time.interrupt(guest.fiber)
  }

  // What is done when.
  interface Action {
    readonly at: number
    readonly step: number
    readonly run: () => void
  }
  const setList = (list: ReadonlyArray<number>) => (): void => {
    world.urlFile = urlsOf(list).join("\n")
  }
  setList(script.file[0]?.list ?? [])()
  let settled = 0
  let actions: Array<Action> = script.file.slice(1).map(({ from, list }) => ({ at: from, step: 0, run: setList(list) }))
  script.containers.forEach(({ endsWell, phases }, index) => {
    let at = 0
    const behave = (behaviour: LeaseWorld.Behaviour): void => {
      const run = (): void => {
        const container = containers[index]
        if (container !== undefined) container.behaviour = behaviour
      }
      actions.push({ at, step: 0, run })
      settled = Math.max(settled, at)
    }
    for (const { behaviour, lasts } of phases) {
      behave(behaviour)
      at += lasts
    }
    if (endsWell) behave(LeaseWorld.good)
  })
  for (const guest of guests) {
    actions.push({ at: guest.arrives, step: 0, run: come(guest) })
    if (guest.leaves !== undefined) actions.push({ ...guest.leaves, run: leave(guest) })
  }
  if (script.ends !== undefined) {
    const run = (): void => {
      actions = []
      for (const guest of guests) leave(guest)()
      time.fork(Scope.close(scope, Exit.void))
    }
    actions.push({ ...script.ends, run })
  }
  actions.sort((a, b) => a.at - b.at || a.step - b.step)
  settled = Math.max(settled, ...actions.map(({ at }) => at))

  // What has to be.
  const idle = new Map<LeaseWorld.Container, number>()
  const isOpenToAll = (container: LeaseWorld.Container): boolean => {
    const { foreign, health, healthDelay, openDelay, opening } = container.behaviour
    return (
      health === "honest" &&
      healthDelay < settings.healthTimeout &&
      opening === "accept" &&
      openDelay < settings.openingTimeout &&
      !foreign &&
      container.ours === "none" &&
      !LeaseWorld.isBusy(container, time.now())
    )
  }
  const whenStill = (): void => {
    const waiting = queue.filter(({ interrupted, state }) => state === "waiting" && !interrupted)
    // What came at the last moment, with nobody else there to take it, is closed before the interruption is over.
    const closing = queue.filter(({ interrupted, state }) => state === "waiting" && interrupted)
    const holding = queue.filter(({ state }) => state === "holding")
    if (closing.length > 0 && holding.length + closing.length > world.held()) fault("waits although interrupted")
    for (const guest of granted) {
      const { container } = guest
      const passedOver = waiting.find(
        (other) =>
          queue.indexOf(other) < queue.indexOf(guest) &&
          other.token === guest.token &&
          listOf(other).some((one) => one === container)
      )
      if (passedOver !== undefined) fault(`${container?.url} went past a waiter to a later one`)
    }
    granted = []
    if (script.ends === undefined || actions.length > 0) {
      const { held, oldestWait, opening, probes, probing, waiting: there } = time.run(leasing.stats)
      const told = {
        // One that is broken off just when it was opened counts as being opened until it is closed.
        ours: held + opening,
        waiting: there,
        probing,
        probes,
        oldestWait: Option.map(oldestWait, Duration.toMillis)
      }
      const first = Option.fromNullable(waiting[0])
      const seen = {
        ours: world.held() + world.opening(),
        waiting: waiting.length,
        probing: world.probing(),
        probes: containers.reduce((sum, one) => sum + one.probes.length, 0),
        oldestWait: Option.map(first, waited)
      }
      const inMillis = (_key: string, value: unknown) => (typeof value === "number" ? Math.round(value) : value)
      const [said, should] = [told, seen].map((stats) => JSON.stringify(stats, inMillis))
      if (said !== should) fault(`the stats are ${said}, and should be ${should}`)
    }
    for (const container of containers) {
      if (!isOpenToAll(container)) idle.delete(container)
      else if (!idle.has(container)) idle.set(container, time.now())
    }
    for (const guest of waiting) {
      if (waited(guest) > deadline(guest)) fault("waits beyond its deadline")
      if (guest.list === "file") continue
      const list = listOf(guest)
      const isKnownLeased = (container: LeaseWorld.Container): boolean => {
        if (container.ours !== "none") return holding.some((other) => other.container === container)
        const authorization = authorizationOf(guest)
        const fact = container.known.get(authorization)
        return (
          (container.probing.get(authorization) ?? 0) === 0 && fact?.verdict === "leased" && fact.at >= guest.moment
        )
      }
      if (!guest.waitBusy && list.every(isKnownLeased)) fault("waits for leased containers although it was not to")
      if (!isAmple) continue
      const spell = longestPause + 2 * settings.healthTimeout + list.length * settings.hedgeAfter
      for (const container of list) {
        const free = time.now() - Math.max(guest.since, idle.get(container) ?? Number.POSITIVE_INFINITY)
        if (free > spell) fault(`waits, and ${container.url} has been free for ${free} ms`)
      }
      const round = longestPause + settings.healthTimeout + list.length * (2 * settings.openingTimeout + longestClose)
      const isTroubled = list.some((one) => since(guest, one, "unhealthy") || since(guest, one, "refusing"))
      if (!guest.waitBusy && !isTroubled && waited(guest) > round) fault("goes on after a round, although not to wait")
    }
    lonely = waiting.length > 0 ? undefined : (lonely ?? time.now())
    if (world.opening() > 0 && time.now() - (lonely ?? time.now()) > longestClose) {
      fault("nobody waits, and something is opened")
    }
    const isQuiet = waiting.length === 0 && world.opening() === 0 && world.held() <= holding.length
    if (isQuiet && time.fibers() > 0) {
      fault(`nobody waits, and ${time.fibers()} fibers are there`)
    }
  }
  /** Those for whom there is a container that has become free for good. */
  const mustBeServed = (guest: Guest): boolean =>
    guest.state === "waiting" &&
    guest.waitBusy &&
    guest.timeout === undefined &&
    listed(guest.list === "file" ? (script.file.at(-1)?.list ?? []) : guest.list).some(
      (container) => script.containers[containers.indexOf(container)]?.endsWell
    )

  const bound = 10_000 * script.containers.length * script.clients.length
  const advance = (isOver: () => boolean): void => {
    for (;;) {
      for (let steps = 0, more = true; more; steps++) {
        for (let next = actions[0]; next !== undefined && next.at <= time.now(); next = actions[0]) {
          if (next.step > steps && more) break
          actions.shift()
          next.run()
        }
        more = time.step() || time.wake() || (actions[0]?.at ?? Number.POSITIVE_INFINITY) <= time.now()
        if (steps > 20_000) fault("never comes to rest")
        if (faults.length > 0) return
      }
      whenStill()
      const next = Math.min(time.nextEnd() ?? Number.POSITIVE_INFINITY, actions[0]?.at ?? Number.POSITIVE_INFINITY)
      if (faults.length > 0 || next === Number.POSITIVE_INFINITY || isOver()) return
      if (next > settled + bound) fault(`${guests.filter(mustBeServed).length} starve`)
      time.goTo(next)
    }
  }
  const isServed = (): boolean => actions.length === 0 && !guests.some(mustBeServed)
  advance(isServed)
  actions = guests.map((guest) => ({ at: time.now(), step: 0, run: leave(guest) }))
  if (faults.length === 0) advance(() => false)
  if (faults.length === 0) {
    time.fork(Scope.close(scope, Exit.void))
    advance(() => false)
    if (guests.some(({ state }) => state !== "gone" && state !== "coming")) fault("somebody is still there at the end")
    if (world.held() + world.opening() + world.probing() > 0) fault("something is under way at the end")
    if (gauges().join() !== gaugesBefore.join()) fault(`the gauges end at ${gauges()}, not ${gaugesBefore}`)
  }
  return faults
}

describe("leasing", () => {
  it("keeps its invariants, whatever containers and clients do", { timeout: 600_000 }, () => {
    FastCheck.assert(
      FastCheck.property(scripts, (script) => {
        const faults = play(script)
        assert.isEmpty(faults, faults.join("; "))
      }),
      {
        numRuns: runs,

        // The suite plays the same scripts each time; who asks for more gets others, and is told the seed of a failure.
        ...(process.env.LEASE_SEED !== undefined || process.env.LEASE_RUNS === undefined
          ? { seed: Number(process.env.LEASE_SEED ?? 1) }
          : {})
      }
    )
  })
})
