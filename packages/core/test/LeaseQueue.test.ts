/** How those who wait for containers go on beside each other, moment by moment, with simulated containers. */
import { assert, describe, it } from "@effect/vitest"
import * as Leasing from "@miroir-effect/core/Leasing"
import type { LeaseError } from "@miroir-effect/core/MiroirError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as LeaseWorld from "./support/leaseWorld.js"
import * as VirtualTime from "./support/virtualTime.js"

interface Come {
  /** Indices of containers, their URLs, or the URL file. */
  readonly list: ReadonlyArray<number | string> | "file"
  readonly token?: string
  readonly waitBusy?: boolean
  readonly timeout?: number
  /** For good if not given. */
  readonly holds?: number
}

interface Guest {
  /** What it leased, and when. */
  got: { readonly url: string; readonly at: number } | undefined
  failed: { readonly error: LeaseError; readonly at: number } | undefined
  exit: Exit.Exit<void> | undefined
  readonly fiber: Fiber.RuntimeFiber<unknown, unknown>
}

/** Containers, a Leasing over them, and its clients. */
const stage = (
  behaviours: ReadonlyArray<Partial<LeaseWorld.Behaviour>>,
  options: {
    readonly firstRound?: number
    readonly maxProbes?: number
    readonly maxHandshakes?: number
    readonly openingPause?: number
  } = {}
) => {
  const time = VirtualTime.make(1)
  const limits = { openingTimeout: 30_000, maxProbes: 512, maxHandshakes: 64, ...options }
  const world = LeaseWorld.make(behaviours.length, limits)
  const become = (index: number, behaviour: Partial<LeaseWorld.Behaviour>): void => {
    const container = world.containers[index]
    if (container !== undefined) container.behaviour = { ...container.behaviour, ...behaviour }
  }
  behaviours.forEach((behaviour, index) => {
    become(index, behaviour)
  })
  const scope = time.run(Scope.make())
  const leasing = time.run(
    Leasing.make({
      maxProbes: limits.maxProbes,
      maxHandshakes: limits.maxHandshakes,
      openingPause: Duration.millis(options.openingPause ?? 0),
      firstRound: Duration.millis(options.firstRound ?? 5000)
    }).pipe(Effect.provide(world.layer), Scope.extend(scope))
  )
  const urlsOf = (list: ReadonlyArray<number | string>): ReadonlyArray<string> =>
    list.map((one) => (typeof one === "string" ? one : `http://c${one}`))

  /** Lets time pass until a moment, and all be done that is to be done by then. */
  const until = (moment: number): void => {
    for (;;) {
      for (let steps = 0; time.step() || time.wake(); steps++) assert.isBelow(steps, 20_000, "never comes to rest")
      assert.isEmpty(world.faults)
      const next = time.nextEnd()
      if (next === undefined || next > moment) break
      time.goTo(next)
    }
    time.goTo(moment)
  }
  const come = ({ holds, list, timeout, token, waitBusy = true }: Come): Guest => {
    const lease = leasing.lease({
      ...(list === "file" ? { urlFile: "urls" } : { urls: urlsOf(list) }),
      waitBusy,
      ...(timeout === undefined ? {} : { timeout }),
      ...(token === undefined ? {} : { token: Redacted.make(token) })
    })
    const stay = Effect.flatMap(lease, ({ url }) => {
      guest.got = { url, at: time.now() }
      return holds === undefined ? Effect.never : Effect.sleep(holds)
    })
    const fiber = time.fork(
      Effect.scoped(stay).pipe(
        Effect.catchAll((error) =>
          Effect.sync(() => {
            guest.failed = { error, at: time.now() }
          })
        ),
        Effect.onExit((exit) =>
          Effect.sync(() => {
            guest.exit = exit
          })
        )
      )
    )
    const guest: Guest = { got: undefined, failed: undefined, exit: undefined, fiber }
    return guest
  }
  return {
    become,
    come,
    until,
    /** What a container has seen. */
    seen: (index: number): LeaseWorld.Container => {
      const container = world.containers[index]
      if (container === undefined) throw new Error(`there is no container ${index}`)
      return container
    },
    leave: (guest: Guest): void => time.interrupt(guest.fiber),
    setFile: (list: ReadonlyArray<number>): void => {
      world.urlFile = urlsOf(list).join("\n")
    },
    stats: () => {
      const { oldestWait, ...stats } = time.run(leasing.stats)
      return { ...stats, oldestWait: Option.getOrUndefined(Option.map(oldestWait, Duration.toMillis)) }
    },
    /** What is left of ours once everybody has gone. */
    end: (guests: ReadonlyArray<Guest>): void => {
      for (const { fiber } of guests) time.interrupt(fiber)
      until(time.now() + 60_000)
      assert.deepStrictEqual([world.held(), world.opening(), world.probing(), time.fibers()], [0, 0, 0, 0])
      assert.isEmpty(world.faults)
    }
  }
}

