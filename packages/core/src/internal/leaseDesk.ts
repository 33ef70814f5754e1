/**
 * The desk where leases are waited for: who waits, which containers there are, and
 * who gets which. It decides; what takes time (a probe, an opening, a close) it
 * starts, and hears of its end. All of it happens in plain synchronous steps, so
 * that between two of them these hold:
 *
 * 1. A container is idle, being opened, or held: never two sessions of ours on one. One that grants several sessions is so
 *    many containers here.
 * 2. A session that is ours goes to the first waiter whose list and token fit it, whoever's sake it was opened for;
 *    where none fits it is closed.
 * 3. A door (a container and a token) is watched, that is asked for its health about once a second, for as long as
 *    somebody waits at it and the container is idle; at most one probe is under way at a door.
 * 4. An opening is for a waiter: one each, and one more beside those that have taken longer than a while. It outlives
 *    the waiter where another one fits, and is broken off where none does. Where there are fewer places than waiters who
 *    may try, each has its turn before any has another; and each waiter tries each of its containers before one again.
 *    Between two openings of containers that are free for all there is a pause, so that other processes get their share.
 * 5. Who has left the desk is told nothing and gets nothing; what was granted to one who did not take it is granted on.
 * 6. With nobody waiting, nothing is under way but closes: no probe, no opening, no pause before another try.
 * 7. Who does not wait is judged as soon as each of its doors has told something, and is told no later than by its one
 *    try at each: a door that was tried in vain does not begin anew.
 * 8. A defect in what is done for several ends the waiting of all of them, and is not tried again.
 */

import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as FiberSet from "effect/FiberSet"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { PCGRandom } from "effect/Utils"
import type * as BaseUrl from "../BaseUrl.js"
import { type ConnectionFailed, type EnvError, NoFreeContainer } from "../MiroirError.js"
import type * as Session from "../Session.js"
import type { Health } from "./http.js"
import type * as Timers from "./timers.js"

/** Why a container could not be made ours. */
export type Verdict =
  | { readonly _tag: "Leased" | "Unhealthy" }
  | { readonly _tag: "Refusing"; readonly error: ConnectionFailed | EnvError }

/** What became of opening a container. */
export type Opened = { readonly _tag: "Ours"; readonly session: Session.Service } | Verdict

export const Ours = (session: Session.Service): Opened => ({ _tag: "Ours", session })
export const Leased: Verdict = { _tag: "Leased" }
export const Unhealthy: Verdict = { _tag: "Unhealthy" }
export const Refusing = (error: ConnectionFailed | EnvError): Verdict => ({ _tag: "Refusing", error })

export type Token = Option.Option<Redacted.Redacted>

export interface Settings {
  /** For a whole answer to a probe; after that the container counts as unhealthy. */
  readonly healthTimeout: Duration.DurationInput
  readonly hedgeAfter: Duration.DurationInput
  /** Before each further try of a released container that is still busy, from the try before. */
  readonly releasedRetries: ReadonlyArray<Duration.DurationInput>
  /** Between two openings of containers that are free for all. */
  readonly openingPause: Duration.DurationInput
  readonly roundPause: Duration.DurationInput
  readonly maxProbes: number
  readonly maxHandshakes: number
}

/** A container's base URL and, where it grants several sessions, which of them: from 0, which it is if not said. */
export interface Place extends BaseUrl.BaseUrl {
  readonly place?: number
}

/** How the desk acts on the world. */
export interface Hands {
  readonly probe: (base: BaseUrl.BaseUrl, token: Token) => Effect.Effect<Health>
  readonly open: (base: BaseUrl.BaseUrl, token: Token) => Effect.Effect<Opened, never, Scope.Scope>
}

/** A session, and what it takes to give it back. */
export interface Grant {
  readonly session: Session.Service
  readonly door: Door
  readonly scope: Scope.CloseableScope
}

interface Container {
  readonly id: string
  readonly doors: Set<Door>
  state: "idle" | "opening" | "held"
  /** Set once a session of ours has closed: how often it was tried since. It is then worth trying without a probe. */
  released: number | undefined
  /** Waits to try again what was released and is still busy. */
  retry: Timers.Cancel | undefined
}

