/**
 * Simulated containers for Leasing: what their servers do takes time of the Clock only. It also watches what Leasing
 * may never do, whatever the containers are like, and writes it down as a fault.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import type { Json } from "@miroir-effect/core/Json"
import { ConnectionFailed, ConnectionLost, EnvError, UnexpectedReply } from "@miroir-effect/core/MiroirError"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"

/** What a container's server does. Times are in milliseconds. */
export interface Behaviour {
  /** What its health says: the truth, always the same, or nothing; or that the client has a bug. */
  readonly health: "honest" | "free" | "leased" | "unhealthy" | "hang" | "die"
  readonly healthDelay: number
  /** What it does about a handshake and the opening `state`. */
  readonly opening:
    | "accept"
    | "full"
    | "cut"
    | "factory"
    | "garbled"
    | "busy"
    | "down"
    | "refuse"
    | "badToken"
    | "hang"
    | "silent"
    | "die"
  /** For the handshake, and again for the `state`. */
  readonly openDelay: number
  /** What a close takes. */
  readonly closeDelay: number
  /** How long after the close it still thinks that we are there. */
  readonly notice: number
  /** Whether another process holds it. */
  readonly foreign: boolean
}

export const good: Behaviour = {
  health: "honest",
  healthDelay: 0,
  opening: "accept",
  openDelay: 0,
  closeDelay: 0,
  notice: 0,
  foreign: false
}

/** `at` numbers what happens in the world, in its order. */
export interface Fact {
  readonly verdict: "free" | "leased" | "unhealthy" | "refusing"
  readonly at: number
}

export interface Container {
  readonly url: string
  behaviour: Behaviour
  /** What there is of ours: from the handshake until the socket is closed. */
  ours: "none" | "opening" | "held"
  /** The tokens with which its health is being asked. */
  readonly probing: Map<string, number>
  /** What a probe or an opening has told last, by the token that it came with, and when anything told each verdict. */
  readonly known: Map<string, Fact>
  readonly told: Map<string, number>
  /** When the last session of ours was closed. */
  released: number
  /** When its health was asked, and when a handshake began. */
  readonly probes: Array<number>
  readonly handshakes: Array<number>
  /** What the handshakes came with. */
  readonly credentials: Array<string>
  /** A session of ours, as its server sees it. */
  accepted: boolean
  /** Until when its server thinks that we are still there. */
  lingers: number
}

/** Whether its server has a session, or thinks so. */
export const isBusy = (container: Container, now: number): boolean =>
  container.behaviour.foreign || container.accepted || now < container.lingers

export interface World {
  readonly containers: ReadonlyArray<Container>
  /** The text of the URL file, whatever its name. */
  urlFile: string
  /** What may never be and was. */
  readonly faults: Array<string>
  /** The number of the next thing that happens. */
  readonly moment: () => number
  readonly probing: () => number
  readonly opening: () => number
  readonly held: () => number
  readonly layer: Layer.Layer<SessionExchange.SessionExchange | HttpClient.HttpClient | FileSystem.FileSystem>
}

export interface Limits {
  /** For the handshake, and again for the `state`. */
  readonly openingTimeout: number
  readonly maxProbes: number
  readonly maxHandshakes: number
}

