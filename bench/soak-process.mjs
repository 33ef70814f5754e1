/**
 * Containers in a process of their own, each behind a proxy that is at fault in a share of its exchanges.
 *
 * Messages in: `{ serve: { containers, share } }`, `{ hangs }` (whether silence is among the faults from now on),
 * `{ report: true }`. Out: the URLs; `{ exchanges, strikes, open }`, the first two by phase and by fault since the start.
 */
import * as FaultProxy from "@miroir-effect/testing/FaultProxy"
import * as ScriptedContainer from "@miroir-effect/testing/ScriptedContainer"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"

const scope = Effect.runSync(Scope.make())
const run = (effect) => Effect.runPromise(Scope.extend(effect, scope))

/** What a record tells of is what the reset of its session named. */
const env = () => {
  const tasks = new Map()
  return {
    capacity: 1,
    tools: { api: [{ name: "look" }] },
    replies: ({ data, session, type }) => {
      if (type === "reset") {
        tasks.clear()
        tasks.set(session, data.task_id)
      }
      if (type === "record") {
        const id = tasks.get(session)
        return { send: { type, data: { task_id: id, reward: 1, metadata: { task_hash: `h-${id}`, success: true } } } }
      }
      const done = data?.tool_name === "submit"
      return { send: { type: "observation", data: { observation: { seen: "x".repeat(500) }, reward: null, done } } }
    }
  }
}

let hangs = true
const isSilent = (fault) => fault === "hang" || fault === "endless"
/** 150 MB each time would measure this process. */
const faultsOf = (phase) => FaultProxy.faults[phase].filter((fault) => fault !== "huge" && (hangs || !isSilent(fault)))

const places = []
const serve = async ({ containers, share }) => {
  for (let index = 0; index < containers; index++) {
    const container = await run(ScriptedContainer.make(env()))
    const fault = (phase) => {
      if (Math.random() >= share) return undefined
      const faults = faultsOf(phase)
      return faults[Math.floor(Math.random() * faults.length)]
    }
    places.push({ container, proxy: await run(FaultProxy.make(container.url, { fault })) })
  }
  // Who refuses or does not read is well again after a while.
  const heal = async () => {
    for (const { proxy } of places) await run(proxy.heal)
    setTimeout(heal, 5000)
  }
  setTimeout(heal, 5000)
  return places.map(({ proxy }) => proxy.url)
}

const report = async () => {
  const [exchanges, strikes] = [{}, {}]
  let open = 0
  for (const { container, proxy } of places) {
    const seen = await run(proxy.seen)
    open += seen.webSockets + (await run(container.seen)).openSockets
    for (const [phase, count] of Object.entries(seen.exchanges)) exchanges[phase] = (exchanges[phase] ?? 0) + count
    for (const { fault } of seen.strikes) {
      const name = FaultProxy.nameOf(fault)
      strikes[name] = (strikes[name] ?? 0) + 1
    }
  }
  return { exchanges, strikes, open }
}

process.on("message", async (message) => {
  if (message.serve !== undefined) process.send(await serve(message.serve))
  if (message.hangs !== undefined) hangs = message.hangs
  if (message.report) process.send(await report())
})
process.on("disconnect", () => process.exit(0))