interface Door {
  readonly container: Container
  readonly base: Place
  readonly token: Token
  readonly key: string
  readonly waiters: Set<Waiter>
  /** Whether the last probe said that the container is free. */
  free: boolean
  probe: Fiber.RuntimeFiber<void> | undefined
  /** Whether a probe came to nothing, since the container was being opened meanwhile. */
  missed: boolean
  watch: Timers.Cancel | undefined
  opening: Opening | undefined
}

/** A container that is being opened. */
interface Opening {
  readonly door: Door
  /** The waiter whose turn it takes up. */
  sponsor: Waiter
  /** Whether it has taken so long that its sponsor may try another one beside it. */
  slow: boolean
  fiber: Fiber.RuntimeFiber<void> | undefined
  /** Until it is slow. */
  timer: Timers.Cancel
}

/** What a caller says who comes to wait. */
interface Request {
  /** The first of them are tried first. */
  readonly bases: ReadonlyArray<Place>
  readonly token: Token
  readonly waitBusy: boolean
  /** Milliseconds of the Clock. */
  readonly since: number
  /** Puts what is done for this caller into the caller's trace. */
  readonly traced: <A, R>(self: Effect.Effect<A, never, R>) => Effect.Effect<A, never, R>
}

export interface Waiter extends Omit<Request, "bases"> {
  /** By the containers' ids; those that were not tried yet first. */
  readonly doors: Map<string, Door>
  /** Doors that have told nothing since the waiter came, or may yet open. */
  readonly unheard: Set<Door>
  /** What the others have told, but for those that are leased: these are nearly all, wherever many wait. */
  readonly told: Map<Door, Verdict>
  /** Doors that were tried in vain since: what they told stands, even where their health says again that they are free. */
  readonly tried: Set<Door>
  readonly openings: Set<Opening>
  readonly settled: Deferred.Deferred<Grant, NoFreeContainer | ConnectionFailed | EnvError>
  /** Whether every door has told something. */
  heardAll: boolean
  /** Whether it fails as soon as that is so. */
  hurried: boolean
  grant: Grant | undefined
}

interface Desk {
  /** Begins to wait. */
  readonly join: (request: Request) => Waiter
  /** Changes a waiter's list. */
  readonly relist: (waiter: Waiter, bases: ReadonlyArray<Place>) => void
  /** Ends the waiting, and gives what the waiter was granted, if anything. */
  readonly leave: (waiter: Waiter) => Grant | undefined
  /** Fails the waiter as soon as every door has told something. */
  readonly hurry: (waiter: Waiter) => void
  /** Fails the waiter, who has waited for as long as he would. */
  readonly giveUp: (waiter: Waiter) => void
  /** Grants a session to who waits for it, at once; where nobody does, the effect closes it. */
  readonly grantOn: (grant: Grant) => Effect.Effect<void>
  /** Closes a session, and hands its container on. */
  readonly giveBack: (grant: Grant) => Effect.Effect<void>
  readonly stats: () => Stats
}

export interface Stats {
  /** Containers held, those among them that are being closed. */
  readonly held: number
  readonly opening: number
  readonly waiting: number
  /** Milliseconds of the Clock at which the first of those who wait came. */
  readonly since: Option.Option<number>
  readonly probing: number
  /** Since the start. */
  readonly probes: number
  /** Released containers that went to a waiter without a probe, since the start. */
  readonly handOvers: number
}

