/**
 * A policy: given the conversation and the tools, it gives the next assistant
 * message. What is rolled out and calibrated is a policy.
 *
 * @since 0.1.0
 */

import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { CompletionFailed, Fault } from "./internal/chatAnswer.js"
import * as completions from "./internal/chatCompletions.js"
import { readTurn } from "./internal/chatMessage.js"
import * as ToolNames from "./internal/toolNames.js"
import * as Json from "./Json.js"
import {
  ContextFull,
  InvalidSetting,
  type InvalidUrls,
  type PolicyError,
  PolicyFailed,
  PolicyRefused,
  PolicyRejected
} from "./MiroirError.js"
import type { ChatMessage, Task, Tool } from "./Protocol.js"

/**
 * An assistant message as it came from the model: keys that are not named here are kept, and its `tool_calls` may be broken.
 * Without a tool call it ends the episode.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssistantMessage extends ChatMessage {
  readonly role: "assistant"
}

/**
 * What the policy gave: its message, and what the record keeps beside it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Turn {
  readonly message: AssistantMessage
  /** The whole choice as it came: logprobs, token ids, reasoning. */
  readonly choice?: Json.JsonObject
  readonly usage?: Json.JsonObject
  /** What the answer had beside choices and usage: its id, the model that it names, the prompt's token ids. */
  readonly rest?: Json.JsonObject
}

/**
 * A moment of an episode in which the policy has to speak.
 *
 * @since 0.1.0
 * @category models
 */
export interface Moment {
  readonly task: Task
  /** Which of the task's rollouts this is, from 0. */
  readonly rollout: number
  /** Which attempt at that rollout this is, from 1: one that broke is done again. */
  readonly attempt: number
  /** The conversation: the prompt, then assistant and tool messages in turn. */
  readonly messages: ReadonlyArray<ChatMessage>
  readonly tools: ReadonlyArray<Tool>
}

/**
 * What is rolled out: it speaks as the assistant, one message at a time.
 *
 * @since 0.1.0
 * @category services
 */
export class Policy extends Context.Tag("@miroir-effect/core/Policy")<
  Policy,
  {
    /** The policy's name, which goes into the records and the calibration. */
    readonly model: string
    /**
     * What else decides how it plays: temperature, top_p, seed, … It goes into the records, and a run is resumed with the
     * same only.
     */
    readonly settings: Json.JsonObject
    readonly next: (moment: Moment) => Effect.Effect<Turn, PolicyError>
  }
>() {}

/**
 * What a scripted policy calls next.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call {
  readonly tool: string
  readonly args: Json.JsonObject
}

/**
 * A policy without a model: `calls` says which tools to call next; none ends the episode.
 *
 * @since 0.1.0
 * @category layers
 */
export const scripted = (
  model: string,
  calls: (moment: Moment) => ReadonlyArray<Call> | Effect.Effect<ReadonlyArray<Call>, PolicyError>
): Layer.Layer<Policy> =>
  Layer.succeed(Policy, {
    model,
    settings: {},
    next: (moment) =>
      Effect.suspend(() => {
        const made = calls(moment)
        return Effect.map(Effect.isEffect(made) ? made : Effect.succeed(made), (list) => ({
          message: toMessage(moment, list)
        }))
      })
  })

const toMessage = ({ messages }: Moment, calls: ReadonlyArray<Call>): AssistantMessage => ({
  role: "assistant",
  content: null,
  ...(calls.length === 0
    ? {}
    : {
        tool_calls: calls.map(({ args, tool }, index) => ({
          id: `call_${messages.length}_${index}`,
          type: "function",
          function: { name: tool, arguments: Json.stringify(args) }
        }))
      })
})

/**
 * A chat model as the policy: its endpoint, how it is sampled, and how patiently it is asked. `timeout`, for an attempt's
 * whole answer, is 10 minutes unless given.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings extends completions.Settings {
  /** From 0 to 1; left to the server unless given. */
  readonly topP?: number | undefined
  /** The most tokens of a message, sent as `max_tokens`; left to the server unless given. */
  readonly maxTokens?: number | undefined
  /** Of a task's first rollout; the next ones have the next ones, so that they differ. Left to the server unless given. */
  readonly seed?: number | undefined
  /** Further members of the request, as `{"top_k": 20}`; none that is sent anyway, and not `stream`. */
  readonly extraBody?: Json.JsonObject | undefined
}

