/**
 * Long under fault: many episodes on many containers, a share of whose exchanges is at fault, and what is left of it.
 *
 *     npm run soak [-- --episodes 20000 --containers 64 --faults 0.01 --minutes 60 --schedules 3000]
 *
 * The containers are in another process, each behind a proxy. Half of the episodes are played by clients that lease for some
 * episodes at a time, have a deadline for each call, and are interrupted now and then; the other half by `Rollout`. Then so
 * many schedules of faults are played that are drawn at random (scripts/faults.mjs). Exits with 1 where a lease, a fiber or a socket is left, a finished episode is not in the traces exactly once, or the heap grows
 * by 1 KB an episode or more.
 */
import { fork, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Policy from "@miroir-effect/core/Policy"
import * as Rollout from "@miroir-effect/core/Rollout"
import * as Traces from "@miroir-effect/core/Traces"
import * as StubCatalog from "@miroir-effect/testing/StubCatalog"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Supervisor from "effect/Supervisor"
import { Miroir } from "miroir-effect"

const { values } = parseArgs({
  options: {
    episodes: { type: "string", default: "20000" },
    containers: { type: "string", default: "64" },
    faults: { type: "string", default: "0.01" },
    minutes: { type: "string", default: "60" },
    schedules: { type: "string", default: "3000" }
  }
})
const [episodes, containers, share, minutes] = [values.episodes, values.containers, values.faults, values.minutes].map(
  Number
)
const half = Math.ceil(episodes / 2)

// What is found

const found = []
const expect = (holds, otherwise) => {
  if (!holds) found.push(otherwise)
}

const curve = []
const began = performance.now()
/** So often in each half. */
const samples = 20

const sample = (part, done) => {
  for (let times = 0; times < 3; times++) globalThis.gc()
  const { heapUsed, rss } = process.memoryUsage()
  const seconds = (performance.now() - began) / 1000
  curve.push({ part, done, heapUsed })
  const cells = [part.padEnd(8), String(done).padStart(7), seconds.toFixed(1).padStart(8), mb(heapUsed), mb(rss)]
  console.log(`${cells.join("  ")}  ${"#".repeat(Math.round(heapUsed / 2 ** 20))}`)
}
const mb = (bytes) => `${(bytes / 2 ** 20).toFixed(2)} MB`.padStart(10)

/**
 * Bytes an episode, after the first fifth: the median of the slopes between any two samples (Theil and Sen), since what is
 * under way in the moment of a sample, a reply of 200,000 brackets perhaps, is no growth.
 */
const growth = (part) => {
  const points = curve.filter((one) => one.part === part).slice(samples / 5)
  const slopes = points.flatMap((one, index) =>
    points.slice(index + 1).map((later) => (later.heapUsed - one.heapUsed) / (later.done - one.done))
  )
  return slopes.toSorted((one, other) => one - other)[slopes.length >> 1] ?? 0
}

class Counting extends Supervisor.AbstractSupervisor {
  alive = 0
  value = Effect.sync(() => this.alive)
  onStart() {
    this.alive++
  }
  onEnd() {
    this.alive--
  }
}

// The two halves

/** Silence costs no more than this. */
const patience = "2 seconds"

const layer = Miroir.layer({
  direct: true,
  transport: { handshakeTimeout: patience, pingInterval: "500 millis", closeTimeout: "1 second" },
  leasing: { openingTimeout: patience, roundPause: "200 millis" }
})

/** Leases, plays some episodes and gives back, until all are played. */
const leases = (urls, folder, saved) => {
  const counts = { leases: 0, broken: 0, interrupted: 0 }
  let next = 0
  let done = 0
  const episode = (session, traces, number) =>
    Effect.gen(function* () {
      const call = Effect.timeout(patience)
      yield* call(session.reset(`e${number}`))
      yield* call(session.step("look", { number }))
      yield* call(session.step("submit"))
      // What is finished is saved, whoever interrupts.
      yield* Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(restore(call(session.finish)), ({ record }) =>
          Effect.zipRight(
            traces.save(folder, record),
            Effect.sync(() => {
              saved[number]++
              done++
              if (done % Math.ceil(half / samples) === 0) sample("leases", done)
            })
          )
        )
      )
    })
  const client = Effect.gen(function* () {
    const { lease } = yield* Leasing.Leasing
    const traces = yield* Traces.Traces
    const left = []
    const some = Effect.gen(function* () {
      const session = yield* lease({ urls, waitBusy: true })
      counts.leases++
      for (let turns = 0; turns < 4; turns++) {
        const number = left.at(-1) ?? next++
        if (number >= half) return
        if (left.length === 0) left.push(number)
        yield* episode(session, traces, number)
        left.pop()
      }
    }).pipe(Effect.scoped)
    while (next < half || left.length > 0) {
      const stop = Math.random() < 0.05 ? Effect.timeoutOption(Math.random() * 60) : Effect.asSome
      const exit = yield* Effect.either(stop(some))
      if (exit._tag === "Left") counts.broken++
      else if (exit.right._tag === "None") counts.interrupted++
    }
  })
  return Effect.gen(function* () {
    const fibers = yield* Effect.forEach(Array.from({ length: 2 * containers }), () => Effect.fork(client))
    yield* Effect.forEach(fibers, (fiber) => fiber)
    const { stats } = yield* Leasing.Leasing
    const isLeft = ({ held, opening, probing, waiting }) => held + opening + probing + waiting > 0
    const last = yield* stats.pipe(
      Effect.repeat({
        while: isLeft,
        schedule: Schedule.intersect(Schedule.spaced("20 millis"), Schedule.recurs(500))
      }),
      Effect.zipRight(stats)
    )
    expect(!isLeft(last), `a lease is left: ${JSON.stringify(last)}`)
    return counts
  }).pipe(Effect.provide(layer))
}

