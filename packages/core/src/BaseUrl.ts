/**
 * A container's base URL, `http(s)://HOST[:PORT][/PATH]`: checked once, so that all
 * else can rely on it, and parted from the userinfo that must never be shown.
 *
 * @since 0.1.0
 */

import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { InvalidUrls } from "./MiroirError.js"

/**
 * A base URL that has been checked: what `parse` gives.
 *
 * @since 0.1.0
 * @category models
 */
export interface BaseUrl {
  /** Normalised: no userinfo, query or fragment, no trailing slash. Two URLs of one container have the same. */
  readonly href: string
  /** `user:password` in Base64, where the URL had a userinfo: for HTTP's Basic scheme, where there is no token. */
  readonly userinfo: Option.Option<Redacted.Redacted>
}

/**
 * Reads a base URL. Unlike the WHATWG parser it wants the host to be there: `http:x`, `http:/x` and `http:///x` have none.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parse = (text: string): Either.Either<BaseUrl, InvalidUrls> => {
  if (!/^https?:\/\/[^/\\?#\s][^\s]*$/i.test(text) || !URL.canParse(text)) {
    return Either.left(new InvalidUrls({ url: withoutUserinfo(text) }))
  }
  const url = new URL(text)
  const userinfo = `${decoded(url.username)}:${decoded(url.password)}`
  return Either.right({
    href: `${url.origin}${url.pathname.replace(/\/+$/, "")}`,
    userinfo: userinfo === ":" ? Option.none() : Option.some(Redacted.make(Buffer.from(userinfo).toString("base64")))
  })
}

/**
 * The `Authorization` header for requests to a base URL: the token's, else the userinfo's, else none.
 *
 * @since 0.1.0
 * @category getters
 */
export const authorization = (
  base: BaseUrl,
  token: Option.Option<Redacted.Redacted>
): Option.Option<Redacted.Redacted> =>
  Option.orElse(
    Option.map(token, (value) => Redacted.make(`Bearer ${Redacted.value(value)}`)),
    () => Option.map(base.userinfo, (value) => Redacted.make(`Basic ${Redacted.value(value)}`))
  )

/**
 * The address of the WebSocket: `ws(s)://HOST[:PORT][/PATH]/ws`.
 *
 * @since 0.1.0
 * @category getters
 */
export const webSocket = (base: BaseUrl): string => `${base.href.replace(/^http/, "ws")}/ws`

/**
 * The address of a call. Path parts are percent-encoded, so that a name that a server chose stays within its part; but
 * an empty name, `.` and `..` fit into no path, since URLs resolve dots away even where they are encoded.
 *
 * @since 0.1.0
 * @category getters
 */
export const endpoint = (base: BaseUrl, ...parts: ReadonlyArray<string>): string =>
  [base.href, ...parts.map((part) => encodeURIComponent(part.toWellFormed()))].join("/")

/**
 * What can be shown of a text that should have been a URL: all up to the last `@` may be a secret.
 *
 * @since 0.1.0
 * @category getters
 */
export const withoutUserinfo = (text: string): string => text.replace(/^(\w+:\/+)?.*@/s, "$1")

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