const at = (container: number, moment: number) => ({ url: `http://c${container}`, at: moment })

describe("a released container", () => {
  it("whose server is slow to notice goes to the first waiter as soon as it can, and nobody else waits for it", () => {
    const { become, come, end, seen, until } = stage([{ notice: 300 }, { foreign: true }])
    const holder = come({ list: [0], holds: 1000 })
    until(0)
    const first = come({ list: [0] })
    const others = [come({ list: [0, 1], holds: 0 }), come({ list: [0, 1], holds: 0 })]
    until(1100)
    become(1, { foreign: false })
    until(3000)
    assert.deepStrictEqual(holder.got, at(0, 0))
    assert.deepStrictEqual(seen(0).handshakes.slice(0, 5), [0, 1000, 1020, 1070, 1170])
    assert.strictEqual(first.got?.url, "http://c0")
    assert.isAtMost(first.got?.at ?? Number.NaN, 1370)
    for (const { got } of others) {
      assert.strictEqual(got?.url, "http://c1")
      assert.isAtMost(got?.at ?? Number.NaN, 1100 + 1200)
    }
    end([first])
  })

  it("goes from hand to hand in the order of arrival, at once and without a probe", () => {
    const { come, end, stats, until } = stage([{}])
    const guests = Array.from({ length: 20 }, () => come({ list: [0], holds: 100 }))
    until(150)
    assert.deepEqual(stats(), {
      held: 1,
      opening: 0,
      waiting: 18,
      oldestWait: 150,
      probing: 0,
      probes: 1,
      handOvers: 1
    })
    until(2000)
    assert.deepStrictEqual(
      guests.map(({ got }) => got),
      guests.map((_, index) => at(0, index * 100))
    )
    assert.deepInclude(stats(), { held: 0, waiting: 0, oldestWait: undefined, probes: 1, handOvers: 19 })
    end([])
  })

  it("that says it is free and is not is tried again by its pauses, also where two tokens wait for it", () => {
    const { come, end, seen, until } = stage([{ notice: 5000, health: "free" }])
    const holder = come({ list: [0], holds: 100 })
    until(50)
    const waiters = [come({ list: [0], token: "t" }), come({ list: [0] })]
    until(900)
    // The holder's, five by the pauses, and one more for each token, whose health says that it is free.
    assert.isAtMost(seen(0).handshakes.length, 8)
    end([holder, ...waiters])
  })
})

describe("one waiter's end disturbs no other with whom it shared", () => {
  interface Shared {
    readonly what: string
    readonly containers: ReadonlyArray<Partial<LeaseWorld.Behaviour>>
    /** How long somebody holds the first container who came before. */
    readonly held?: number
    readonly leaves: number
    readonly got: { readonly url: string; readonly at: number }
    /** Of the first container, until then. */
    readonly probes: number
  }
  const shared: ReadonlyArray<Shared> = [
    { what: "a probe", containers: [{ healthDelay: 500 }], leaves: 200, got: at(0, 500), probes: 1 },
    { what: "a handshake", containers: [{ openDelay: 400 }], leaves: 200, got: at(0, 800), probes: 1 },
    { what: "the opening state", containers: [{ openDelay: 400 }], leaves: 600, got: at(0, 800), probes: 1 },
    {
      what: "handshakes with two containers",
      containers: [{ openDelay: 450 }, { openDelay: 400 }],
      leaves: 700,
      got: at(1, 800),
      probes: 1
    },
    { what: "the queue", containers: [{}], held: 700, leaves: 300, got: at(0, 700), probes: 1 },
    {
      what: "the tries of a released container",
      containers: [{ notice: 250 }],
      held: 100,
      leaves: 200,
      got: at(0, 470),
      probes: 1
    }
  ]
  for (const { containers, got, held, leaves, probes, what } of shared) {
    for (const how of ["interrupted", "out of time"]) {
      it(`${what}, by one who is ${how}`, () => {
        const { come, end, leave, seen, until } = stage(containers, { firstRound: 0 })
        const holder = held === undefined ? [] : [come({ list: [0], holds: held })]
        until(0)
        const list = containers.map((_, index) => index)
        const going = come({ list, ...(how === "interrupted" ? {} : { timeout: leaves }) })
        const staying = come({ list })
        until(leaves)
        if (how === "interrupted") leave(going)
        until(leaves)
        assert.isDefined(going.exit)
        assert.isUndefined(going.got)
        until(5000)
        assert.deepStrictEqual(staying.got, got)
        assert.lengthOf(
          seen(0).probes.filter((moment) => moment < got.at),
          probes
        )
        end([staying, ...holder])
      })
    }
  }

  it("a watch, by one who does not wait, or who meets a refusal", () => {
    const { become, come, end, seen, until } = stage([{ foreign: true }, { opening: "refuse" }])
    const staying = come({ list: [0] })
    until(100)
    const going = [come({ list: [0], waitBusy: false }), come({ list: [0, 1] })]
    until(100)
    assert.deepStrictEqual(
      going.map(({ failed }) => [failed?.at, failed?.error._tag]),
      [
        [100, "NoFreeContainer"],
        [100, "ConnectionFailed"]
      ]
    )
    // The first asks for itself, since it will not wait; the other is told by the same probe.
    assert.deepStrictEqual(seen(0).probes, [0, 100])
    become(0, { foreign: false })
    until(1300)
    assert.strictEqual(staying.got?.url, "http://c0")
    end([staying])
  })

  it("a container, by one whose token it refuses", () => {
    const { become, come, end, until } = stage([{ opening: "refuse", openDelay: 100 }])
    const going = come({ list: [0], token: "wrong" })
    until(50)
    const staying = come({ list: [0] })
    until(150)
    become(0, { opening: "accept" })
    until(1000)
    assert.deepStrictEqual([going.failed?.at, going.failed?.error._tag], [100, "ConnectionFailed"])
    assert.deepStrictEqual(staying.got, at(0, 300))
    end([staying])
  })

  it("a bug in a probe or an opening is everybody's who relies on it, and nobody else's", () => {
    for (const bug of [{ health: "die" }, { opening: "die" }] as const) {
      const { come, end, until } = stage([bug, {}])
      const struck = [come({ list: [0] }), come({ list: [0] })]
      const spared = come({ list: [1] })
      until(1000)
      for (const { exit } of struck) assert.include(String(exit), "a bug")
      assert.deepStrictEqual(spared.got, at(1, 0))
      end([spared])
    }
  })
})

