/** Which models a command asks, the policy's and the coworkers': by arguments, else by the environment. */

import * as Coworker from "@miroir-effect/core/Coworker"
import * as Json from "@miroir-effect/core/Json"
import type { InvalidSetting, InvalidUrls } from "@miroir-effect/core/MiroirError"
import * as Policy from "@miroir-effect/core/Policy"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { WrongUsage } from "./WrongUsage.js"

/** What a command line says of the policy. */
export interface GivenPolicy {
  readonly model: Option.Option<string>
  readonly baseUrl: Option.Option<string>
  readonly temperature: Option.Option<number>
  readonly topP: Option.Option<number>
  readonly maxTokens: Option.Option<number>
  readonly seed: Option.Option<number>
  /** The text of a JSON object. */
  readonly extraBody: Option.Option<string>
  readonly policyConcurrency: Option.Option<number>
}

/** What a command line says of the model that speaks for the coworkers. */
export interface GivenCoworker {
  readonly coworkerModel: Option.Option<string>
  readonly coworkerBaseUrl: Option.Option<string>
  readonly coworkerConcurrency: Option.Option<number>
}

/** The environment has no say in the sampling. */
export const policy = (given: GivenPolicy): Effect.Effect<Policy.Settings, WrongUsage | ConfigError> =>
  Effect.gen(function* () {
    const extraBody = yield* objectIn(given.extraBody)
    if (yield* isUnset("MIROIR_POLICY_MODEL")) {
      return yield* wrong("No model: give --model NAME or set MIROIR_POLICY_MODEL.")
    }
    if (yield* isUnset("MIROIR_POLICY_BASE_URL")) {
      return yield* wrong("No endpoint: give --base-url URL or set MIROIR_POLICY_BASE_URL.")
    }
    return {
      ...(yield* Policy.config),
      temperature: Option.getOrUndefined(given.temperature),
      topP: Option.getOrUndefined(given.topP),
      maxTokens: Option.getOrUndefined(given.maxTokens),
      seed: Option.getOrUndefined(given.seed),
      extraBody,
      concurrency: Option.getOrUndefined(given.policyConcurrency)
    }
  }).pipe(withArguments({ MIROIR_POLICY_MODEL: given.model, MIROIR_POLICY_BASE_URL: given.baseUrl }))

/** None where neither names a model for the coworkers. */
export const coworker = (
  given: GivenCoworker
): Effect.Effect<Option.Option<Coworker.Settings>, WrongUsage | ConfigError> =>
  Effect.gen(function* () {
    const lacksModel = yield* isUnset("MIROIR_COWORKER_MODEL")
    const lacksEndpoint = yield* isUnset("MIROIR_COWORKER_BASE_URL")
    if (lacksModel && lacksEndpoint && Option.isNone(given.coworkerConcurrency)) return Option.none()
    if (lacksModel) {
      return yield* wrong("No model for the coworkers: give --coworker-model NAME or set MIROIR_COWORKER_MODEL.")
    }
    if (lacksEndpoint) {
      return yield* wrong(
        "No endpoint for the coworkers: give --coworker-base-url URL or set MIROIR_COWORKER_BASE_URL."
      )
    }
    return Option.some({
      ...(yield* Coworker.config),
      concurrency: Option.getOrUndefined(given.coworkerConcurrency)
    })
  }).pipe(
    withArguments({ MIROIR_COWORKER_MODEL: given.coworkerModel, MIROIR_COWORKER_BASE_URL: given.coworkerBaseUrl })
  )

/** What is wrong with a model's settings, by the name that the command line or the environment has for them. */
export const asUsage =
  (kind: "policy" | "coworker") =>
  (error: InvalidSetting | InvalidUrls): WrongUsage =>
    wrong(
      error._tag === "InvalidUrls"
        ? `${names[kind].baseUrl}: ${error.message}`
        : `${names[kind][error.setting] ?? error.setting} ${error.reason}.`
    )

const names: Readonly<Record<"policy" | "coworker", { readonly baseUrl: string; readonly [setting: string]: string }>> =
  {
    policy: { baseUrl: "--base-url", extraBody: "--extra-body", apiKey: "MIROIR_POLICY_API_KEY" },
    coworker: {
      baseUrl: "--coworker-base-url",
      apiKey: "MIROIR_COWORKER_API_KEY",
      temperature: "MIROIR_COWORKER_TEMPERATURE"
    }
  }

/** Has arguments stand for the variables that they win over. */
const withArguments =
  (given: Readonly<Record<string, Option.Option<string>>>) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const named = Object.entries(given).flatMap(([name, value]) =>
      Option.isSome(value) ? [[name, value.value] as const] : []
    )
    return Effect.configProviderWith((environment) =>
      Effect.withConfigProvider(
        self,
        ConfigProvider.orElse(ConfigProvider.fromMap(new Map(named)), () => environment)
      )
    )
  }

/** A variable that is set to nothing is unset. */
const isUnset = (name: string): Effect.Effect<boolean, ConfigError> =>
  Effect.map(Config.option(Config.nonEmptyString(name)), Option.isNone)

const wrong = (message: string): WrongUsage => new WrongUsage({ message, command: "rollout" })

const objectIn = (text: Option.Option<string>): Either.Either<Json.JsonObject | undefined, WrongUsage> => {
  if (Option.isNone(text)) return Either.right(undefined)
  const parsed = Json.parse(text.value)
  return Either.isRight(parsed) && Json.isObject(parsed.right)
    ? Either.right(parsed.right)
    : Either.left(wrong("--extra-body has to be a JSON object."))
}
