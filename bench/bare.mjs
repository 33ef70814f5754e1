/** What a container is asked by hand, without anything of ours, in the baselines of the lease benches. */
import { once } from "node:events"
import { get } from "node:http"
import { WebSocket } from "ws"

/** Asks for the health, and gives the answer. */
export const probe = (url) =>
  new Promise((resolve, reject) => {
    get(`${url}/health`, (response) => {
      const chunks = []
      response.on("data", (chunk) => chunks.push(chunk))
      response.on("end", () => resolve(JSON.parse(Buffer.concat(chunks).toString())))
      response.on("error", reject)
    }).on("error", reject)
  })

/** A session: a handshake, and one `state`. */
export const open = async (url) => {
  const socket = new WebSocket(`${url.replace("http", "ws")}/ws`, { perMessageDeflate: false })
  await once(socket, "open")
  socket.send('{"type":"state"}')
  const [reply] = await once(socket, "message")
  const { type } = JSON.parse(reply.toString())
  if (type === "error") throw new Error(`${url} was not free`)
  return socket
}

/** Closes a session, and waits for its end. */
export const close = async (socket) => {
  socket.close()
  await once(socket, "close")
}
