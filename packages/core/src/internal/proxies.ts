/**
 * The proxies that the environment names, read as the Python client's libraries read them: calls as httpx does, sockets
 * as websockets does. And tunnels through them. docs/decisions/0014-proxies.md says why this is done by hand.
 */

import * as Http from "node:http"
import * as Https from "node:https"
import type { Socket } from "node:net"
import * as Either from "effect/Either"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as BaseUrl from "../BaseUrl.js"
import { Explained, networkReason } from "./networkReason.js"

export interface Proxy {
  /** For messages: its address without userinfo, and the variable that names it. */
  readonly name: string
  /** `http(s)://HOST:PORT`; none where the variable holds nothing of the kind. */
  readonly origin: Option.Option<string>
  /** The value of `Proxy-Authorization`, where the address has a userinfo. */
  readonly authorization: Option.Option<Redacted.Redacted>
}

/** The proxy to take to a URL, if any. */
export type Proxies = (url: URL) => Proxy | undefined

/** The variables that name a proxy, by the scheme of what it is to lead to and without their `_PROXY`; the first counts. */
const variables: Readonly<Record<string, ReadonlyArray<string>>> = {
  "http:": ["HTTP", "ALL"],
  "https:": ["HTTPS", "ALL"],
  "ws:": ["WS", "HTTPS", "HTTP", "ALL"],
  "wss:": ["WSS", "HTTPS", "ALL"]
}

/** Undefined where the environment names no proxy. */
export const fromEnvironment = (environment: NodeJS.ProcessEnv = process.env): Proxies | undefined => {
  const named = namedIn(environment)
  const proxies = new Map<string, Proxy>()
  for (const name of new Set(Object.values(variables).flat())) {
    const address = named.get(name)
    if (address !== undefined) proxies.set(name, parse(`${name}_PROXY`, address))
  }
  if (proxies.size === 0) return undefined
  const exempt = (named.get("NO") ?? "").split(",").flatMap(readExemption)
  return (url) => {
    const name = variables[url.protocol]?.find((name) => proxies.has(name))
    return name === undefined || exempt.some((holds) => holds(url)) ? undefined : proxies.get(name)
  }
}

/**
 * As Python has it: whatever the case of a name, but the one that ends in small letters counts, and set to nothing it
 * takes the other back. Where a web server runs this as a CGI script, HTTP_PROXY may be a visitor's header `Proxy`.
 */
const namedIn = (environment: NodeJS.ProcessEnv): ReadonlyMap<string, string> => {
  const named = new Map<string, string>()
  const suffix = "_proxy"
  const variables = Object.entries(environment).filter(([name]) => name.toLowerCase().endsWith(suffix))
  const bare = (name: string): string => name.slice(0, -suffix.length).toUpperCase()
  for (const [name, value = ""] of variables) if (value !== "") named.set(bare(name), value)
  if (environment.REQUEST_METHOD !== undefined) named.delete("HTTP")
  for (const [name, value = ""] of variables) {
    if (!name.endsWith(suffix)) continue
    if (value === "") named.delete(bare(name))
    else named.set(bare(name), value)
  }
  return named
}

const parse = (variable: string, address: string): Proxy =>
  Either.match(BaseUrl.parse(address.includes("://") ? address : `http://${address}`), {
    onLeft: () => ({ name: variable, origin: Option.none(), authorization: Option.none() }),
    onRight: (base) => {
      const { origin } = new URL(base.href)
      return {
        name: `${origin} (${variable})`,
        origin: Option.some(origin),
        authorization: BaseUrl.authorization(base, Option.none())
      }
    }
  })

const defaultPorts: Readonly<Record<string, string>> = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443" }

const portOf = (url: URL): string => url.port || (defaultPorts[url.protocol] ?? "")

/**
 * An entry of NO_PROXY: `*`, or a host with its subdomains; with a port, for that port alone, and with a scheme, for
 * that scheme and host alone. A leading dot says nothing. Networks (10.0.0.0/8) are unknown, as they are to Python.
 */
const readExemption = (entry: string): ReadonlyArray<(url: URL) => boolean> => {
  const text = entry.trim().toLowerCase()
  if (text === "") return []
  if (text === "*") return [() => true]
  const [, scheme, rest = ""] = /^(?:(\w+):\/\/)?\.*(.*)$/.exec(text) ?? []
  // An IPv6 address has no port behind it unless it is in brackets.
  const [, name = "", port] = /^(\[.*\]|[^:]*):(\d+)$/.exec(rest) ?? [undefined, rest]
  const host = /^[\da-f.]*:[\da-f:.]*$/.test(name) ? `[${name}]` : name
  return [
    (url) =>
      (port === undefined || port === portOf(url)) &&
      (url.hostname === host || (scheme === undefined && url.hostname.endsWith(`.${host}`))) &&
      (scheme === undefined || scheme === "all" || url.protocol.replace(/^ws/, "http") === `${scheme}:`)
  ]
}

/**
 * Opens a connection to a URL's host and port through a proxy, by CONNECT. It is `done` once at most, and
 * not before there is a result: the function that cuts the connection, made or not.
 */
export const tunnel = (
  proxy: Proxy,
  target: URL,
  done: (tunnel: Either.Either<Socket, Explained>) => void
): (() => void) => {
  if (Option.isNone(proxy.origin)) {
    const reason = `${proxy.name} names no http(s) proxy, as http://HOST:PORT; others, SOCKS among them, cannot be used`
    queueMicrotask(() => done(Either.left(new Explained({ reason }))))
    return constVoid
  }
  const host = `${target.hostname}:${portOf(target)}`
  const { request: open } = proxy.origin.value.startsWith("https:") ? Https : Http
  const request = open(proxy.origin.value, {
    method: "CONNECT",
    path: host,
    headers: { host, ...authorizationOf(proxy) },
    agent: false
  })
  let cut = (): void => void request.destroy()
  request.once("connect", ({ statusCode = 0 }, socket: Socket, head) => {
    cut = () => void socket.destroy()
    // Whoever gets it may need a moment to listen, and an error that nobody hears would end the process.
    socket.on("error", constVoid)
    if (statusCode < 200 || statusCode > 299) {
      cut()
      return done(Either.left(new Explained({ reason: `the proxy ${proxy.name} ${refusal(statusCode)}` })))
    }
    if (head.length > 0) socket.unshift(head)
    return done(Either.right(socket))
  })
  request.on("error", (error) => done(Either.left(unusable(proxy, error))))
  request.end()
  return () => cut()
}

/** The failure of a connection to a proxy. */
export const unusable = (proxy: Proxy, error: Error): Explained =>
  new Explained({ reason: `the proxy ${proxy.name} cannot be used: ${networkReason(error)}` })

/** What a proxy did that answered with such a status instead of letting a request through. */
export const refusal = (status: number): string =>
  status === 407
    ? "wants a user and a password that it takes (407): write them into its address, as http://USER:PASSWORD@HOST:PORT"
    : `refused with ${status}; if it is not needed on this way, name the host in NO_PROXY`

/** The header that a proxy with a userinfo wants. */
export const authorizationOf = (proxy: Proxy): Record<string, string> =>
  Option.match(proxy.authorization, {
    onNone: () => ({}),
    onSome: (value) => ({ "proxy-authorization": Redacted.value(value) })
  })
