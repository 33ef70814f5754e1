/** What a fault makes of an answer, of a handshake and of a close. */

import type * as Http from "node:http"
import * as Json from "@miroir-effect/core/Json"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Fault } from "../FaultProxy.js"
import type { Reply } from "../ScriptedContainer.js"
import { type Answer, refuse } from "./httpServer.js"
import { type Peer, perform } from "./perform.js"
import { reset } from "./reset.js"

/** Of an HTTP call. */
export const answer = (whole: Answer, fault: Fault): Answer => {
  const text = whole.text ?? ""
  if (typeof fault === "object") return "status" in fault ? withStatus(fault) : whole
  switch (fault) {
    case "refuse":
    case "cut":
      return { drop: true }
    case "hang":
      return { hang: true }
    case "half-open":
      return { stall: true }
    case "torn":
      return { ...whole, cut: true }
    case "garbage":
      return { ...whole, text: garbage }
    case "truncated":
      return { ...whole, text: half(text) }
    case "nested":
      return { ...whole, text: nested }
    case "lacking":
      return { ...whole, text: "{}" }
    case "huge":
      return { ...whole, text: padded(text) }
    case "drips":
      return { ...whole, drip: 0 }
    case "html":
      return page
    case "empty":
      return { ...whole, text: "" }
    case "endless":
      return { ...whole, endless: true }
    default:
      return whole
  }
}

/** Of a handshake, which gets another answer than the server's. */
export const handshake = (incoming: Http.IncomingMessage, fault: Fault): Effect.Effect<void> => {
  const { socket } = incoming
  const send = (text: string, then: () => void): Effect.Effect<void> =>
    Effect.sync(() => {
      socket.write(text, then)
    })
  switch (fault) {
    case "torn":
      return send(half(switching), () => reset(socket))
    case "garbage":
      return send("SSH-2.0-OpenSSH_9.7\r\n", () => socket.end())
    case "lacking":
      return send(`${switching}\r\n`, () => socket.end())
    case "empty":
      return Effect.sync(() => {
        socket.end()
      })
    case "endless":
      return refuse(incoming, { status: 401, text: "no", endless: true })
    default:
      return refuse(incoming, answer({}, fault))
  }
}

/** Of a reply on the WebSocket. */
export const reply = (text: string, fault: Fault): Reply => {
  if (typeof fault === "object") return "close" in fault ? fault : { raw: text }
  switch (fault) {
    case "refuse":
    case "cut":
      return { drop: true }
    case "hang":
      return { hang: true }
    case "half-open":
      return { stall: true }
    case "torn":
      return { torn: text }
    case "garbage":
      return { binary: new Uint8Array([0xff, 0x00, 0xfe, 0x80]) }
    case "truncated":
      return { raw: half(text) }
    case "nested":
      return { raw: nestedIn(text) }
    case "lacking":
      return { send: { type: "lacking" } }
    case "huge":
      return { raw: padded(text) }
    case "drips":
      return { drip: text }
    case "twice":
      return { many: [{ raw: text }, { raw: text }] }
    case "unasked":
      return { many: [{ raw: text }, notice] }
    default:
      return { raw: text }
  }
}

/** Of the answer to the client's close frame. */
export const end = (peer: Peer, fault: Fault): Effect.Effect<void> => {
  const { socket, webSocket } = peer
  switch (fault) {
    case "half-open":
      // After the close frame `ws` reads on by itself.
      return Effect.sync(() => {
        setImmediate(() => webSocket.pause())
      })
    case "torn":
      return Effect.sync(() => {
        socket.write(Buffer.from([0x88]), () => reset(socket))
      })
    case "unasked":
      return perform(peer, notice)
    default:
      return perform(peer, reply("{}", fault))
  }
}

const withStatus = (fault: { readonly status: number; readonly location?: string }): Answer => ({
  ...fault,
  body: { detail: `the proxy says ${fault.status}` }
})

const page: Answer = {
  text: "<!doctype html><title>Welcome</title><h1>It works!</h1>",
  headers: { "content-type": "text/html" }
}

/** Without the proof that the server has understood the handshake. */
const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

const garbage = "\u0016\u0003\u0001\u0002\u0000 %PDF-1.7 \ufffd"

const notice: Reply = { send: { type: "notice", data: { text: "by the way" } } }

const half = (text: string): string => text.slice(0, text.length >> 1)

/** More than any recursion goes down. */
const depth = 200_000
const nested = `${"[".repeat(depth)}${"]".repeat(depth)}`

/** The reply with all that is needed, and an observation of that kind, or another member where it has none. */
const nestedIn = (text: string): string => {
  const json = Either.getOrUndefined(Json.parse(text))
  const data = Json.isObject(json) && Json.isObject(json.data) ? json.data : {}
  const name = data.observation === undefined ? "nested" : "observation"
  const members = Object.entries(data).filter(([key]) => key !== name)
  const others = members.map(([key, value]) => `,${Json.stringify(key)}:${Json.stringify(value)}`).join("")
  return `{"type":"nested","data":{"${name}":${nested}${others}}}`
}

const padding = 150_000_000

const padded = (text: string): string =>
  text.startsWith('{"') ? `{"padding":"${"x".repeat(padding)}",${text.slice(1)}` : `${" ".repeat(padding)}${text}`
