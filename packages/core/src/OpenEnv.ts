/**
 * The dialect of stock OpenEnv servers (PyPI `openenv`, 0.4.2 to 0.10.0), where
 * Miroir's protocol comes from. Their envs keep no records and know of no coworkers:
 * an episode's record is made here, of what its steps were answered with.
 *
 * There are two kinds. In an env of tools a step calls one of its MCP tools. Any other
 * env takes actions of a type of its own; to a policy it is one tool, `act`, whose
 * arguments are the action.
 *
 * @since 0.1.0
 */

import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as Dialect from "./Dialect.js"
import { EpisodeRecord } from "./EpisodeRecord.js"
import * as Json from "./Json.js"
import { ConnectionLost, type EnvError, type ExchangeError } from "./MiroirError.js"
import * as Prompt from "./Prompt.js"
import * as Protocol from "./Protocol.js"
import type { Ask, AskFn } from "./SessionExchange.js"

/**
 * What a record is made with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** An episode's reward: the sum of its steps' rewards, or the last one that is not null. Default `sum`. */
  readonly reward: "sum" | "last"
  /** The reward from which on an episode is a success where its last observation does not tell. Default 1. */
  readonly successAt: number
}

/**
 * The settings that hold where none are given.
 *
 * @since 0.1.0
 * @category settings
 */
export const defaults: Settings = { reward: "sum", successAt: 1 }

/**
 * What the steps of an env are: calls of its tools, or actions of its own type, by their JSON Schema.
 *
 * @since 0.1.0
 * @category models
 */
export type Actions = { readonly _tag: "Tools" } | { readonly _tag: "Own"; readonly schema: Json.JsonObject }

/**
 * What the steps of an env are, by its answer to `GET /schema`; none where that is no OpenEnv server's.
 *
 * Calls of tools are the actions `CallToolAction` and `ListToolsAction`, their like by shape, and the bare `Action`, in
 * whose place the server takes them.
 *
 * @since 0.1.0
 * @category recognition
 */
export const actionsOf = (schemas: Json.Json): Option.Option<Actions> => {
  const given = Json.isObject(schemas) ? schemas.action : undefined
  if (!Json.isObject(given)) return Option.none()
  const schema = unfolded(given)
  const { metadata: _, ...properties } = Json.isObject(schema.properties) ? schema.properties : {}
  const type = Json.isObject(properties.type) ? properties.type.const : undefined
  const takesTools =
    (type === "call_tool" && "tool_name" in properties) ||
    type === "list_tools" ||
    (schema.title === "Action" && Object.keys(properties).length === 0)
  return Option.some(takesTools ? { _tag: "Tools" } : { _tag: "Own", schema })
}

/** A type that has itself within is a reference to a definition beside it, where models and their servers look for properties. */
const unfolded = (schema: Json.JsonObject): Json.JsonObject => {
  const { $ref, ...rest } = schema
  const name = typeof $ref === "string" ? /^#\/\$defs\/([^/~%]+)$/.exec($ref)?.[1] : undefined
  const definition = name !== undefined && Json.isObject(schema.$defs) ? schema.$defs[name] : undefined
  return Json.isObject(definition) ? { ...definition, ...rest } : schema
}

/**
 * An env of actions of its own as the one tool that a policy has of it. The `metadata` that any action may have is left
 * out, unless the env wants it.
 *
 * @since 0.1.0
 * @category tools
 */
export const actTool = (schema: Json.JsonObject): Protocol.Tool => {
  const { description, ...parameters } = schema
  const { metadata, ...properties } = Json.isObject(schema.properties) ? schema.properties : {}
  const isWanted = metadata !== undefined && Json.isArray(schema.required) && schema.required.includes("metadata")
  return {
    name: "act",
    description: typeof description === "string" ? description : "Acts in the environment.",
    inputSchema: {
      type: "object",
      ...parameters,
      ...(schema.properties === undefined ? {} : { properties: isWanted ? { ...properties, metadata } : properties })
    }
  }
}

/**
 * What a model is shown of an observation. A tool's result comes up to three times over, as `content`, `structured_content`
 * and `data`: it is shown once, as its content, which alone holds images; what else the observation has follows as JSON.
 * Any other observation is shown as JSON.
 *
 * @since 0.1.0
 * @category observations
 */
