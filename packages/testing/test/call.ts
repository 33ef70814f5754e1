/** An HTTP call by `node:http`, which shows what became of the connection. */
import * as Http from "node:http"
import * as Effect from "effect/Effect"

export interface Answered {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
  readonly whole: boolean
}

export const call = (
  url: string,
  options: { readonly method?: string; readonly headers?: Record<string, string>; readonly body?: string } = {}
): Effect.Effect<Answered, string> =>
  Effect.async((resume) => {
    const request = Http.request(url, { method: "GET", agent: false, ...options }, (response) => {
      let body = ""
      response.on("data", (chunk: Buffer) => {
        body += chunk.toString()
      })
      response.on("error", () => {})
      response.on("close", () =>
        resume(
          Effect.succeed({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body,
            whole: response.complete
          })
        )
      )
    })
    request.on("error", (error) => resume(Effect.fail(error.message)))
    request.end(options.body)
    return Effect.sync(() => request.destroy())
  })
