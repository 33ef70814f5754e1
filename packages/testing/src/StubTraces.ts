/**
 * Traces without files.
 *
 * @since 0.1.0
 */

import type { EpisodeRecord } from "@miroir-effect/core/EpisodeRecord"
import { TraceError } from "@miroir-effect/core/MiroirError"
import * as Outcome from "@miroir-effect/core/Outcome"
import * as Tally from "@miroir-effect/core/Tally"
import * as Traces from "@miroir-effect/core/Traces"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { missing } from "./internal/answers.js"

/**
 * Traces in memory, one file `memory.jsonl` in each folder. What was saved can be read by that file's path or its folder's;
 * all else is a `TraceError`.
 *
 * @since 0.1.0
 * @category layers
 */
export const memory: Layer.Layer<Traces.Traces> = Layer.sync(Traces.Traces, () => {
  const files = new Map<string, Array<EpisodeRecord>>()
  const fileOf = (folder: string): string => `${folder.replace(/\/+$/, "")}/memory.jsonl`

  const read = (paths: string | ReadonlyArray<string>): Stream.Stream<Line, TraceError> =>
    Stream.flatMap(Stream.fromIterable(typeof paths === "string" ? [paths] : paths), (path) => {
      const file = files.has(path) ? path : fileOf(path)
      const records = files.get(file)
      return records === undefined
        ? Stream.fail(new TraceError({ file: path, reason: "nothing was saved there" }))
        : Stream.fromIterable(records.map((record, index) => ({ file, line: index + 1, record })))
    })

  return {
    save: (folder, record) =>
      Effect.sync(() => {
        const file = fileOf(folder)
        files.set(file, [...(files.get(file) ?? []), record])
        return file
      }),
    read: (paths) => Stream.map(read(paths), ({ record }) => record),
    tally: (paths) =>
      read(paths).pipe(
        Stream.mapEffect(({ file, line, record }) =>
          Either.mapLeft(Outcome.fromRecord(record), (reason) => new TraceError({ file, line, reason }))
        ),
        Stream.run(Tally.sink)
      )
  }
})

/**
 * Traces of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (given: Partial<Context.Tag.Service<Traces.Traces>> = {}): Layer.Layer<Traces.Traces> =>
  Layer.succeed(Traces.Traces, {
    save: () => missing("Traces.save"),
    read: () => Stream.fromEffect(missing("Traces.read")),
    tally: () => missing("Traces.tally"),
    ...given
  })

interface Line {
  readonly file: string
  readonly line: number
  readonly record: EpisodeRecord
}
