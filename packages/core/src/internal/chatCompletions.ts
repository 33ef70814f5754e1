/**
 * A model behind an OpenAI-compatible `chat/completions`: one request without streaming, its failures told apart, and
 * repeated on a schedule where a repeat may mend them; so many requests at a time as are allowed.
 */

import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as BaseUrl from "../BaseUrl.js"
import * as Json from "../Json.js"
import { InvalidSetting, type InvalidUrls } from "../MiroirError.js"
import * as Telemetry from "../Telemetry.js"
import { CompletionFailed, failed, judge, repeatable } from "./chatAnswer.js"
import type { Reader } from "./chatMessage.js"
import * as http from "./http.js"
import * as Places from "./places.js"
import { shown } from "./text.js"
import { whileCounted } from "./whileCounted.js"

/** A model, and how patiently it is asked. */
export interface Settings {
  /** `http(s)://HOST[:PORT][/PATH]`, to which `/chat/completions` is added unless it ends so. A query is kept. */
  readonly baseUrl: string
  readonly model: string
  /** Sent as bearer token; without it, and without userinfo in the URL, there is no `Authorization`. */
  readonly apiKey?: Redacted.Redacted | undefined
  /** Left to the server unless given. */
  readonly temperature?: number | undefined
  /** For each attempt's whole answer; 30 seconds unless given. */
  readonly timeout?: Duration.DurationInput | undefined
  /** When failures that a repeat may mend are repeated; `defaultRetry` unless given. */
  readonly retry?: Schedule.Schedule<unknown> | undefined
  /** A server that asks for a longer pause than this is not asked again; 60 seconds unless given. */
  readonly maxRetryAfter?: Duration.DurationInput | undefined
  /** So many requests are under way at most, those that pause before a repeat not counted; no bound unless given. */
  readonly concurrency?: number | undefined
}

/** Three attempts in all, the second after about 0.5 s and the third after about 1 s more. */
export const defaultRetry: Schedule.Schedule<unknown> = Schedule.exponential("500 millis").pipe(
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(2))
)

export interface ChatModel {
  /** The base URL as it may be shown. */
  readonly url: string
  readonly model: string
  /** Asks for a completion; the body's other members, `messages` above all, are the caller's. */
  readonly complete: <A>(body: Json.JsonObject, read: Reader<A>) => Effect.Effect<A, CompletionFailed>
}

