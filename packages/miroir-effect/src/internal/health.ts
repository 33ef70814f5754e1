/** How containers are: asked, and as a table, as counts, as JSON. */

import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as Catalog from "@miroir-effect/core/Catalog"
import type * as Json from "@miroir-effect/core/Json"
import * as Text from "@miroir-effect/core/Text"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

export interface Checked extends Catalog.Health {
  /** Normalised, without userinfo. */
  readonly url: string
}

/** So many are asked at a time. */
const concurrency = 256

/** So many while it is measured how long they take: with more, that would tell how busy this process is. */
const measured = 8

/** Milliseconds for that; whoever's turn does not come in time keeps what the first answer took. */
const measuring = 2000

/**
 * Asks each container, in the order of the list. One that is listed twice counts once.
 *
 * Those that answer are asked once more, and that is what is told: the first time connects, and this process may have
 * just begun, so that it says little of a container's latency.
 */
export const check = Effect.fnUntraced(function* (urls: ReadonlyArray<string>) {
  const catalog = yield* Catalog.Catalog
  const distinct = new Map<string, string>()
  for (const url of urls) {
    const { href } = yield* BaseUrl.parse(url)
    if (!distinct.has(href)) distinct.set(href, url)
  }
  const asked = yield* Effect.forEach(
    distinct,
    ([href, url]) => Effect.map(catalog.health(url), (first) => ({ href, url, first })),
    { concurrency }
  )
  const end = (yield* Clock.currentTimeMillis) + measuring
  return yield* Effect.forEach(
    asked,
    Effect.fnUntraced(function* ({ first, href, url }) {
      const isDue = Option.isSome(first.latency) && (yield* Clock.currentTimeMillis) < end
      const checked: Checked = { url: href, ...(isDue ? yield* catalog.health(url) : first) }
      return checked
    }),
    { concurrency: measured }
  )
})

/** The one that wants to be looked after first. */
export const byUrgency: ReadonlyArray<Catalog.Health["health"]> = ["unhealthy", "leased", "free"]

const colours: Record<Catalog.Health["health"], number> = { unhealthy: 31, leased: 33, free: 32 }

export interface Layout {
  /** Of the terminal, where there is one. */
  readonly columns: number | undefined
  readonly styled: boolean
}

export const tableOf = (checked: ReadonlyArray<Checked>, { columns, styled }: Layout): string => {
  const paint = (cell: string): string => {
    const health = byUrgency.find((name) => name === cell)
    return styled && health !== undefined ? `\u001b[${colours[health]}m${cell}\u001b[39m` : cell
  }
  const headings: ReadonlyArray<Text.Column> = [
    { heading: "container", fit: "cut" },
    { heading: "health", paint },
    { heading: "latency", align: "right" },
    ...(checked.some(({ reason }) => Option.isSome(reason)) ? [{ heading: "why", fit: "cut" } as const] : [])
  ]
  const rows = checked.map((container) => [
    container.url,
    container.health,
    latency(container),
    Option.getOrElse(container.reason, () => "")
  ])
  return Text.table(headings, rows, { width: columns })
}

/** `3 containers: 1 free, 1 leased, 1 unhealthy` */
export const counts = (checked: ReadonlyArray<Checked>): string => {
  const count = (name: Catalog.Health["health"]): number => checked.filter(({ health }) => health === name).length
  return `${Text.counted(checked.length, "container")}: ${count("free")} free, ${count("leased")} leased, ${count("unhealthy")} unhealthy`
}

/** `0.8 ms`, `12 ms` */
export const latency = ({ latency }: Checked): string =>
  Option.match(latency, {
    onNone: () => "-",
    onSome: (duration) => {
      const millis = Duration.toMillis(duration)
      return `${millis.toFixed(millis < 9.95 ? 1 : 0)} ms`
    }
  })

export const toJson = ({ health, latency, reason, url }: Checked): Json.JsonObject => ({
  url,
  health,
  latency_ms: Option.match(latency, {
    onNone: () => null,
    onSome: (duration) => Math.round(Duration.toMillis(duration) * 10) / 10
  }),
  reason: Option.getOrNull(reason)
})
