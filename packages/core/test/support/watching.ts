/** What can be seen of an effect from outside: its exit, its logs of every level, its spans. */
import { inspect } from "node:util"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Tracer from "effect/Tracer"

export interface Watched<A, E> {
  readonly exit: Exit.Exit<A, E>
  readonly spans: ReadonlyArray<Tracer.Span>
  readonly logs: ReadonlyArray<unknown>
  /** All of it, to any depth, as text. */
  readonly seen: string
}

export const watching = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Watched<A, E>, never, R> =>
  Effect.gen(function* () {
    const spans: Array<Tracer.Span> = []
    const logs: Array<unknown> = []
    const native = yield* Effect.tracer
    const tracer = Tracer.make({
      context: (run, fiber) => native.context(run, fiber),
      span: (...args) => {
        const span = native.span(...args)
        spans.push(span)
        return span
      }
    })
    const logger = Logger.make(({ annotations, cause, message, spans }) =>
      logs.push({ annotations, cause, message, spans })
    )
    const exit = yield* effect.pipe(
      Effect.exit,
      Effect.withTracer(tracer),
      Logger.withMinimumLogLevel(LogLevel.All),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger))
    )
    const shown = Exit.isFailure(exit) ? `${exit.cause}` : ""
    const own = spans.map((span) => ({ ...span, parent: undefined }))
    const options = { depth: Number.POSITIVE_INFINITY, maxStringLength: null, maxArrayLength: null, showHidden: true }
    return { exit, spans, logs, seen: shown + JSON.stringify({ exit, logs }) + inspect({ exit, logs, own }, options) }
  })