/** The model, which is counted among those of a kind. */
export const make = (
  settings: Settings,
  kind: keyof typeof Telemetry.modelCalls
): Effect.Effect<ChatModel, InvalidSetting | InvalidUrls, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const client = yield* HttpClient.HttpClient
    if (settings.model === "") return yield* new InvalidSetting({ setting: "model", reason: "has to be a name" })
    yield* inRange("temperature", settings.temperature, { least: 0 })
    yield* inRange("concurrency", settings.concurrency, { least: 1, isWhole: true })
    const parsed = yield* BaseUrl.parse(settings.baseUrl)
    const base = { ...parsed, href: parsed.href.replace(/\/+chat\/completions$/, "") }
    const apiKey = Option.filter(Option.fromNullable(settings.apiKey), (key) => Redacted.value(key) !== "")
    if (Option.exists(apiKey, (key) => /[^\t\u0020-\u007e\u0080-\u00ff]/.test(Redacted.value(key)))) {
      return yield* new InvalidSetting({
        setting: "apiKey",
        reason: "has characters that a header cannot hold, such as a line end"
      })
    }
    const authorization = BaseUrl.authorization(base, apiKey)
    const scrub = http.withoutCredentials(base.href, authorization)
    const maxRetryAfter = settings.maxRetryAfter ?? "60 seconds"
    const url = `${BaseUrl.endpoint(base, "chat", "completions")}${new URL(settings.baseUrl).search}`
    // Not all of them are at v1: there is /v1beta, and /v4.
    const namesVersion = /\/v\d[^/]*(\/|$)/.test(new URL(base.href).pathname)
    const temperature = settings.temperature === undefined ? {} : { temperature: settings.temperature }
    const calls = Telemetry.modelCalls[kind]
    const places = Places.make(settings.concurrency ?? Number.POSITIVE_INFINITY)

    const attempt = <A>(body: string, read: Reader<A>): Effect.Effect<A, CompletionFailed> =>
      http.send({ method: "POST", url, authorization, body, timeout: settings.timeout ?? "30 seconds" }).pipe(
        Effect.provideService(HttpClient.HttpClient, client),
        Effect.mapError(({ kind, reason }) => repeatable(kind, reason)),
        Effect.zip(Clock.currentTimeMillis),
        Effect.flatMap(([answer, now]) => Either.flatMap(judge(answer, scrub, now), read)),
        Effect.mapError((failure) =>
          withinPatience(
            new CompletionFailed({
              ...failure,
              detail: scrub(failure.detail),
              ...(failure.fault === "address" && !namesVersion ? { fault: "root" } : {})
            }),
            maxRetryAfter
          )
        ),
        whileCounted(calls.underWay),
        (sent) => places.within(sent, whileCounted(calls.waiting))
      )

    const schedule: Schedule.Schedule<unknown, CompletionFailed> = settings.retry ?? defaultRetry
    const pauses = Schedule.modifyDelay(Schedule.passthrough(schedule), (failure, delay) =>
      Duration.max(
        delay,
        Option.getOrElse(failure.again, () => Duration.zero)
      )
    )

    const repeatedly = Effect.fnUntraced(function* <A>(body: string, read: Reader<A>) {
      const pausing = yield* Schedule.driver(pauses)
      for (let attempts = 1; ; attempts++) {
        yield* Effect.annotateCurrentSpan("attempts", attempts)
        const tried = yield* Effect.either(attempt(body, read))
        if (Either.isRight(tried)) return tried.right
        const { again, detail, reason } = tried.left
        yield* Effect.logDebug(`Attempt ${attempts} for a completion failed (${reason}): ${shown(detail)}`)
        if (Option.isNone(again)) return yield* tried.left
        const paused = yield* whileCounted(calls.backingOff)(Effect.option(pausing.next(tried.left)))
        if (Option.isNone(paused)) return yield* tried.left
        yield* Metric.increment(Telemetry.completionRetries)
      }
    })

    return {
      url: base.href,
      model: settings.model,
      complete: (body, read) =>
        Effect.try({
          try: () => Json.stringify({ model: settings.model, ...body, ...temperature }),
          catch: () => failed("malformed", "the request contains itself, which JSON cannot")
        }).pipe(
          Effect.flatMap((text) => repeatedly(text, read)),
          Effect.tapError(({ reason, status }) =>
            Effect.annotateCurrentSpan({ failure: reason, ...(status === undefined ? {} : { status }) })
          ),
          Effect.withSpan("miroir.completion", {
            attributes: { url: base.href, model: settings.model },
            kind: "client",
            captureStackTrace: false
          })
        )
    }
  })

/** A number that a setting may be; undefined is none, and fine. */
export const inRange = (
  setting: string,
  value: number | undefined,
  range: { readonly least?: number; readonly most?: number; readonly isWhole?: boolean }
): Effect.Effect<void, InvalidSetting> => {
  const { isWhole = false, least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY } = range
  const isIn =
    value === undefined ||
    ((isWhole ? Number.isSafeInteger(value) : Number.isFinite(value)) && value >= least && value <= most)
  const bounds = [
    ...(range.least === undefined ? [] : [`at least ${least}`]),
    ...(range.most === undefined ? [] : [`at most ${most}`])
  ].join(" and ")
  const reason = `has to be a ${isWhole ? "whole" : "finite"} number${bounds === "" ? "" : ` of ${bounds}`}, and is ${value}`
  return isIn ? Effect.void : Effect.fail(new InvalidSetting({ setting, reason }))
}

/** A model's endpoint from the environment. */
export const endpointConfig = (
  names: { readonly baseUrl: string; readonly model: string; readonly apiKey: string },
  kind: string
): Config.Config<Pick<Settings, "baseUrl" | "model" | "apiKey">> =>
  Config.all({
    baseUrl: Config.nonEmptyString(names.baseUrl).pipe(
      Config.withDescription(`Base URL of the ${kind} model's endpoint: http(s)://HOST[:PORT]/v1`)
    ),
    model: Config.nonEmptyString(names.model).pipe(Config.withDescription(`Name of the ${kind} model`)),
    apiKey: Config.redacted(Config.nonEmptyString(names.apiKey)).pipe(
      Config.withDescription("API key of that endpoint, if it wants one"),
      Config.option,
      Config.map(Option.getOrUndefined)
    )
  })

const withinPatience = (failure: CompletionFailed, maxRetryAfter: Duration.DurationInput): CompletionFailed =>
  Option.exists(failure.again, Duration.greaterThan(maxRetryAfter))
    ? new CompletionFailed({
        ...failure,
        detail: `it wants a pause of more than ${Duration.format(maxRetryAfter)}; ${failure.detail}`,
        again: Option.none()
      })
    : failure
