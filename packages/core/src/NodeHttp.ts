/**
 * HTTP on undici: the `HttpClient` that everything here which speaks HTTP asks for. The one file that imports undici.
 *
 * Connections are not capped, since waiting for one would count against a health check's two seconds, and undici's own
 * deadlines are off, since ours are the Clock's: its 300 s would cut a model's call of 600 s.
 *
 * @since 0.1.0
 */

import { Socket } from "node:net"
import * as Headers from "@effect/platform/Headers"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { constUndefined } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Agent, buildConnector, type Dispatcher } from "undici"
import * as Http from "./internal/http.js"
import * as Proxies from "./internal/proxies.js"

/**
 * How long a connection may take to be opened, beside the deadline of the call that waits for it: what has been given
 * up goes on connecting, and must not pile up against a host that drops packets.
 */
const connectTimeout = 30_000

/** `@effect/platform-node` sets an hour with each request. */
const withoutHeadersTimeout: Interceptor = (dispatch) => (options, handler) =>
  dispatch({ ...options, headersTimeout: 0 }, handler)

/** undici does not destroy a socket that is still connecting; it would keep the process alive. */
const makeDispatcher = (proxies: Proxies.Proxies | undefined) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const connecting = new Set<() => void>()
      const open = buildConnector({ timeout: connectTimeout })
      const connect: buildConnector.connector = (options, callback) => {
        const cut = (): void => {
          if (socket instanceof Socket) socket.destroy()
        }
        // The types say void.
        const socket: unknown = open(options, (...result) => {
          connecting.delete(cut)
          callback(...result)
        })
        connecting.add(cut)
      }
      const agents: Array<Agent> = []
      const agentOn = (connect: buildConnector.connector): Agent => {
        const agent = new Agent({ connect, headersTimeout: 0, bodyTimeout: 0, maxResponseSize: Http.maxBodyBytes })
        agents.push(agent)
        return agent
      }
      const agentOf = (proxy: Proxies.Proxy): Agent => agentOn(connectThrough(proxy, connect, connecting))
      const interceptors = proxies === undefined ? [] : [throughProxies(proxies, agentOf)]
      const dispatcher = agentOn(connect).compose([...interceptors, withoutHeadersTimeout])
      return { dispatcher, agents, connecting }
    }),
    ({ agents, connecting }) =>
      Effect.promise(async () => {
        for (const cut of connecting) cut()
        for (const agent of agents) await agent.destroy()
      })
  )

type Interceptor = (dispatch: Dispatcher["dispatch"]) => Dispatcher["dispatch"]

/** TLS goes through a tunnel; a plain call is handed to the proxy, many of which open tunnels to port 443 only. */
const throughProxies = (proxies: Proxies.Proxies, agentOf: (proxy: Proxies.Proxy) => Agent): Interceptor => {
  const agents = new Map<Proxies.Proxy, Agent>()
  return (dispatch) => (options, handler) => {
    const url = new URL(options.path, options.origin)
    const proxy = proxies(url)
    if (proxy === undefined) return dispatch(options, handler)
    const agent = agents.get(proxy) ?? agentOf(proxy)
    agents.set(proxy, agent)
    if (url.protocol !== "http:" || Option.isNone(proxy.origin)) return agent.dispatch(options, handler)
    // The types allow for other shapes of headers; `@effect/platform-node` has an object.
    const headers = { host: url.host, ...Proxies.authorizationOf(proxy), ...options.headers }
    return agent.dispatch({ ...options, headers, origin: proxy.origin.value, path: url.href }, handler)
  }
}

/** Connects to a proxy, or through it to another, and begins TLS behind it. */
const connectThrough =
  (proxy: Proxies.Proxy, connect: buildConnector.connector, connecting: Set<() => void>): buildConnector.connector =>
  (options, callback) => {
    const target = new URL(`${options.protocol}//${options.host ?? options.hostname}`)
    if (Option.contains(proxy.origin, target.origin)) {
      connect(options, (...[error, socket]) =>
        error === null ? callback(null, socket) : callback(Proxies.unusable(proxy, error), null)
      )
      return
    }
    const timer = setTimeout(() => cut(), connectTimeout)
    const cut = Proxies.tunnel(proxy, target, (tunnel) => {
      clearTimeout(timer)
      connecting.delete(cut)
      Either.match(tunnel, {
        onLeft: (error) => callback(error, null),
        onRight: (httpSocket) => connect({ ...options, httpSocket }, callback)
      })
    })
    connecting.add(cut)
  }

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

/** What a request is aborted with, which nobody gets to see. */
const abandoned = new DOMException("nobody waits for the answer any more", "AbortError")

/** Reads a short answer whole, without a stream, a signal and promises: they cost more than all the rest. */
const briefly =
  (dispatcher: Dispatcher): Http.Brief[typeof Http.brief] =>
  (request, maxBytes) =>
    Effect.async((resume) => {
      const { origin, pathname, search } = new URL(request.url)
      let controller: Dispatcher.DispatchController | undefined
      let isAbandoned = false
      const abandon = (): void => {
        isAbandoned = true
        controller?.abort(abandoned)
      }
      let status = 0
      let headers = Headers.empty
      const chunks: Array<Uint8Array> = []
      let bytes = 0
      const answer = (): void => {
        const body = Buffer.concat(chunks)
        const text = Effect.sync(() => new TextDecoder().decode(body))
        resume(Effect.succeed({ status, headers, text, stream: Stream.make(body) }))
      }
      dispatcher.dispatch(
        { origin, path: pathname + search, method: "GET", headers: request.headers },
        {
          onRequestStart: (started) => {
            controller = started
            if (isAbandoned) abandon()
          },
          onResponseStart: (_, code, given) => {
            status = code
            headers = Headers.fromInput(given)
          },
          onResponseData: (_, chunk) => {
            chunks.push(chunk)
            bytes += chunk.length
            if (bytes <= maxBytes) return
            answer()
            abandon()
          },
          onResponseEnd: answer,
          onResponseError: (_, cause) =>
            resume(new HttpClientError.RequestError({ request, reason: "Transport", cause }))
        }
      )
      return Effect.sync(abandon)
    })

const paced = Effect.map(
  Effect.all([HttpClient.HttpClient, NodeHttpClient.Dispatcher]),
  ([client, dispatcher]): HttpClient.HttpClient => {
    const turn = inTurns(requestsATurn)
    const short = briefly(dispatcher)
    const extra: Http.Brief = {
      [Http.brief]: (request, maxBytes) => Effect.zipRight(turn, short(request, maxBytes))
    }
    return Object.assign(
      HttpClient.transform(client, (response) => Effect.zipRight(turn, response)),
      extra
    )
  }
)

const layerOf = (proxies: () => Proxies.Proxies | undefined): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(HttpClient.HttpClient, paced).pipe(
    // Fresh: it would be shared by all layers of one program, whatever their dispatcher.
    Layer.provide(Layer.fresh(NodeHttpClient.layerUndiciWithoutDispatcher)),
    Layer.provide(
      Layer.scoped(
        NodeHttpClient.Dispatcher,
        Effect.map(
          Effect.suspend(() => makeDispatcher(proxies())),
          ({ dispatcher }) => dispatcher
        )
      )
    )
  )

/**
 * An `HttpClient` on undici, with connections of its own, which are cut when the scope closes. It goes through the
 * proxies of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, which are read when the layer is built.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<HttpClient.HttpClient> = layerOf(Proxies.fromEnvironment)

/**
 * The same, whatever proxies the environment names: for servers that are surely near, such as those of a test.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirect: Layer.Layer<HttpClient.HttpClient> = layerOf(constUndefined)
