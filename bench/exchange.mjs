/** `exchange`: a step through the public Session over a raw `ws` ping-pong of the same frames. */
import { fork } from "node:child_process"
import { once } from "node:events"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Scope from "effect/Scope"
import { WebSocket } from "ws"
import { leasing } from "./leasing.mjs"
import { paired, row, timed } from "./measure.mjs"

const steps = 4000
const pairs = 15

const args = { query: "budget", limit: 12, folder: "minutes" }

/** Sends the frame that a step is, parses the reply, and so on. */
const pingPong = (socket) =>
  new Promise((resolve, reject) => {
    let left = steps
    const frame = () =>
      JSON.stringify({
        type: "step",
        data: {
          type: "call_tool",
          tool_name: "search_documents",
          arguments: args,
          metadata: { episode_id: "0123456789abcdef0123456789abcdef" }
        }
      })
    const onMessage = (data) => {
      const reply = JSON.parse(data.toString())
      if (reply.type === "error") return reject(reply)
      if (--left > 0) return socket.send(frame())
      socket.off("message", onMessage)
      resolve()
    }
    socket.on("message", onMessage)
    socket.send(frame())
  })

export const rows = async () => {
  const server = fork(new URL("./env-process.mjs", import.meta.url))
  const runtime = ManagedRuntime.make(leasing())
  const scope = Effect.runSync(Scope.make())
  try {
    const [port] = await once(server, "message")
    const url = `http://127.0.0.1:${port}`
    const session = await runtime.runPromise(
      Effect.gen(function* () {
        const { lease } = yield* Leasing.Leasing
        const session = yield* lease({ urls: [url], waitBusy: false })
        yield* session.reset("bench")
        return session
      }).pipe(Scope.extend(scope))
    )
    const socket = new WebSocket(`${url.replace("http", "ws")}/ws`, { perMessageDeflate: false })
    await once(socket, "open")
    const ours = Effect.gen(function* () {
      for (let step = 0; step < steps; step++) yield* session.step("search_documents", args)
    })
    const given = await paired({
      name: "exchange",
      base: () => timed(() => pingPong(socket)),
      ours: () => timed(() => runtime.runPromise(ours)),
      pairs,
      warmups: 1
    })
    socket.terminate()
    return [
      row({
        name: "exchange",
        measure: `speed of Session.step over a raw ws ping-pong of the same frames, ${steps} in each turn`,
        values: given.map(({ base, ours }) => base / ours),
        target: { atLeast: 0.8 }
      })
    ]
  } finally {
    await runtime.runPromise(Scope.close(scope, Exit.void))
    await runtime.dispose()
    server.kill()
  }
}
