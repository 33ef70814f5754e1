/** A container in a process of its own: answers `state`, and every other frame with the same observation. */
import { createServer } from "node:http"
import { WebSocketServer } from "ws"

/** 1.9 KB, as a tool's answer in an office env. */
export const observation = JSON.stringify({
  type: "observation",
  data: {
    observation: {
      tool_name: "search_documents",
      result: Array.from({ length: 12 }, (_, index) => ({
        id: `doc-${index}`,
        title: `Minutes of the meeting on budget line ${index}`,
        owner: "ana.silva",
        updated: "2026-11-30T09:12:00Z",
        score: 0.25 * index,
        shared: index % 2 === 0
      })),
      error: null
    },
    reward: null,
    done: false
  }
})

const state = JSON.stringify({ type: "state", data: { episode_id: null, step_count: 0, done: false } })

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "application/json")
    response.end('{"status":"healthy"}')
  })
  const sockets = new WebSocketServer({ server, perMessageDeflate: false })
  sockets.on("connection", (socket) => {
    socket.on("message", (data) => {
      const isState = data.length < 32 && data.toString().includes('"state"')
      socket.send(isState ? state : observation)
    })
  })
  server.listen(0, "127.0.0.1", () => process.send?.(server.address().port))
}
