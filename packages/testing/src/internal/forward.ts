/** Hands an HTTP request on to another server. */

import * as Http from "node:http"
import * as Https from "node:https"
import * as Effect from "effect/Effect"
import type { Answer, HttpRequest } from "./httpServer.js"

/** What the server behind answers; where it does not, the connection is to be cut. */
export const forward = (base: URL, { body, headers, method, path, query }: HttpRequest): Effect.Effect<Answer> =>
  Effect.flatten(
    Effect.async<Effect.Effect<Answer>>((resume) => {
      const search = query.size === 0 ? "" : `?${query}`
      const { "accept-encoding": _, connection, host, ...passed } = headers
      const { request } = base.protocol === "https:" ? Https : Http
      const sent = request(new URL(`${path}${search}`, base), { method, headers: passed, agent: false }, (response) =>
        resume(Effect.succeed(toAnswer(response)))
      )
      sent.on("error", () => resume(Effect.succeed(unanswered)))
      sent.end(body)
      return Effect.sync(() => sent.destroy())
    })
  )

/** Reads an answer to its end. */
export const toAnswer = (response: Http.IncomingMessage): Effect.Effect<Answer> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    response.on("data", (chunk: Buffer) => chunks.push(chunk))
    response.on("error", () => resume(unanswered))
    response.on("end", () => {
      const { "content-length": length, "transfer-encoding": encoding, connection, ...headers } = response.headers
      const kept = Object.entries(headers).flatMap(([name, value]) =>
        typeof value === "string" ? [[name, value] as const] : []
      )
      resume(
        Effect.succeed({
          status: response.statusCode ?? 0,
          headers: Object.fromEntries(kept),
          text: Buffer.concat(chunks).toString("utf8")
        })
      )
    })
    return Effect.sync(() => response.destroy())
  })

const dropped: Answer = { drop: true }
const unanswered = Effect.succeed(dropped)
