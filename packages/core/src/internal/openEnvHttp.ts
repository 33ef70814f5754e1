/** What an OpenEnv server says of itself over HTTP. */

import type * as HttpClient from "@effect/platform/HttpClient"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type * as BaseUrl from "../BaseUrl.js"
import { ConnectionFailed, type HttpStatusError, type UnexpectedReply } from "../MiroirError.js"
import * as OpenEnv from "../OpenEnv.js"
import * as Http from "./http.js"

/** Without a deadline: that is the caller's. */
export const askSchema = (server: {
  readonly base: BaseUrl.BaseUrl
  readonly token: Option.Option<Redacted.Redacted>
}): Effect.Effect<Option.Option<OpenEnv.Actions>, ConnectionFailed, HttpClient.HttpClient> =>
  readSchema(server.base, Http.call({ ...server, method: "GET", path: ["schema"], timeout: Duration.infinity }))

/**
 * What the steps of the env are, by the answer to `GET /schema`; none where the server is no OpenEnv server. Fails where it
 * could not answer.
 */
export const readSchema = <R>(
  base: BaseUrl.BaseUrl,
  answer: Effect.Effect<Http.CallAnswer, ConnectionFailed | HttpStatusError | UnexpectedReply, R>
): Effect.Effect<Option.Option<OpenEnv.Actions>, ConnectionFailed, R> =>
  answer.pipe(
    Effect.map(({ json }) => OpenEnv.actionsOf(json)),
    Effect.catchTags({
      HttpStatusError: (error) =>
        isPassing(error)
          ? new ConnectionFailed({
              url: base.href,
              status: error.status,
              reason: `GET /schema answered ${error.status}`
            })
          : Effect.succeedNone,
      UnexpectedReply: () => Effect.succeedNone
    })
  )

const isPassing = ({ status }: HttpStatusError): boolean =>
  (status >= 500 && status !== 501) || status === 408 || status === 425 || status === 429