describe("handshakes", () => {
  it("are made one at a time, with one more for each second that none is answered", () => {
    const { come, end, seen, until } = stage(Array.from({ length: 4 }, () => ({ opening: "hang" })))
    const guest = come({ list: [0, 1, 2, 3] })
    until(2500)
    const handshakes = [0, 1, 2, 3].flatMap((index) => seen(index).handshakes)
    assert.deepStrictEqual(
      handshakes.toSorted((a, b) => a - b),
      [0, 1000, 2000]
    )
    end([guest])
  })

  it("with containers that are free for all have a pause between, but not that with one released here", () => {
    const { come, end, until } = stage([{}, {}, {}], { openingPause: 10 })
    const guests = [200, 1000, 1000, 1000].map((holds) => come({ list: [0, 1, 2], holds }))
    until(2000)
    assert.deepStrictEqual(
      guests.map(({ got }) => got?.at),
      [0, 10, 20, 200]
    )
    end(guests)
  })

  it("that are no longer needed serve the next waiter, or are broken off", () => {
    for (const hasNext of [true, false]) {
      const { come, end, stats, until } = stage([{ openDelay: 800 }, { openDelay: 800 }])
      const first = come({ list: [0, 1] })
      until(1500)
      assert.deepInclude(stats(), { opening: 2, waiting: 1 })
      const next = hasNext ? come({ list: [0, 1] }) : undefined
      until(1600)
      assert.strictEqual(first.got?.at, 1600)
      assert.deepInclude(stats(), { held: 1, opening: hasNext ? 1 : 0 })
      until(5000)
      assert.strictEqual(next?.got?.at, hasNext ? 2600 : undefined)
      end(next === undefined ? [first] : [first, next])
    }
  })

  it("are as many as may be, and leave no waiter out", () => {
    // What hangs says that it is free, for ever, and is listed before what would answer.
    const liars = Array.from({ length: 4 }, () => ({ health: "free", opening: "silent" }) as const)
    const { come, end, until } = stage([...liars, {}, {}], { maxHandshakes: 1 })
    const first = come({ list: [0, 1, 2, 3, 4] })
    const second = come({ list: [0, 1, 2, 3] })
    const third = come({ list: [5] })
    until(400_000)
    assert.strictEqual(first.got?.url, "http://c4")
    assert.strictEqual(third.got?.url, "http://c5")
    end([first, second, third])
  })
})

