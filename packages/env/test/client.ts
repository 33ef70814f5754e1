/** A client that knows no more of the protocol than its frames: raw `ws` and `fetch`. */
import * as Json from "@miroir-effect/core/Json"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import { WebSocket } from "ws"

export class Refused extends Data.TaggedError("Refused")<{ readonly status: number }> {}

export interface Client {
  readonly socket: WebSocket
  /** The next frame that comes in. */
  readonly next: Effect.Effect<Json.JsonObject>
  /** Sends a frame, which may be a text that is none, and takes the next that comes in. */
  readonly ask: (frame: Json.Json | Buffer) => Effect.Effect<Json.JsonObject>
  /** The close code. */
  readonly closed: Effect.Effect<number>
}

export const connect = (
  url: string,
  headers: Record<string, string> = {}
): Effect.Effect<Client, Refused, Scope.Scope> =>
  Effect.gen(function* () {
    const frames = yield* Queue.unbounded<string>()
    const closed = yield* Deferred.make<number>()
    const open = Effect.async<WebSocket, Refused>((resume) => {
      const socket = new WebSocket(`${url.replace(/^http/, "ws")}/ws`, { headers })
      socket.on("message", (data) => frames.unsafeOffer(data.toString()))
      socket.on("close", (code) => Deferred.unsafeDone(closed, Effect.succeed(code)))
      socket.on("error", () => resume(new Refused({ status: 0 })))
      socket.on("unexpected-response", (_, response) => resume(new Refused({ status: response.statusCode ?? 0 })))
      socket.on("open", () => resume(Effect.succeed(socket)))
    })
    const socket = yield* Effect.acquireRelease(open, (socket) => Effect.sync(() => socket.terminate()))
    const next = Effect.flatMap(Queue.take(frames), (text) => Effect.orDie(objectOf(text)))
    const ask = (frame: Json.Json | Buffer) =>
      Effect.zipRight(
        Effect.sync(() =>
          socket.send(Buffer.isBuffer(frame) || typeof frame === "string" ? frame : Json.stringify(frame))
        ),
        next
      )
    return { socket, next, ask, closed: Deferred.await(closed) }
  })

export const http = (
  url: string,
  init: { readonly method?: string; readonly body?: string; readonly token?: string } = {}
): Effect.Effect<{ readonly status: number; readonly body: Json.Json }> =>
  Effect.promise(async () => {
    const headers = init.token === undefined ? {} : { authorization: `Bearer ${init.token}` }
    const response = await fetch(url, { ...init, headers })
    return { status: response.status, text: await response.text() }
  }).pipe(
    Effect.flatMap(({ status, text }) => Effect.map(Effect.orDie(Json.parse(text)), (body) => ({ status, body })))
  )

const objectOf = (text: string) => Effect.filterOrFail(Json.parse(text), Json.isObject, () => "no object")

export const reset = (task_id: string, more: Json.JsonObject = {}): Json.JsonObject => ({
  type: "reset",
  data: { task_id, episode_id: "e-1", max_seconds: null, coworkers: true, ...more }
})

export const step = (tool_name: string, args: Json.Json = {}, episode_id = "e-1"): Json.JsonObject => ({
  type: "step",
  data: { type: "call_tool", tool_name, arguments: args, metadata: { episode_id } }
})

export const record: Json.JsonObject = { type: "record", data: { episode_id: "e-1" } }

/** A member of nested objects, or undefined. */
export const at = (value: Json.Json | undefined, ...keys: ReadonlyArray<string>): Json.Json | undefined =>
  keys.reduce<Json.Json | undefined>((inner, key) => (Json.isObject(inner) ? inner[key] : undefined), value)