export const show = (observation: Json.Json): string | ReadonlyArray<Json.JsonObject> => {
  if (!Json.isObject(observation)) return Json.stringify(observation)
  const { metadata, ...told } = observation
  const known = Json.truthy(metadata) && metadata !== undefined ? { metadata } : {}
  if (!("tool_name" in told && "result" in told)) return Json.stringify({ ...told, ...known })
  const { error, result, tool_name: _, ...more } = told
  const rest = { ...(error === undefined || error === null ? {} : { error }), ...more, ...known }
  const beside = Object.keys(rest).length === 0 ? undefined : Json.stringify(rest)
  if (beside !== undefined && (result === undefined || result === null)) return beside
  const shown = showResult(result ?? null)
  if (beside === undefined) return shown
  return typeof shown === "string" ? `${shown}\n${beside}` : [...shown, textPart(beside)]
}

const showResult = (result: Json.Json): string | ReadonlyArray<Json.JsonObject> => {
  const content = Json.isObject(result) ? result.content : undefined
  if (!Json.isObject(result) || !Json.isArray(content)) return showValue(result)
  if (content.length === 0) return showValue(result.structured_content ?? result.data ?? null)
  const parts = content.map(toPart)
  const texts = parts.flatMap(({ text }) => (typeof text === "string" ? [text] : []))
  return texts.length === parts.length ? texts.join("\n") : parts
}

const showValue = (value: Json.Json): string => (typeof value === "string" ? value : Json.stringify(value))

const textPart = (text: string): Json.JsonObject => ({ type: "text", text })

/** A content block of MCP as a content part of `chat/completions`. */
const toPart = (block: Json.Json): Json.JsonObject => {
  if (!Json.isObject(block)) return textPart(showValue(block))
  const { data, text, type } = block
  if (type === "text" && typeof text === "string") return textPart(text)
  const mimeType = block.mimeType ?? block.mime_type
  return type === "image" && typeof data === "string"
    ? {
        type: "image_url",
        image_url: { url: `data:${typeof mimeType === "string" ? mimeType : "image/png"};base64,${data}` }
      }
    : textPart(Json.stringify(block))
}

/**
 * What a policy is asked to do: its task's own instruction, then what the first observation says: its `instruction`, `prompt`
 * or `question`, unless that is the same, then, as JSON, what else it tells that is not empty.
 *
 * @since 0.1.0
 * @category observations
 */
export const instruction = (observation: Json.Json, own = ""): string => {
  const parts = Json.isObject(observation) ? told(observation) : observation === null ? [] : [showValue(observation)]
  return [own, ...parts.filter((part) => part.trim() !== own.trim())].filter((part) => part !== "").join("\n\n")
}

const told = (observation: Json.JsonObject): ReadonlyArray<string> => {
  const key = instructionKey(observation)
  const said = key === undefined ? undefined : observation[key]
  const hidden = new Set([
    key,
    "task_id",
    "episode_id",
    "split",
    "index",
    "seed",
    ...(key === undefined ? [] : ["metadata"])
  ])
  const rest = Object.entries(observation).filter(([name, value]) => !hidden.has(name) && !isEmpty(value))
  return [
    ...(typeof said === "string" ? [said] : []),
    ...(rest.length === 0 ? [] : [Json.stringify(Object.fromEntries(rest))])
  ]
}

const isEmpty = (value: Json.Json): boolean =>
  !Json.truthy(value) && typeof value !== "number" && typeof value !== "boolean"

/**
 * The key under which a task or an observation tells what to do: the first of `instruction`, `prompt` and `question` that
 * is a text.
 *
 * @since 0.1.0
 * @category observations
 */
export const instructionKey = (value: Json.JsonObject): string | undefined =>
  ["instruction", "prompt", "question"].find((key) => typeof value[key] === "string" && value[key] !== "")

/**
 * The dialect. Time is that of the Clock of who makes it.
 *
 * @since 0.1.0
 * @category dialects
 */
export const make = (actions: Actions, options: Partial<Settings> = {}): Effect.Effect<Dialect.Dialect> =>
  Effect.map(Effect.clock, (clock) => {
    const settings: Settings = { ...defaults, ...options }
    return {
      name: "openenv",
      hasCoworkers: false,
      hasSubmit: false,
      show,
      // Where steps are calls of tools, a reset's answer says little that is meant for a policy.
      prompt: ({ day, observation, task, tools }) =>
        Prompt.prompt(
          {
            ...task,
            instruction:
              task.instruction !== "" && actions._tag === "Tools"
                ? task.instruction
                : instruction(observation, task.instruction)
          },
          day,
          tools.some(({ name }) => name === "submit")
        ),
      episode: (url, beginning) => new OpenEnvEpisode(url, beginning, actions._tag, settings, clock)
    }
  })