const call = (name) => ({ id: "c", type: "function", function: { name, arguments: "{}" } })
const policy = {
  model: "soak",
  settings: {},
  next: ({ messages }) =>
    Effect.succeed({
      message: { role: "assistant", content: null, tool_calls: [call(messages.length < 3 ? "look" : "submit")] }
    })
}

const rollouts = (urls, folder, saved) => {
  const tasks = Array.from({ length: Math.ceil(half / 8) }, (_, index) => ({
    id: `r${index}`,
    task_hash: `h-r${index}`,
    instruction: "look, then submit"
  }))
  const counts = { saved: 0, broken: 0, failed: 0, total: 8 * tasks.length }
  const services = Rollout.layer.pipe(
    Layer.provideMerge(StubCatalog.of({ tools: { api: [{ name: "look" }] } })),
    Layer.provideMerge(Layer.succeed(Policy.Policy, policy)),
    Layer.provideMerge(layer)
  )
  return Effect.gen(function* () {
    const { run } = yield* Rollout.Rollout
    const plan = { urls, tasks, rollouts: 8, traces: folder, concurrency: 2 * containers, pause: "50 millis" }
    yield* Stream.runForEach(run(plan), (event) =>
      Effect.sync(() => {
        if (event._tag === "Broke") counts.broken++
        else if (event._tag === "Failed") counts.failed++
        else if (event._tag === "Saved") {
          counts.saved++
          saved[Number(event.task.id.slice(1)) * 8 + event.rollout]++
          if (counts.saved % Math.ceil(half / samples) === 0) sample("rollouts", counts.saved)
        }
      })
    )
    expect(counts.saved + counts.failed === counts.total, `not all rollouts came to an end: ${JSON.stringify(counts)}`)
    return counts
  }).pipe(Effect.provide(services))
}

/** Each saved episode is to be in the traces exactly once, and no other. */
const compare = (folder, saved, placeOf) =>
  Effect.gen(function* () {
    const { read } = yield* Traces.Traces
    const there = new Uint8Array(saved.length)
    yield* Stream.runForEach(read(folder), (record) => Effect.sync(() => there[placeOf(record.value)]++))
    let wrong = 0
    for (let place = 0; place < saved.length; place++) if (saved[place] !== there[place] || there[place] > 1) wrong++
    expect(wrong === 0, `${wrong} episodes are not in the traces of ${folder} as often as they were saved`)
  }).pipe(Effect.provide(layer))

