/** How long a server asks to be left alone. */

import type * as Headers from "@effect/platform/Headers"
import * as Duration from "effect/Duration"

/**
 * `retry-after-ms` in milliseconds, else `Retry-After` (RFC 9110, 10.2.3) in seconds, fractions too, or as an HTTP
 * date; zero where there is none that can be read. `now` is in milliseconds since the epoch.
 */
export const retryAfter = (headers: Headers.Headers, now: number): Duration.Duration => {
  const millis = number(headers["retry-after-ms"])
  if (millis !== undefined) return Duration.millis(millis)
  const text = headers["retry-after"]?.trim()
  const seconds = number(text)
  if (seconds !== undefined) return Duration.seconds(seconds)
  const date = text === undefined || !httpDate.test(text) ? Number.NaN : Date.parse(inGmt(text))
  return Duration.millis(Number.isNaN(date) ? 0 : Math.max(0, date - now))
}

const number = (text: string | undefined): number | undefined =>
  text !== undefined && /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined

/** All three forms have a month's name and a time; `Date.parse` alone would read a year out of almost anything. */
const httpDate = /^[A-Z][a-z]{2,8},? .*[A-Z][a-z]{2}.*\d{2}:\d{2}:\d{2}/

/** The oldest of the three forms names no zone and means GMT. */
const inGmt = (text: string): string => (/(GMT|UTC|Z|[+-]\d{4})$/.test(text) ? text : `${text} GMT`)
