/**
 * What a rollout bench needs beside the client, in a process of its own: with the argument `containers`, containers
 * whose steps take a while, each of a port of its own; with `model`, a stub of `chat/completions` that calls a tool.
 *
 * Message in: `{ count, millis }`, how many of them and how long a step or an answer takes. Out: their ports.
 */
import { createServer } from "node:http"
import { WebSocketServer } from "ws"
import { observation } from "./env-process.mjs"

const kinds = {
  containers: (millis) => {
    const server = createServer((request, response) => {
      response.setHeader("content-type", "application/json")
      request.resume().on("end", () => response.end(answers[request.url] ?? "{}"))
    })
    const sockets = new WebSocketServer({ server, perMessageDeflate: false })
    sockets.on("connection", (socket) => {
      socket.on("message", (data) => {
        const { type, data: asked } = JSON.parse(data)
        if (type !== "step") socket.send(replies[type])
        else {
          const reply = asked.tool_name === "submit" ? replies.submit : observation
          setTimeout(() => socket.send(reply), millis)
        }
      })
    })
    return server
  },
  model: (millis) =>
    createServer((request, response) => {
      const chunks = []
      request.on("data", (chunk) => chunks.push(chunk))
      request.on("end", () => {
        const { messages } = JSON.parse(Buffer.concat(chunks))
        const said = messages.filter(({ role }) => role === "assistant").length
        const body = completion(said + 1 < steps ? "search_documents" : "submit")
        setTimeout(() => response.setHeader("content-type", "application/json").end(body), millis)
      })
    })
}

/** Steps of an episode, the last of which submits. */
export const steps = 10

const answers = {
  "/health": '{"status":"healthy","leased":false}',
  "/list_environments": '["bench"]',
  "/mcp?surface=api": JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    result: { tools: ["search_documents", "submit"].map((name) => ({ name, inputSchema: { type: "object" } })) }
  })
}

const replies = {
  state: '{"type":"state","data":{"done":false}}',
  reset: '{"type":"observation","data":{"observation":{},"reward":null,"done":false}}',
  submit: '{"type":"observation","data":{"observation":{},"reward":1,"done":true}}',
  record: JSON.stringify({
    type: "record",
    data: { task_id: "t0", reward: 1, metadata: { task_hash: "h", success: true } }
  })
}

const completion = (tool) =>
  JSON.stringify({
    id: "c",
    object: "chat.completion",
    model: "stub",
    choices: [
      {
        index: 0,
        finish_reason: "tool_calls",
        message: {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "call_0", type: "function", function: { name: tool, arguments: '{"query":"budget"}' } }]
        }
      }
    ],
    usage: { prompt_tokens: 1000, completion_tokens: 20, total_tokens: 1020 }
  })

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const kind = kinds[process.argv[2]]
  process.once("message", async ({ count, millis }) => {
    const listening = Array.from(
      { length: count },
      () =>
        new Promise((resolve, reject) => {
          const server = kind(millis)
          server.on("error", reject)
          server.listen(0, "127.0.0.1", () => resolve(server.address().port))
        })
    )
    process.send(await Promise.all(listening))
  })
}