/**
 * A chat model behind an OpenAI-compatible `chat/completions` as the policy.
 *
 * Failures that a repeat may mend are repeated as `Coworker.defaultRetry` says, an answer without a message too, or one that
 * the server broke off. The message is what the server sent. Where its reason to stop is `length` it is a message all the
 * same, unless it says nothing and had not used up `maxTokens`: then the context is full.
 *
 * Names of tools that OpenAI's API does not take (other characters than letters, digits, `_` and `-`, or more than 64) go to
 * the server as some that it does, `files.read` as `files_read`, and come back as what they are.
 *
 * Fails with `InvalidUrls` where the base URL is no http(s) URL with a host, and with `InvalidSetting` where a setting is none
 * that a model can have.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  settings: Settings
): Effect.Effect<Context.Tag.Service<Policy>, InvalidSetting | InvalidUrls, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const { extraBody, maxTokens, seed, temperature, topP } = settings
    yield* completions.inRange("topP", topP, { least: 0, most: 1 })
    yield* completions.inRange("maxTokens", maxTokens, { least: 1, isWhole: true })
    yield* completions.inRange("seed", seed, { isWhole: true })
    const sampling: Json.JsonObject = {
      ...(topP === undefined ? {} : { top_p: topP }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens })
    }
    const named = {
      ...(temperature === undefined ? {} : { temperature }),
      ...sampling,
      ...(seed === undefined ? {} : { seed })
    }
    yield* checkExtraBody(extraBody, Object.keys(named))
    const model = yield* completions.make({ ...settings, timeout: settings.timeout ?? "10 minutes" }, "policy")
    const most = [maxTokens, extraBody?.max_completion_tokens, extraBody?.max_tokens].find(
      (value) => typeof value === "number"
    )
    const read = readTurn(most)
    return {
      model: settings.model,
      settings: { ...named, ...(extraBody === undefined ? {} : { extra_body: extraBody }) },
      next: ({ messages, rollout, tools }) => {
        const names = ToolNames.make(tools)
        return Effect.mapBoth(
          model.complete(
            {
              messages: names.going(messages),
              ...(tools.length === 0 ? {} : { tools: tools.map((tool) => toFunction(tool, names.there(tool.name))) }),
              ...sampling,
              ...(seed === undefined ? {} : { seed: seed + rollout }),
              ...extraBody
            },
            read
          ),
          {
            onSuccess: (turn) => ({ ...turn, message: names.came(turn.message) }),
            onFailure: (failure) => toPolicyError(model, failure, most)
          }
        )
      }
    }
  })

/**
 * `make` as a layer, with settings given here.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (settings: Settings): Layer.Layer<Policy, InvalidSetting | InvalidUrls, HttpClient.HttpClient> =>
  Layer.effect(Policy, make(settings))

/**
 * The model from `MIROIR_POLICY_BASE_URL` and `MIROIR_POLICY_MODEL`, and `MIROIR_POLICY_API_KEY` where it is set.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Pick<Settings, "baseUrl" | "model" | "apiKey">> = completions.endpointConfig(
  { baseUrl: "MIROIR_POLICY_BASE_URL", model: "MIROIR_POLICY_MODEL", apiKey: "MIROIR_POLICY_API_KEY" },
  "policy"
)

/**
 * `make` as a layer, with the settings of `config`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<
  Policy,
  ConfigError.ConfigError | InvalidSetting | InvalidUrls,
  HttpClient.HttpClient
> = Layer.effect(Policy, Effect.flatMap(config, make))

const checkExtraBody = (
  extraBody: Json.Json | undefined,
  named: ReadonlyArray<string>
): Effect.Effect<void, InvalidSetting> => {
  const invalid = (reason: string) => new InvalidSetting({ setting: "extraBody", reason })
  if (extraBody === undefined) return Effect.void
  if (!Json.isObject(extraBody)) return invalid("has to be a JSON object")
  const sent = ["model", "messages", "tools", "stream", ...named].find((key) => Object.hasOwn(extraBody, key))
  if (sent === undefined) return Effect.void
  return invalid(
    sent === "stream" ? "cannot have stream, since answers are read whole" : `cannot have ${sent}, which is sent anyway`
  )
}

/** A tool of MCP's `tools/list` as `chat/completions` has it. */
const toFunction = ({ description, input_schema, inputSchema, parameters }: Tool, name: string): Json.JsonObject => ({
  type: "function",
  function: {
    name,
    ...(typeof description === "string" ? { description } : {}),
    parameters: ofObject([inputSchema, input_schema, parameters].find(Json.isObject) ?? {})
  }
})

/** The schema of a call's arguments, with what OpenAI's API wants it to say and MCP lets it leave out. */
const ofObject = (schema: Json.JsonObject): Json.JsonObject => ({
  ...(schema.type === undefined ? { type: "object" } : {}),
  ...(schema.properties === undefined ? { properties: {} } : {}),
  ...schema
})

const toPolicyError = (
  { model, url }: completions.ChatModel,
  { detail, fault, reason, status }: CompletionFailed,
  maxTokens: number | undefined
): PolicyError => {
  if (reason === "refused") return new PolicyRefused({ model, reason: detail })
  const where = { model, url, ...(status === undefined ? {} : { status }), reason: detail }
  if (fault === undefined) return new PolicyFailed(where)
  if (fault !== "context") return new PolicyRejected({ ...where, advice: advice[fault] })
  const limit = Number(contextIn.exec(detail)?.[1]?.replaceAll(",", ""))
  return maxTokens !== undefined && maxTokens >= limit
    ? new PolicyRejected({ ...where, advice: "Lower the most tokens of a message (--max-tokens): they leave no room." })
    : new ContextFull({ model, reason: detail })
}

/** How many tokens the model can take, where an error says so. */
const contextIn = /(?:context (?:length|window|size)|model length|tokens` must be)[^\d]{1,20}(\d[\d,]*)/i

const advice: Readonly<Record<Exclude<Fault, "context">, string>> = {
  key: "Check the API key (MIROIR_POLICY_API_KEY).",
  quota: "Raise what the account may use, or take the key of another (MIROIR_POLICY_API_KEY).",
  address:
    "Check the base URL (--base-url or MIROIR_POLICY_BASE_URL) and the model's name (--model or MIROIR_POLICY_MODEL).",
  root: "Check the base URL (--base-url or MIROIR_POLICY_BASE_URL): most end in /v1; and the model's name (--model or MIROIR_POLICY_MODEL).",
  tools: "Serve the model so that it can call tools, or take another (--model or MIROIR_POLICY_MODEL).",
  request:
    "Change what it objects to: the model (--model), its sampling (--temperature, --top-p, --max-tokens, --seed) or --extra-body."
}