describe("probes", () => {
  it("are as many as may be, and leave no container out", () => {
    const { come, end, seen, until } = stage(
      Array.from({ length: 6 }, () => ({ healthDelay: 300, foreign: true })),
      { maxProbes: 2 }
    )
    const guest = come({ list: [0, 1, 2, 3, 4, 5] })
    until(20_000)
    // 2 at a time of 300 ms each are 900 ms for all six, and a round comes each second.
    for (const index of [0, 1, 2, 3, 4, 5]) assert.isAtLeast(seen(index).probes.length, 13)
    end([guest])
  })

  it("are not held up by one at whose turn its container is held", () => {
    const { come, end, seen, until } = stage(
      [{ notice: 800 }, { health: "hang" }, { foreign: true }, { foreign: true }],
      { maxProbes: 1 }
    )
    const holder = come({ list: [0], holds: 500 })
    until(0)
    const [hung, heir, bidder] = [come({ list: [1] }), come({ list: [0] }), come({ list: [0], token: "t" })]
    until(1600)
    // Meanwhile the container was seen free and busy, its turn to be asked did not come, and then it was taken.
    assert.deepStrictEqual(heir.got, at(0, 1370))
    const [other, last] = [come({ list: [2] }), come({ list: [3], waitBusy: false })]
    until(2100)
    // The hanging probe had its 2 s; then come the others, one after the other in the same moment.
    assert.deepStrictEqual([seen(2).probes, seen(3).probes], [[2000], [2000]])
    assert.strictEqual(last.failed?.at, 2000)
    end([holder, hung, heir, bidder, other])
  })
})

describe("waiters of all kinds", () => {
  it("wait side by side: other lists, other tokens, and not waiting at all", () => {
    const { come, end, seen, until } = stage([{}, { foreign: true }])
    const holder = come({ list: [0], holds: 1000, token: "a" })
    until(100)
    const notWaiting = [come({ list: [0], waitBusy: false }), come({ list: [0, 1], waitBusy: false, token: "b" })]
    const elsewhere = come({ list: [1] })
    const [first, second, third] = [
      come({ list: [0, 1], token: "b", holds: 300 }),
      come({ list: [0], token: "a", holds: 300 }),
      come({ list: [1, 0], holds: 300 })
    ]
    until(100)
    for (const { failed } of notWaiting) {
      assert.strictEqual(failed?.at, 100)
      assert.deepInclude(failed?.error, { _tag: "NoFreeContainer", unhealthy: 0 })
    }
    until(3000)
    assert.deepStrictEqual(
      [first, second, third].map(({ got }) => got),
      [at(0, 1000), at(0, 1300), at(0, 1600)]
    )
    assert.deepStrictEqual(seen(0).credentials, ["Bearer a", "Bearer b", "Bearer a", ""])
    assert.isUndefined(elsewhere.got)
    end([holder, elsewhere])
  })

  it("come each with the credentials of their own URL", () => {
    const { come, end, seen, until } = stage([{ openDelay: 100 }])
    const guests = ["ana:1", "bob:2"].map((userinfo) => come({ list: [`http://${userinfo}@c0`], holds: 100 }))
    until(3000)
    assert.deepStrictEqual(
      seen(0).credentials,
      ["ana:1", "bob:2"].map((userinfo) => `Basic ${btoa(userinfo)}`)
    )
    end(guests)
  })

  it("who are not to wait have one answer of each container, also where one says free each time and is not", () => {
    const liar = { health: "free", opening: "full", openDelay: 450 } as const
    const { come, end, until } = stage([liar, liar, liar])
    const guest = come({ list: [0, 1, 2], waitBusy: false })
    until(60_000)
    assert.deepInclude(guest.failed?.error, { _tag: "NoFreeContainer", leased: 3 })
    assert.isAtMost(guest.failed?.at ?? Number.NaN, 3 * 900)
    end([])
  })
})

describe("a URL file that changes", () => {
  it("brings containers, takes them away and brings them back, while others wait", () => {
    const { become, come, end, leave, seen, setFile, until } = stage([{ foreign: true }, { foreign: true }])
    setFile([0])
    const guest = come({ list: "file" })
    const other = come({ list: [0] })
    until(1500)
    setFile([1])
    until(2100)
    const asked = seen(0).probes.length
    become(0, { foreign: false })
    until(3500)
    // Who still lists it gets it; it is nothing to the first waiter any more.
    assert.strictEqual(other.got?.url, "http://c0")
    assert.isAtMost(seen(0).probes.length, asked + 2)
    assert.isAtLeast(seen(1).probes.length, 1)
    setFile([1, 0])
    until(5000)
    leave(other)
    until(6000)
    assert.deepStrictEqual(guest.got, at(0, 5000))
    end([guest])
  })

  it("breaks off what is opened for who no longer lists it, or leaves it to who does", () => {
    for (const isShared of [true, false]) {
      const { come, end, setFile, stats, until } = stage([{ openDelay: 900 }, { foreign: true }])
      setFile([0])
      const guest = come({ list: "file" })
      const other = isShared ? [come({ list: [0] })] : []
      until(500)
      setFile([1])
      until(1000)
      assert.deepInclude(stats(), { opening: isShared ? 1 : 0 })
      until(3000)
      assert.deepStrictEqual(
        other.map(({ got }) => got),
        other.map(() => at(0, 1800))
      )
      assert.isUndefined(guest.got)
      end([guest, ...other])
    }
  })
})