/** Asks for the tools of the session's own env. It is no step. */
const listTools: Protocol.Request = {
  type: "mcp",
  text: '{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}'
}

/** A step that does nothing, for an env of which it is not known whether it is still there. */
const knock: Protocol.Request = { type: "step", text: '{"type":"step","data":{"type":"list_tools"}}' }

/** One episode, and what its record will be made of. */
class OpenEnvEpisode implements Dialect.Episode {
  private began: number
  /** When the env said that the episode is over. */
  private ended: number | undefined
  private submitted = false
  private steps = 0
  private toolErrors = 0
  private reward: number | null = null
  private success: boolean | undefined

  constructor(
    private readonly url: string,
    private readonly beginning: Dialect.Beginning,
    private readonly actions: Actions["_tag"],
    private readonly settings: Settings,
    private readonly clock: Clock.Clock
  ) {
    this.began = this.now()
  }

  get reset(): Ask<Json.Json> {
    const { episodeId, extra, taskId } = this.beginning
    const data = Object.entries({ task_id: taskId, episode_id: episodeId, ...extra }).filter(
      ([, value]) => value !== null
    )
    return {
      request: { type: "reset", text: `{"type":"reset","data":${Json.stringify(Object.fromEntries(data))}}` },
      decode: ({ data }) =>
        Either.map(Protocol.decodeReset(data), (observation) => {
          this.began = this.now()
          // What an episode is worth that is over with its reset, only the reset's answer can tell.
          if (Json.isObject(data) && Json.truthy(data.done)) {
            this.credit({ observation, reward: data.reward ?? null, done: true })
          }
          return observation
        }),
      onError: (error) => Either.left(this.lostBy(error) ?? error)
    }
  }

  isOver(): boolean {
    return this.ended !== undefined
  }

  /** An env of actions of its own has the tool `act` only, whose name is not sent. */
  step(toolName: string, args: string): Ask<Protocol.StepResult> {
    if (this.actions === "Own" && toolName !== "act") return this.noSuch(toolName)
    return {
      request:
        this.actions === "Tools"
          ? Protocol.step({ toolName, args, episodeId: this.beginning.episodeId })
          : { type: "step", text: `{"type":"step","data":${args}}` },
      decode: ({ data }) =>
        Either.flatMap(
          Protocol.decodeStep(data),
          (result): Either.Either<Protocol.StepResult, ConnectionLost> =>
            isGone(Protocol.observationError(result.observation))
              ? Either.left(this.gone())
              : Either.right(this.answered(result))
        ),
      // The server hands on what is wrong with an action, and what the env throws; the env stays as it is, and is asked on.
      onError: (error) => {
        const lost = this.lostBy(error)
        if (lost !== undefined) return Either.left(lost)
        return error.code === "VALIDATION_ERROR" || error.code === "EXECUTION_ERROR"
          ? Either.right(this.refused(refusalOf(error)))
          : Either.left(error)
      }
    }
  }

  /** The answer to a call of a tool that is not there, with which the env is not troubled: `state` does nothing. */
  private noSuch(toolName: string): Ask<Protocol.StepResult> {
    const message = `There is no tool ${JSON.stringify(toolName)}. The only one is act.`
    return {
      request: Protocol.state,
      decode: () => Either.right(this.refused({ error: { message } })),
      onError: (error) => Either.left(this.lostBy(error) ?? error)
    }
  }

  finish(ask: AskFn): Effect.Effect<EpisodeRecord, ExchangeError> {
    return Effect.gen(this, function* () {
      // Most states do not tell `done`; but that there is one tells that the connection is sound.
      if (this.ended === undefined && (yield* ask(this.state))) this.ended = this.now()
      if (this.ended === undefined && this.actions === "Tools" && !this.submitted && (yield* this.listsSubmit(ask))) {
        yield* ask(this.step("submit", "{}"))
        this.submitted = true
      }
      return this.record()
    })
  }

  private get state(): Ask<boolean> {
    return {
      request: Protocol.state,
      decode: ({ data }) => Either.map(Protocol.decodeState(data), ({ done }) => Json.truthy(done)),
      onError: (error) => Either.left(this.lostBy(error) ?? error)
    }
  }

