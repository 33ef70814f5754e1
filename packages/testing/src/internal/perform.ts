/** What a peer out there does on its WebSocket, well or badly. */

import type * as Net from "node:net"
import * as Json from "@miroir-effect/core/Json"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { WebSocket } from "ws"
import type { Reply } from "../ScriptedContainer.js"
import { reset } from "./reset.js"

/** The server's end of a connection. */
export interface Peer {
  readonly webSocket: WebSocket
  /** The TCP connection under it, for what a WebSocket does not do. */
  readonly socket: Net.Socket
  /** Sends a close frame. */
  readonly close: (code: number, reason?: string) => void
}

export const perform = (peer: Peer, reply: Reply): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { socket, webSocket } = peer
    if ("reply" in reply) return Effect.delay(perform(peer, reply.reply), reply.delay)
    if ("many" in reply) return Effect.forEach(reply.many, (one) => perform(peer, one), { discard: true })
    if ("drip" in reply) return drip(socket, textFrame(reply.drip), reply.pause ?? Duration.zero)
    // Where the client has left, `ws` tells a send's callback so; there is nobody left to answer.
    if ("send" in reply) webSocket.send(Json.stringify(reply.send), ignore)
    else if ("raw" in reply) webSocket.send(reply.raw, ignore)
    else if ("binary" in reply) webSocket.send(Buffer.from(reply.binary), { binary: true }, ignore)
    else if ("torn" in reply) {
      const frame = textFrame(reply.torn)
      socket.write(frame.subarray(0, frame.length >> 1), () => reset(socket))
    } else if ("close" in reply) {
      if (reply.close === noCloseFrame) socket.destroySoon()
      else peer.close(reply.close, reply.reason)
    } else if ("drop" in reply) reset(socket)
    else if ("stall" in reply) webSocket.pause()
    return Effect.void
  })

/** Runs one effect after the other, also where one takes its time. */
export const inTurn = (run: (effect: Effect.Effect<void>) => void): ((effect: Effect.Effect<void>) => void) => {
  const waiting: Array<Effect.Effect<void>> = []
  let busy = false
  const next = (): void => {
    const effect = waiting.shift()
    busy = effect !== undefined
    if (effect !== undefined) run(Effect.ensuring(effect, Effect.sync(next)))
  }
  return (effect) => {
    waiting.push(effect)
    if (!busy) next()
  }
}

/** The code that stands for the lack of one. */
const noCloseFrame = 1006

/** A text frame from a server, as RFC 6455, section 5.2, has it. */
const textFrame = (text: string): Buffer => {
  const payload = Buffer.from(text)
  const { length } = payload
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head[0] = 0x81
  if (head.length === 2) head[1] = length
  else if (head.length === 4) {
    head[1] = 126
    head.writeUInt16BE(length, 2)
  } else {
    head[1] = 127
    head.writeBigUInt64BE(BigInt(length), 2)
  }
  return Buffer.concat([head, payload])
}

/** In packets of one byte each. */
const drip = (socket: Net.Socket, bytes: Buffer, pause: Duration.DurationInput): Effect.Effect<void> =>
  Effect.gen(function* () {
    const wait = Duration.toMillis(pause) > 0 ? Effect.sleep(pause) : nextTurn
    socket.setNoDelay(true)
    for (let at = 0; at < bytes.length && socket.writable; at++) {
      socket.write(bytes.subarray(at, at + 1))
      yield* wait
    }
  })

const nextTurn: Effect.Effect<void> = Effect.async((resume) => {
  setImmediate(() => resume(Effect.void))
})

const ignore = (): void => {}