export const make = (count: number, limits: Limits): World => {
  const containers = Array.from(
    { length: count },
    (_, index): Container => ({
      url: `http://c${index}`,
      behaviour: good,
      ours: "none",
      probing: new Map(),
      known: new Map(),
      told: new Map(),
      released: -1,
      probes: [],
      handshakes: [],
      credentials: [],
      accepted: false,
      lingers: 0
    })
  )
  const faults: Array<string> = []
  const fault = (text: string) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      faults.push(`${Math.round(now)} ms: ${text}`)
    })
  let moments = 0
  const know = (container: Container, authorization: string, verdict: Fact["verdict"]): void => {
    container.known.set(authorization, { verdict, at: moments })
    container.told.set(`${authorization} ${verdict}`, moments)
    moments++
  }
  const find = (url: string): Container => {
    const container = containers.find((one) => url === one.url || url.startsWith(`${one.url}/`))
    if (container === undefined) throw new Error(`nobody lives at ${url}`)
    return container
  }
  const total = (of: (container: Container) => number): number => containers.reduce((sum, one) => sum + of(one), 0)
  const probing = () => total((one) => Array.from(one.probing.values()).reduce((sum, n) => sum + n, 0))
  const opening = () => total(({ ours }) => (ours === "opening" ? 1 : 0))
  const held = () => total(({ ours }) => (ours === "held" ? 1 : 0))

  const http = HttpClient.make((request) => {
    // Asked while a session is opened, where no health has told that this is a Miroir env.
    if (request.url.endsWith("/schema")) {
      return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(null, { status: 404 })))
    }
    const container = find(request.url)
    const token = request.headers.authorization ?? ""
    const begin = Effect.gen(function* () {
      container.probes.push(yield* Clock.currentTimeMillis)
      const others = container.probing.get(token) ?? 0
      container.probing.set(token, others + 1)
      if (others > 0) yield* fault(`two probes at ${container.url} with one token`)
      if (probing() > limits.maxProbes) yield* fault(`${probing()} probes under way`)
      if (container.ours !== "none") yield* fault(`${container.url} is asked for its health: ${container.ours}`)
    })
    const answer = Effect.gen(function* () {
      yield* Effect.sleep(container.behaviour.healthDelay)
      const { health, opening } = container.behaviour
      if (health === "hang") return yield* Effect.never
      if (health === "die") return yield* Effect.dieMessage("a bug")
      if (opening === "down") {
        return yield* new HttpClientError.RequestError({ request, reason: "Transport", description: "down" })
      }
      const leased = health === "honest" ? isBusy(container, yield* Clock.currentTimeMillis) : health === "leased"
      know(container, token, health === "unhealthy" ? "unhealthy" : leased ? "leased" : "free")
      const text = JSON.stringify({ status: health === "unhealthy" ? "starting" : "healthy", leased })
      const response = HttpClientResponse.fromWeb(
        request,
        new Response(null, { headers: { "content-length": String(text.length) } })
      )
      // The text of a web response comes by a promise, which no clock of ours can run.
      return Object.defineProperty(response, "text", { value: Effect.succeed(text) })
    })
    const end = Effect.sync(() => {
      container.probing.set(token, (container.probing.get(token) ?? 1) - 1)
    })
    return Effect.acquireUseRelease(
      begin,
      () => Effect.onError(answer, () => Effect.sync(() => know(container, token, "unhealthy"))),
      () => end
    )
  })

  const open = (
    base: BaseUrl.BaseUrl,
    token: Option.Option<Redacted.Redacted>
  ): Effect.Effect<SessionExchange.Exchange, ConnectionFailed, Scope.Scope> =>
    Effect.gen(function* () {
      const container = find(base.href)
      const { url } = container
      const authorization = Option.match(BaseUrl.authorization(base, token), {
        onNone: () => "",
        onSome: Redacted.value
      })
      const socket = { open: false, accepted: false, full: false }
      /** What this comes to; it counts once the socket is closed. */
      let verdict: Fact["verdict"] | undefined
      yield* Effect.acquireRelease(
        Effect.gen(function* () {
          container.handshakes.push(yield* Clock.currentTimeMillis)
          container.credentials.push(authorization)
          if (container.ours !== "none") yield* fault(`a handshake with ${url}: ${container.ours}`)
          container.ours = "opening"
          if (opening() > limits.maxHandshakes) yield* fault(`${opening()} handshakes under way`)
        }),
        () =>
          Effect.gen(function* () {
            if (socket.open) yield* Effect.sleep(container.behaviour.closeDelay)
            if (socket.accepted) {
              container.accepted = false
              container.lingers = (yield* Clock.currentTimeMillis) + container.behaviour.notice
            }
            if (container.ours === "held") container.released = moments++
            container.ours = "none"
            if (verdict !== undefined) know(container, authorization, verdict)
          })
      )
      const failed = (reason: string, status?: number) => {
        verdict = status === 401 ? "refusing" : "unhealthy"
        return new ConnectionFailed({ url, reason, ...(status === undefined ? {} : { status }) })
      }
      const handshake = Effect.gen(function* () {
        yield* Effect.sleep(container.behaviour.openDelay)
        switch (container.behaviour.opening) {
          case "hang":
            return yield* Effect.never
          case "down":
            return yield* failed("down")
          case "busy":
            return yield* failed("busy", 503)
          case "die":
            return yield* Effect.dieMessage("a bug")
          case "refuse":
            return yield* failed("no", 401)
          default:
            socket.open = true
            socket.full = isBusy(container, yield* Clock.currentTimeMillis)
            socket.accepted = !socket.full
            container.accepted ||= socket.accepted
        }
      })
      yield* Effect.timeoutFail(handshake, {
        duration: limits.openingTimeout,
        onTimeout: () => failed("no answer")
      })
      const envError = (code: string, meaning: Fact["verdict"]) => {
        verdict = meaning
        return new EnvError({ url, code, reason: "" })
      }
      const reply: Effect.Effect<Json, ConnectionLost | EnvError | UnexpectedReply> = Effect.gen(function* () {
        const asked = yield* Clock.currentTimeMillis
        yield* Effect.sleep(container.behaviour.openDelay)
        switch (socket.full ? "full" : container.behaviour.opening) {
          case "full":
            return yield* envError("CAPACITY_REACHED", "leased")
          case "factory":
            return yield* envError("FACTORY_ERROR", "unhealthy")
          case "badToken":
            return yield* envError("BAD_TOKEN", "refusing")
          case "garbled":
            verdict = "unhealthy"
            return yield* new UnexpectedReply({ url, request: "state", reason: "no JSON" })
          case "silent":
            return yield* Effect.onInterrupt(Effect.never, () =>
              Effect.map(Clock.currentTimeMillis, (now) => {
                if (now >= asked + limits.openingTimeout) verdict = "leased"
              })
            )
          case "accept":
            container.ours = "held"
            return { done: false }
          default:
            verdict = "leased"
            return yield* new ConnectionLost({ url, reason: "cut" })
        }
      })
      return {
        url,
        ask: (ask) =>
          Effect.flatMap(reply, (data) => SessionExchange.readAnswer(url, ask, Either.right({ data, text: "{}" }))),
        askIf: () => Effect.dieMessage("not simulated"),
        hold: () => Effect.dieMessage("not simulated"),
        broken: Effect.succeedNone,
        watchAs: () => {}
      }
    })

  const world: World = {
    containers,
    urlFile: "",
    faults,
    moment: () => moments,
    probing,
    opening,
    held,
    layer: Layer.mergeAll(
      Layer.succeed(HttpClient.HttpClient, http),
      Layer.succeed(SessionExchange.SessionExchange, {
        open
      }),
      FileSystem.layerNoop({ readFile: () => Effect.sync(() => new TextEncoder().encode(world.urlFile)) })
    )
  }
  return world
}