  /** Whether the env lists a tool `submit`. One that was taken away lists none at all, and only a step tells why. */
  private listsSubmit(ask: AskFn): Effect.Effect<boolean, ExchangeError> {
    return Effect.gen(this, function* () {
      const tools = yield* ask({
        request: listTools,
        decode: ({ data }) => Either.right(toolsOf(data)),
        onError: (error) => Either.left(this.lostBy(error) ?? error)
      })
      if (tools.length > 0) return tools.some((tool) => Json.isObject(tool) && tool.name === "submit")
      return yield* ask<boolean>({
        request: knock,
        decode: ({ text }) => (isGone(text) ? Either.left(this.gone()) : Either.right(false)),
        onError: (error) => {
          const lost = this.lostBy(error)
          return lost === undefined ? Either.right(false) : Either.left(lost)
        }
      })
    })
  }

  private answered(result: Protocol.StepResult): Protocol.StepResult {
    const { observation } = result
    const { error, result: called } = Json.isObject(observation) ? observation : {}
    this.steps++
    if (Json.truthy(error) || (Json.isObject(called) && called.is_error === true)) this.toolErrors++
    this.credit(result)
    this.submitted = false
    return result
  }

  /** Takes up what an answer says of the episode's worth and end. */
  private credit({ done, observation, reward: given }: Protocol.StepResult): void {
    const { metadata } = Json.isObject(observation) ? observation : {}
    const reward = toNumber(given)
    if (reward !== undefined) {
      this.reward = this.settings.reward === "sum" ? (this.reward ?? 0) + reward : reward
    }
    const success = Json.isObject(metadata) ? metadata.success : undefined
    this.success = success === undefined || success === null ? undefined : Json.truthy(success)
    this.ended = done ? this.now() : undefined
  }

  /** A step that failed counts, and leaves the last good one in force. */
  private refused(observation: Json.JsonObject): Protocol.StepResult {
    this.steps++
    this.toolErrors++
    return { observation, reward: null, done: false }
  }

  private record(): EpisodeRecord {
    const { taskHash, taskId } = this.beginning
    const { ended, reward } = this
    return EpisodeRecord.of({
      task_id: taskId,
      reward,
      metadata: {
        ...(taskHash === undefined ? {} : { task_hash: taskHash }),
        success: this.success ?? (reward !== null && reward >= this.settings.successAt - tolerance),
        truncated: ended === undefined
      },
      diagnostics: { steps: this.steps, tool_errors: this.toolErrors },
      timings: { episode_s: ((ended ?? this.now()) - this.began) / 1000 }
    })
  }

  private now(): number {
    return this.clock.unsafeCurrentTimeMillis()
  }

  private gone(): ConnectionLost {
    return new ConnectionLost({
      url: this.url,
      reason:
        "the server has taken the env away and left the socket open, as it does after its session timeout, which has to be longer than the policy takes for a message"
    })
  }

  /** The loss of the connection that an error frame stands for. */
  private lostBy({ code, reason }: EnvError): ConnectionLost | undefined {
    if (isGone(reason)) return this.gone()
    // The server closes the socket behind this one, whatever was asked.
    if (code !== "SESSION_ERROR") return undefined
    return new ConnectionLost({ url: this.url, reason: "the server gave the session up", announced: { code, reason } })
  }
}

/** Rewards are sums of decimal fractions, none of which a double holds to the last digit. */
const tolerance = 1e-9

/** What an env of tools says of each call once it was closed: `MCPEnvironment` of openenv. */
const isGone = (text: string | undefined): boolean =>
  text !== undefined && /MCP (?:client|server) is not available; environment is closed/.test(text)

const refusalOf = ({ code, details, reason }: EnvError): Json.JsonObject => {
  const more = details === undefined ? undefined : Option.getOrUndefined(Either.getRight(Json.parse(details)))
  return { error: { code, message: reason, ...(Json.isObject(more) ? more : {}) } }
}

/** The tools in an answer to `tools/list`; none in a JSON-RPC error. */
const toolsOf = (data: Json.Json | undefined): ReadonlyArray<Json.Json> => {
  const result = Json.isObject(data) ? data.result : undefined
  const tools = Json.isObject(result) ? result.tools : undefined
  return Json.isArray(tools) ? tools : []
}

const toNumber = (reward: Json.Json): number | undefined =>
  typeof reward === "number" || typeof reward === "bigint" || typeof reward === "boolean" ? Number(reward) : undefined
