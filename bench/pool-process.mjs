/**
 * Containers in a process of their own, each a server with a port of its own that has one session at a time: `health`
 * tells whether it is leased, a second socket is told CAPACITY_REACHED, any frame is answered. They keep the books
 * that the lease benches are reckoned from; whose session one is, its token says.
 *
 * Messages in: `{ serve: [kind, ...] }`, kinds being "free", "leased" and "hanging"; `{ report: true }`, which also
 * begins new books. Out: the ports; `{ probes, sessions }`, a session being `{ token, container, from, to }` in
 * milliseconds.
 */
import { createServer } from "node:http"
import { setTimeout } from "node:timers/promises"
import { WebSocketServer } from "ws"

const capacity = JSON.stringify({ type: "error", data: { code: "CAPACITY_REACHED", message: "1 session is open" } })
const answers = {
  state: JSON.stringify({ type: "state", data: { done: false } }),
  reset: JSON.stringify({ type: "observation", data: { observation: {}, reward: null, done: false } })
}

let books = { probes: 0, sessions: [] }

const serve = (kind, container) =>
  new Promise((resolve, reject) => {
    let isLeased = kind === "leased"
    const server = createServer((_request, response) => {
      books.probes++
      if (kind === "hanging") return
      response.setHeader("content-type", "application/json")
      response.end(JSON.stringify({ status: "healthy", leased: isLeased }))
    })
    const sockets = new WebSocketServer({ server, perMessageDeflate: false })
    sockets.on("connection", (socket, request) => {
      if (isLeased) {
        socket.send(capacity)
        socket.close(1000)
        return
      }
      isLeased = true
      const token = request.headers.authorization?.replace("Bearer ", "")
      const session = { token, container, from: performance.now(), to: undefined }
      books.sessions.push(session)
      socket.on("message", (data) => socket.send(answers[JSON.parse(data).type]))
      socket.on("error", () => socket.terminate())
      socket.on("close", () => {
        isLeased = false
        session.to = performance.now()
      })
    })
    server.on("error", reject)
    server.listen(0, "127.0.0.1", () => resolve(server.address().port))
  })

process.on("message", async ({ serve: kinds, report }) => {
  if (kinds !== undefined) process.send(await Promise.all(kinds.map(serve)))
  if (report) {
    // A client's end of a socket may be closed a little before ours.
    while (books.sessions.some(({ to }) => to === undefined)) await setTimeout(10)
    process.send(books)
    books = { probes: 0, sessions: [] }
  }
})