export const make = Effect.fnUntraced(function* (settings: Settings, { open, probe }: Hands, timers: Timers.Timers) {
  const fork = yield* FiberSet.makeRuntime<never, void, never>()
  /** For jitter. */
  const random = new PCGRandom(yield* Random.nextInt)
  /**
   * Starts an effect, which does not run before the step is over that starts it. `then` is run in any case, also where
   * the effect was interrupted before it began.
   */
  const run = <A>(
    effect: Effect.Effect<A>,
    then: (exit: Exit.Exit<A>) => Effect.Effect<void> = () => Effect.void
  ): Fiber.RuntimeFiber<void> =>
    fork(
      Effect.uninterruptibleMask((restore) =>
        Effect.yieldNow().pipe(Effect.zipRight(Effect.exit(restore(effect))), Effect.flatMap(then))
      )
    )
  const interrupt = (fiber: Fiber.RuntimeFiber<void> | undefined): void => fiber?.unsafeInterruptAsFork(FiberId.none)

  const doomed: Array<Fiber.RuntimeFiber<void>> = []
  /** Interrupts one after the other: who got a container goes on before hundreds of probes elsewhere are broken off. */
  const breakOff = (fiber: Fiber.RuntimeFiber<void> | undefined): void => {
    if (fiber === undefined || doomed.push(fiber) > 1) return
    run(
      Effect.whileLoop({
        while: () => doomed.length > 0,
        body: () =>
          Effect.zipRight(
            Effect.sync(() => interrupt(doomed.shift())),
            Effect.yieldNow()
          ),
        step: () => {}
      })
    )
  }

  /** In the order in which they came, which is the order of grants. */
  const queue = new Set<Waiter>()
  /** The same, in the order of their last tries: nobody's tries keep another from trying, however few places there are. */
  const turns = new Set<Waiter>()
  const containers = new Map<string, Container>()
  const doors = new Map<string, Door>()
  /** Doors to be asked as soon as a probe's place is free. */
  const unasked = new Set<Door>()
  /** Doors whose probe is broken off since its time is up. */
  const late = new Set<Door>()
  const counts = { held: 0, opening: 0, probing: 0, probes: 0, handOvers: 0 }
  /** Whether a waiter who might have tried had to wait, for a handshake's place or a pause. */
  let isCrowded = false
  /** After an opening, until the next one may begin. */
  let pause: Timers.Cancel | undefined

  // Doors

  const doorOf = (base: Place, token: Token): Door => {
    const key = keyOf(base, token)
    const known = doors.get(key)
    if (known !== undefined) return known
    const id = idOf(base)
    const container = containers.get(id) ?? {
      id,
      doors: new Set(),
      state: "idle",
      released: undefined,
      retry: undefined
    }
    containers.set(id, container)
    const door: Door = {
      container,
      base,
      token,
      key,
      waiters: new Set(),
      free: false,
      probe: undefined,
      missed: false,
      watch: undefined,
      opening: undefined
    }
    doors.set(key, door)
    container.doors.add(door)
    return door
  }

  /** Forgets a door where nobody waits and nothing is under way. */
  const retire = (door: Door): void => {
    const { container } = door
    if (door.waiters.size > 0 || door.probe !== undefined || door.opening !== undefined) return
    if (doors.get(door.key) === door) doors.delete(door.key)
    container.doors.delete(door)
    if (container.doors.size === 0 && container.state === "idle") containers.delete(container.id)
  }

  const watch = (door: Door): void => {
    ask(door)
    const jitter = 0.8 + 0.4 * random.number()
    door.watch = timers.after(Duration.times(settings.roundPause, jitter), () => watch(door))
  }

  const ask = (door: Door): void => {
    const isWanted = door.probe === undefined && door.container.state === "idle" && door.waiters.size > 0
    if (isWanted && counts.probing >= settings.maxProbes) {
      unasked.add(door)
      return
    }
    unasked.delete(door)
    if (!isWanted) return
    counts.probing++
    door.missed = false
    let deadline: Timers.Cancel = constVoid
    const counted = Effect.suspend(() => {
      // It may have been taken since: then there is nothing to ask.
      if (door.container.state !== "idle") {
        door.missed = true
        return Effect.interrupt
      }
      counts.probes++
      deadline = timers.after(settings.healthTimeout, () => {
        late.add(door)
        breakOff(door.probe)
      })
      return probe(door.base, door.token)
    })
    door.probe = run(counted, (exit) =>
      Effect.sync(() => {
        deadline()
        asked(door, exit)
      })
    )
  }

  /** A probe is over, or was broken off. */
  const asked = (door: Door, exit: Exit.Exit<Health>): void => {
    counts.probing--
    door.probe = undefined
    const isLate = late.delete(door)
    if (Exit.isFailure(exit)) {
      if (!Exit.isInterrupted(exit)) die(door, exit.cause)
      else if (isLate && door.container.state === "idle") {
        door.free = false
        tell(door, Unhealthy)
      } else ask(door)
    } else if (door.container.state === "idle") {
      door.free = exit.value === "free"
      if (door.free) {
        for (const waiter of door.waiters) if (!waiter.tried.has(door)) note(waiter, door, undefined)
        offer(door.container)
      } else tell(door, exit.value === "leased" ? Leased : Unhealthy)
    } else door.missed = true
    retire(door)
    for (const next of unasked) {
      if (counts.probing >= settings.maxProbes) return
      ask(next)
    }
  }

  // Waiters

  const isWorthTrying = ({ container, free }: Door): boolean =>
    container.state === "idle" && (free || container.released !== undefined)

  const mayTry = ({ openings }: Waiter): boolean => {
    for (const { slow } of openings) if (!slow) return false
    return true
  }

  /** Has the first waiter who may try a container open it. */
  const offer = (container: Container): void => {
    for (const waiter of queue) {
      for (const door of container.doors) {
        if (waiter.doors.get(container.id) === door && isWorthTrying(door) && mayTry(waiter)) {
          begin(door, waiter)
          return
        }
      }
    }
  }

  /** Has a waiter who may try open the first container that is worth it. */
  const tryFor = (waiter: Waiter): void => {
    if (!queue.has(waiter) || !mayTry(waiter)) return
    for (const door of waiter.doors.values()) {
      if (isWorthTrying(door)) {
        begin(door, waiter)
        return
      }
    }
  }

  /** Writes down what a door told; without a verdict it may yet open. */
  const note = ({ told, unheard }: Waiter, door: Door, verdict: Verdict | undefined): void => {
    if (verdict === undefined) unheard.add(door)
    else unheard.delete(door)
    if (verdict === undefined || verdict._tag === "Leased") told.delete(door)
    else told.set(door, verdict)
  }

  const verdictOf = ({ told, unheard }: Waiter, door: Door): Verdict | undefined =>
    unheard.has(door) ? undefined : (told.get(door) ?? Leased)

  const tell = (door: Door, verdict: Verdict): void => {
    for (const waiter of Array.from(door.waiters)) {
      note(waiter, door, verdict)
      judge(waiter)
    }
  }

  /** A defect is everybody's who relies on what it broke. */
  const die = (door: Door, cause: Cause.Cause<never>): void => {
    for (const { settled } of door.waiters) Deferred.unsafeDone(settled, Exit.failCause(cause))
  }

  /** Fails a waiter for whom there is nothing to wait for. */
  const judge = (waiter: Waiter): void => {
    if (waiter.unheard.size > 0) return
    waiter.heardAll = true
    if (waiter.hurried) {
      giveUp(waiter)
      return
    }
    // The reason is made for who fails only: an error takes longer to make than all the rest of this.
    let mayStill = waiter.waitBusy
    for (const { _tag } of waiter.told.values()) {
      if (_tag === "Unhealthy") mayStill = true
      else if (_tag === "Refusing") {
        mayStill = false
        break
      }
    }
    if (!mayStill && waiter.openings.size === 0) giveUp(waiter)
  }

  const hurry: Desk["hurry"] = (waiter) => {
    waiter.hurried = true
    if (waiter.heardAll) giveUp(waiter)
  }

  const giveUp: Desk["giveUp"] = (waiter) => {
    Deferred.unsafeDone(waiter.settled, Effect.fail(reason(waiter)))
  }

  /** Why the waiter has nothing yet. */
  const reason = (waiter: Waiter): NoFreeContainer | ConnectionFailed | EnvError => {
    const urls = new Set<string>()
    const unhealthyUrls = new Set<string>()
    for (const door of waiter.doors.values()) {
      const verdict = verdictOf(waiter, door) ?? Unhealthy
      if (verdict._tag === "Refusing") return verdict.error
      urls.add(door.base.href)
      if (verdict._tag === "Unhealthy") unhealthyUrls.add(door.base.href)
    }
    return new NoFreeContainer({
      total: urls.size,
      leased: urls.size - unhealthyUrls.size,
      unhealthy: unhealthyUrls.size,
      unhealthyUrls: Array.from(unhealthyUrls).slice(0, 3)
    })
  }

  const enter = (waiter: Waiter, base: Place): void => {
    const door = doorOf(base, waiter.token)
    // Who waits before at the same door has it watched; only one who will not wait asks for himself.
    const isWatched = door.watch !== undefined
    waiter.doors.set(door.container.id, door)
    door.waiters.add(waiter)
    if (door.container.state !== "held") waiter.unheard.add(door)
    if (!isWatched) watch(door)
    else if (!waiter.waitBusy) ask(door)
  }

  const exit = (waiter: Waiter, door: Door): void => {
    waiter.doors.delete(door.container.id)
    waiter.unheard.delete(door)
    waiter.told.delete(door)
    waiter.tried.delete(door)
    vacate(waiter, door)
  }

  /** Takes a waiter away from a door. Of one who leaves, what it has heard there needs no clearing: it goes with the waiter. */
  const vacate = (waiter: Waiter, door: Door): void => {
    door.waiters.delete(waiter)
    if (door.waiters.size > 0) return
    if (!isAwaited(door.container)) forgetRelease(door.container)
    door.watch?.()
    breakOff(door.probe)
    door.watch = undefined
    unasked.delete(door)
    retire(door)
  }

  const join: Desk["join"] = ({ bases, ...request }) => {
    const waiter: Waiter = {
      ...request,
      doors: new Map(),
      unheard: new Set(),
      told: new Map(),
      tried: new Set(),
      openings: new Set(),
      settled: Deferred.unsafeMake(FiberId.none),
      heardAll: false,
      hurried: false,
      grant: undefined
    }
    queue.add(waiter)
    turns.add(waiter)
    for (const base of bases) enter(waiter, base)
    tryFor(waiter)
    judge(waiter)
    return waiter
  }

  const relist: Desk["relist"] = (waiter, bases) => {
    if (!queue.has(waiter)) return
    const listed = new Set(bases.map((base) => keyOf(base, waiter.token)))
    for (const door of Array.from(waiter.doors.values())) if (!listed.has(door.key)) exit(waiter, door)
    for (const base of bases) if (!waiter.doors.has(idOf(base))) enter(waiter, base)
    disown(waiter, ({ door }) => waiter.doors.get(door.container.id) !== door)
    tryFor(waiter)
    judge(waiter)
  }

  const leave: Desk["leave"] = (waiter) => {
    if (!queue.delete(waiter)) return waiter.grant
    turns.delete(waiter)
    for (const door of waiter.doors.values()) vacate(waiter, door)
    disown(waiter, () => true)
    if (queue.size === 0) {
      pause?.()
      pause = undefined
    }
    return waiter.grant
  }

  // Openings

  const begin = (door: Door, sponsor: Waiter): void => {
    const { container } = door
    const tries = container.released
    if (counts.opening >= settings.maxHandshakes || (tries === undefined && !mayTakeNow())) {
      isCrowded = true
      return
    }
    const opening: Opening = { door, sponsor, slow: false, fiber: undefined, timer: constVoid }
    counts.opening++
    container.state = "opening"
    forgetRelease(container)
    door.opening = opening
    sponsor.doors.delete(container.id)
    sponsor.doors.set(container.id, door)
    turns.delete(sponsor)
    turns.add(sponsor)
    sponsor.openings.add(opening)
    opening.fiber = fork(
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          yield* Effect.yieldNow()
          opening.timer = timers.after(settings.hedgeAfter, () => {
            opening.slow = true
            tryFor(opening.sponsor)
          })
          const scope = yield* Scope.make()
          const exit = yield* sponsor
            .traced(open(door.base, door.token))
            .pipe(Scope.extend(scope), restore, Effect.exit)
          const fail = (why: Exit.Exit<Verdict>) =>
            Effect.ensuring(
              Scope.close(scope, Exit.void),
              Effect.sync(() => failed(opening, why, tries))
            )
          if (Exit.isFailure(exit)) return yield* fail(Exit.failCause(exit.cause))
          const opened = exit.value
          if (opened._tag !== "Ours") return yield* fail(Exit.succeed(opened))
          yield* succeeded(opening, { session: opened.session, door, scope }, tries)
        })
      )
    )
  }

  /**
   * Whether a container that is free for all may be taken now; if so it counts as taken. One after the other, with a pause
   * between: of processes that come at the same time, the one that is a few milliseconds ahead would have them all
   * otherwise, and keep them for as long as it hands them on.
   */
  const mayTakeNow = (): boolean => {
    if (pause !== undefined) return false
    if (Duration.toMillis(settings.openingPause) === 0) return true
    pause = timers.after(settings.openingPause, () => {
      pause = undefined
      next()
    })
    return true
  }

  /** An opening is over, one way or the other. */
  const end = (opening: Opening): Container => {
    counts.opening--
    opening.timer()
    opening.door.opening = undefined
    opening.sponsor.openings.delete(opening)
    for (const door of opening.door.container.doors) door.free = false
    return opening.door.container
  }

  /** `tries`: how often the container was tried before since its release, where it was tried for that. */
  const succeeded = (opening: Opening, grant: Grant, tries: number | undefined): Effect.Effect<void> => {
    const container = end(opening)
    container.state = "held"
    counts.held++
    if (tries !== undefined) counts.handOvers++
    const granted = grantOn(grant)
    for (const door of container.doors) {
      for (const waiter of door.waiters) {
        // Most have known it: it was held before. Only whose opening is over may have to be judged all the same.
        if (verdictOf(waiter, door) === Leased && waiter !== opening.sponsor) continue
        note(waiter, door, Leased)
        judge(waiter)
      }
    }
    next(opening.sponsor)
    return granted
  }

  const grantOn: Desk["grantOn"] = (grant) => {
    const { door } = grant
    for (const waiter of queue) {
      if (waiter.doors.get(door.container.id)?.key === door.key) {
        waiter.grant = grant
        Deferred.unsafeDone(waiter.settled, Effect.succeed(grant))
        leave(waiter)
        return Effect.void
      }
    }
    return giveBack(grant)
  }

  const failed = (opening: Opening, why: Exit.Exit<Verdict>, tries: number | undefined): void => {
    const { door } = opening
    const container = end(opening)
    container.state = "idle"
    if (Exit.isSuccess(why)) {
      const delay = tries === undefined || why.value._tag !== "Leased" ? undefined : settings.releasedRetries[tries]
      if (tries !== undefined && delay !== undefined && isAwaited(container))
        container.retry = timers.after(delay, () => release(container, tries + 1))
      for (const waiter of door.waiters) waiter.tried.add(door)
      tell(door, why.value)
    } else if (Exit.isInterrupted(why)) release(container, 0)
    else die(door, why.cause)
    // Meanwhile a probe at another door told nobody; but who has heard of that door can wait for its watch.
    for (const other of container.doors) {
      if (other.missed || Array.from(other.waiters).some(({ unheard }) => unheard.has(other))) ask(other)
    }
    retire(door)
    next(opening.sponsor)
  }

  const isAwaited = ({ doors }: Container): boolean => Array.from(doors).some(({ waiters }) => waiters.size > 0)

  /** A container that was ours can be tried again, without a probe, by who waits for it now. */
  const release = (container: Container, tries: number): void => {
    if (container.state !== "idle" || !isAwaited(container)) return
    container.released = tries
    offer(container)
  }

  const forgetRelease = (container: Container): void => {
    container.released = undefined
    container.retry?.()
    container.retry = undefined
  }

  const giveBack: Desk["giveBack"] = (grant) =>
    Effect.ensuring(
      Scope.close(grant.scope, Exit.void),
      Effect.sync(() => {
        const { container } = grant.door
        counts.held--
        container.state = "idle"
        release(container, 0)
        retire(grant.door)
      })
    )

  /** Passes a waiter's openings on to others at the same doors, and breaks off those that nobody waits for. */
  const disown = (waiter: Waiter, which: (opening: Opening) => boolean): void => {
    for (const opening of Array.from(waiter.openings)) {
      if (!which(opening)) continue
      waiter.openings.delete(opening)
      const fitting = Array.from(queue).filter(({ doors }) => doors.get(opening.door.container.id) === opening.door)
      const heir = fitting.find(mayTry) ?? fitting[0]
      if (heir === undefined) interrupt(opening.fiber)
      else {
        opening.sponsor = heir
        heir.openings.add(opening)
      }
    }
  }

  /**
   * A handshake's place is free, and the one for whom it was taken may try again. Where others found no place, it goes to
   * the waiter whose last try is the longest ago.
   */
  const next = (sponsor?: Waiter): void => {
    if (isCrowded) {
      isCrowded = false
      for (const waiter of Array.from(turns)) {
        tryFor(waiter)
        if (isCrowded) return
      }
    } else if (sponsor !== undefined) tryFor(sponsor)
  }

  const stats = (): Stats => {
    const [first] = queue
    return { ...counts, waiting: queue.size, since: Option.map(Option.fromNullable(first), ({ since }) => since) }
  }

  return { join, relist, leave, hurry, giveUp, grantOn, giveBack, stats }
})

const idOf = ({ href, place = 0 }: Place): string => (place === 0 ? href : `${href} ${place}`)

/** One for each way in: the same container with another credential is another door. */
const keyOf = (base: Place, token: Token): string => {
  const id = idOf(base)
  if (Option.isSome(token)) return `${id} Bearer ${Redacted.value(token.value)}`
  return Option.isSome(base.userinfo) ? `${id} Basic ${Redacted.value(base.userinfo.value)}` : id
}
