/**
 * HTTP on undici: the `HttpClient` that everything here which speaks HTTP asks for. The one file that imports undici.
 *
 * Connections are not capped, since waiting for one would count against a health check's two seconds, and undici's own
 * deadlines are off, since ours are the Clock's: its 300 s would cut a model's call of 600 s.
 *
 * @since 0.1.0
 */

import { Socket } from "node:net"
import * as HttpClient from "@effect/platform/HttpClient"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Agent, buildConnector, type Dispatcher } from "undici"

/**
 * How long a connection may take to be opened, beside the deadline of the call that waits for it: what has been given
 * up goes on connecting, and must not pile up against a host that drops packets.
 */
const connectTimeout = 30_000

/** `@effect/platform-node` sets an hour with each request. */
const withoutHeadersTimeout =
  (dispatch: Dispatcher["dispatch"]): Dispatcher["dispatch"] =>
  (options, handler) =>
    dispatch({ ...options, headersTimeout: 0 }, handler)

/** undici does not destroy a socket that is still connecting; it would keep the process alive. */
const makeDispatcher = Effect.acquireRelease(
  Effect.sync(() => {
    const connecting = new Set<Socket>()
    const open = buildConnector({ timeout: connectTimeout })
    const connect: typeof open = (options, callback) => {
      // The types say void.
      const socket: unknown = open(options, (...result) => {
        if (socket instanceof Socket) connecting.delete(socket)
        callback(...result)
      })
      if (socket instanceof Socket) connecting.add(socket)
    }
    const agent = new Agent({ connect, headersTimeout: 0, bodyTimeout: 0 })
    return { agent, connecting }
  }),
  ({ agent, connecting }) =>
    Effect.promise(async () => {
      for (const socket of connecting) socket.destroy()
      await agent.destroy()
    })
)

/** How many requests are begun in one turn of the event loop. */
const requestsATurn = 3

/**
 * Lets so many pass in each turn of the event loop: hundreds at once would keep it busy for as long as it takes to send
 * them all, and the first answers waiting.
 */
const inTurns = (atOnce: number): Effect.Effect<void> => {
  let left = atOnce
  const waiting = new Set<() => void>()
  const nextTurn = (): void => {
    left = atOnce
    for (const pass of waiting) {
      if (left === 0) break
      waiting.delete(pass)
      pass()
    }
  }
  return Effect.async((resume) => {
    const pass = (): void => {
      if (left-- === atOnce) setImmediate(nextTurn)
      resume(Effect.void)
    }
    if (left > 0) return pass()
    waiting.add(pass)
    return Effect.sync(() => {
      waiting.delete(pass)
    })
  })
}

const paced = Effect.map(HttpClient.HttpClient, (client) => {
  const turn = inTurns(requestsATurn)
  return HttpClient.transform(client, (response) => Effect.zipRight(turn, response))
})

/**
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<HttpClient.HttpClient> = Layer.effect(HttpClient.HttpClient, paced).pipe(
  Layer.provide(NodeHttpClient.layerUndiciWithoutDispatcher),
  Layer.provide(
    Layer.scoped(
      NodeHttpClient.Dispatcher,
      Effect.map(makeDispatcher, ({ agent }) => agent.compose(withoutHeadersTimeout))
    )
  )
)