// All of it

const child = fork(new URL("./soak-process.mjs", import.meta.url))
const ask = async (message) => {
  const answer = once(child, "message")
  child.send(message)
  return (await answer)[0]
}
const supervisor = new Counting()
const play = (effect) =>
  Effect.runPromise(
    effect.pipe(
      Effect.supervised(supervisor),
      Effect.timeoutFail({
        duration: `${minutes} minutes`,
        onTimeout: () => new Error(`not done in ${minutes} minutes`)
      }),
      Logger.withMinimumLogLevel(LogLevel.Error)
    )
  )
process.on("unhandledRejection", (reason) => expect(false, `nobody handled ${reason}`))

const folder = await mkdtemp(join(tmpdir(), "miroir-soak-"))
try {
  const urls = await ask({ serve: { containers, share } })
  console.log(`${episodes} episodes on ${containers} containers, ${share * 100}% of all exchanges at fault\n`)
  console.log(
    `${"part".padEnd(8)}  ${"done".padStart(7)}  ${"seconds".padStart(8)}  ${"heap".padStart(10)}  ${"rss".padStart(10)}`
  )

  const played = new Uint8Array(half)
  const byLeases = await play(leases(urls, join(folder, "leases"), played))
  await play(compare(join(folder, "leases"), played, ({ task_id: id }) => Number(id.slice(1))))
  expect(
    played.every((times) => times === 1),
    "not all episodes were finished"
  )

  // Rollout bounds an attempt by a minute at least.
  child.send({ hangs: false })
  const rolled = new Uint8Array(8 * Math.ceil(half / 8))
  const byRollout = await play(rollouts(urls, join(folder, "rollouts"), rolled))
  const placeOf = ({ rollout, task_id: id }) => Number(id.slice(1)) * 8 + rollout.rollout
  await play(compare(join(folder, "rollouts"), rolled, placeOf))

  let { exchanges, open, strikes } = await ask({ report: true })
  for (let times = 0; open > 0 && times < 100; times++) {
    await sleep(50)
    ;({ exchanges, open, strikes } = await ask({ report: true }))
  }
  expect(open === 0, `the servers have ${open} sockets open`)
  expect(supervisor.alive === 0, `${supervisor.alive} fibers are left`)

  const sum = (counts) => Object.values(counts).reduce((one, other) => one + other, 0)
  const list = (counts) =>
    Object.entries(counts)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ")
  console.log(`\nexchanges  ${sum(exchanges)}: ${list(exchanges)}`)
  console.log(`faults     ${sum(strikes)}: ${list(strikes)}`)
  console.log(`leases     ${list(byLeases)}`)
  console.log(`rollouts   ${list(byRollout)}`)
  for (const part of ["leases", "rollouts"]) {
    const bytes = growth(part)
    console.log(`growth     ${part}: ${bytes.toFixed(0)} bytes of heap an episode, after the first fifth`)
    if (episodes >= 2000) expect(bytes < 1024, `the heap grows by ${bytes.toFixed(0)} bytes an episode (${part})`)
  }
} catch (error) {
  found.push(String(error?.stack ?? error))
} finally {
  child.disconnect()
  await rm(folder, { recursive: true, force: true })
}
console.log(
  found.length === 0
    ? "\nNo lease, fiber or socket is left, and every finished episode is in the traces exactly once."
    : `\nFAILED\n${found.join("\n")}`
)

if (Number(values.schedules) > 0) {
  console.log()
  const faults = fileURLToPath(new URL("../scripts/faults.mjs", import.meta.url))
  const [code] = await once(spawn(process.execPath, [faults, "1", values.schedules], { stdio: "inherit" }), "exit")
  expect(code === 0, "the schedules of faults failed")
}
process.exit(found.length === 0 ? 0 : 1)
