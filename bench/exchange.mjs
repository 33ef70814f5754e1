/** `exchange`: a step through the public Session over a raw `ws` ping-pong of the same frames. */
import { fork } from "node:child_process"
import { once } from "node:events"
import { NodeFileSystem } from "@effect/platform-node"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Transport from "@miroir-effect/core/Transport"
import { Effect, Layer } from "effect"
import { WebSocket } from "ws"
import { paired } from "./paired.mjs"

const steps = 4000
const pairs = 15

const args = { query: "budget", limit: 12, folder: "minutes" }

const raw = (socket) =>
  new Promise((resolve) => {
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
      if (reply.type === "error") throw reply
      if (--left > 0) return socket.send(frame())
      socket.off("message", onMessage)
      resolve()
    }
    socket.on("message", onMessage)
    socket.send(frame())
  })

export const rows = async () => {
  const server = fork(new URL("./env-process.mjs", import.meta.url))
  const [port] = await once(server, "message")
  const url = `http://127.0.0.1:${port}`
  const layer = Leasing.layer().pipe(
    Layer.provide([SessionExchange.layer.pipe(Layer.provide(Transport.layer())), NodeHttp.layer, NodeFileSystem.layer])
  )
  const program = Effect.gen(function* () {
    const { lease } = yield* Leasing.Leasing
    const session = yield* lease({ urls: [url], waitBusy: false })
    yield* session.reset("bench")
    const socket = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const socket = new WebSocket(`${url.replace("http", "ws")}/ws`, { perMessageDeflate: false })
        await once(socket, "open")
        return socket
      }),
      (socket) => Effect.sync(() => socket.terminate())
    )
    const ours = Effect.gen(function* () {
      for (let step = 0; step < steps; step++) yield* session.step("search_documents", args)
    })
    const theirs = Effect.promise(() => raw(socket))
    return yield* paired({ base: theirs, ours, pairs })
  })
  const ratio = await Effect.runPromise(Effect.scoped(program).pipe(Effect.provide(layer)))
  server.kill()
  return [
    { name: "exchange", measure: "speed over a raw ws ping-pong", ...ratio, target: ">= 0.80", ok: ratio.ratio >= 0.8 }
  ]
}

if (process.argv[1] === new URL(import.meta.url).pathname) console.table(await rows())
