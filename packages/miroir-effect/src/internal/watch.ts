/** How containers are, round by round: a table that is redrawn on a terminal, elsewhere a line for each change. */

import type * as Terminal from "@effect/platform/Terminal"
import type * as Leasing from "@miroir-effect/core/Leasing"
import * as Text from "@miroir-effect/core/Text"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Containers from "./containers.js"
import { byUrgency, type Checked, check, counts, latency, tableOf, toJson } from "./health.js"
import { lineOf } from "./listing.js"
import { coloured, isLive, type OutputFailed, size, write } from "./terminal.js"

/** From the beginning of a round to that of the next; a round that takes longer is followed at once. */
const interval = Duration.seconds(2)

interface Round {
  readonly time: string
  readonly checked: ReadonlyArray<Checked>
  /** What is wrong with the URL file by now; it is the last good list that was asked. */
  readonly fault: Option.Option<string>
}

/** Shows a round; tells whether there is still somebody to show it to. */
type Show = (round: Round) => Effect.Effect<boolean, OutputFailed, Terminal.Terminal>

/** Runs until there is nobody to show it to. */
export const watch = Effect.fnUntraced(function* (containers: Leasing.Containers, json: boolean) {
  let urls = yield* Containers.urlsOf(containers)
  const round = Effect.gen(function* () {
    const read = yield* Effect.either(Containers.urlsOf(containers))
    urls = Either.getOrElse(read, () => urls)
    const checked = yield* check(urls)
    const fault = Option.map(Either.getLeft(read), ({ message }) => `${message} The last good list is asked.`)
    return { time: DateTime.formatIso(yield* DateTime.now).replace(/\.\d+/, ""), checked, fault }
  })
  const show = json || !(yield* isLive) ? changes(json) : redrawn()
  yield* Effect.repeat(Effect.flatMap(round, show), { schedule: Schedule.fixed(interval), while: (isRead) => isRead })
})

/** First every container, then those whose health has changed; as text, the counts below them. */
const changes = (json: boolean): Show => {
  let before = new Map<string, string>()
  let lastFault = Option.none<string>()
  return Effect.fnUntraced(function* ({ checked, fault, time }) {
    if (Option.isSome(fault) && fault.value !== Option.getOrUndefined(lastFault)) yield* Effect.logWarning(fault.value)
    lastFault = fault
    const changed = checked.filter(({ health, url }) => before.get(url) !== health)
    const isOther = changed.length > 0 || checked.length !== before.size
    before = new Map(checked.map(({ health, url }) => [url, health]))
    if (!isOther) return true
    const lines = json
      ? changed.map((container) => lineOf({ time, ...toJson(container) }))
      : [...changed.map((container) => lineFor(time, container)), `${time}  ${counts(checked)}`]
    return lines.length === 0 || (yield* write(lines.join("\n")))
  })
}

const lineFor = (time: string, container: Checked): string => {
  const parts = [time, container.url, container.health, latency(container), ...Option.toArray(container.reason)]
  return parts.map(Text.visible).join("  ")
}

/** A table that takes its own place again, and the counts; as many containers as the terminal has lines for. */
const redrawn = (): Show => {
  let drawn = { columns: 0, lines: 0 }
  return Effect.fnUntraced(function* ({ checked, fault, time }) {
    const { columns, rows } = yield* size
    const below = [
      `${counts(checked)}, at ${time.slice(11)}`,
      ...Option.match(fault, { onNone: () => [], onSome: (text) => [`warning: ${text}`] })
    ].map((line) => Text.cut(line, columns))
    // One line for the headings, and one where the cursor is.
    const room = rows - below.length - 2
    const shown = checked.length <= room ? checked : mostUrgent(checked, Math.max(1, room - 1))
    const left = checked.length - shown.length
    const lines = [
      ...tableOf(shown, { columns, styled: yield* coloured }).split("\n"),
      ...(left > 0 ? [`… and ${left} more`] : []),
      ...below
    ]
    // Where the width has changed the terminal has set the lines anew, and nobody knows how many they are.
    const back = drawn.lines > 0 && drawn.columns === columns ? `\r\u001b[${drawn.lines}A\u001b[J` : ""
    drawn = { columns, lines: lines.length }
    return yield* write(back + lines.join("\n"))
  })
}

/** The unhealthy ones first, then the leased ones, each in the order of the list. */
const mostUrgent = (checked: ReadonlyArray<Checked>, count: number): ReadonlyArray<Checked> =>
  byUrgency.flatMap((name) => checked.filter(({ health }) => health === name)).slice(0, count)
