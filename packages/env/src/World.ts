/**
 * What the author of an environment writes: tasks, tools, state, coworkers and a
 * grade, in plain Effect code. `EnvServer` does the protocol.
 *
 * @since 0.1.0
 */

import * as Json from "@miroir-effect/core/Json"
import type { CoworkerTurn, Surface } from "@miroir-effect/core/Protocol"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as JSONSchema from "effect/JSONSchema"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

/**
 * A tool's answer to the policy that the call did not work: the `error` of the observation. The episode goes on.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolError extends Schema.TaggedError<ToolError>("@miroir-effect/env/World/ToolError")("ToolError", {
  /** What kind of error, for programs: `not_found`, `invalid_arguments`, … */
  type: Schema.String,
  /** What went wrong, for the model: one line that says what to do instead where that is known. */
  message: Schema.String
}) {}

/**
 * The episode cannot be graded: it ends all the same, void (reward null), and its record's metadata says why.
 *
 * @since 0.1.0
 * @category errors
 */
export class GradeError extends Schema.TaggedError<GradeError>("@miroir-effect/env/World/GradeError")("GradeError", {
  /** Why not, for the record's `void_reason`. */
  message: Schema.String
}) {}

/**
 * A task. What is said here is listed to clients, `setup` alone is not.
 *
 * @since 0.1.0
 * @category models
 */
export interface Task {
  /** One of its own in the whole world, over all splits. */
  readonly id: string
  /** What the policy is asked to do. */
  readonly instruction: string
  /** Whom the policy acts as. */
  readonly persona?: { readonly description: string | null }
  /** How many tool calls an episode may have, `submit` included: at least 1. The last one ends it. No limit if not given. */
  readonly max_steps?: number
  /** The coworkers in the task; none where it is not given or falsy as Python has it. */
  readonly coworkers?: Json.Json
  /** The SHA-256, as hex, of the task's canonical JSON (keys sorted, `setup` included) unless given. */
  readonly task_hash?: string
  /** What the world is set up from and graded by: part of the hash, so that traces tell the versions of a task apart. */
  readonly setup?: Json.Json
}

/**
 * How an episode went.
 *
 * @since 0.1.0
 * @category models
 */
export interface Grade {
  /** A finite number; null makes the rollout void. */
  readonly reward: number | null
  /** Whether the task was done; a reward may be for a part of it. */
  readonly success: boolean
  /** Whether the policy did something that it must not. */
  readonly harm: boolean
  /** What else the record's metadata shall say. */
  readonly metadata?: Json.JsonObject
}

/**
 * A tool, as `tool` makes it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tool<in State, out R = never> {
  readonly name: string
  /** For the model. */
  readonly description: string
  /** Those that it is listed on. */
  readonly surfaces: ReadonlyArray<Surface>
  /** The parameters as JSON Schema, or why the Schema has none. */
  readonly inputSchema: Either.Either<Json.JsonObject, string>
  /** Decodes the arguments and calls the tool; arguments that do not fit are a ToolError of type `invalid_arguments`. */
  readonly call: (args: Json.JsonObject, state: State) => Effect.Effect<Json.Json, ToolError, R>
}

/**
 * The simulated people in a world, whom the client's model speaks for.
 *
 * @since 0.1.0
 * @category models
 */
export interface Coworkers<in State, out R = never> {
  /** Those with messages that they have not answered, each with the chat that the model has to continue for them. */
  readonly turns: (state: State) => Effect.Effect<ReadonlyArray<CoworkerTurn>, never, R>
  /** Takes what a coworker says; false where nobody waits for it. */
  readonly reply: (state: State, coworker: string, text: string) => Effect.Effect<boolean, never, R>
}

/**
 * An environment. Its functions run one at a time for an episode, with an Effect `Random` seeded by the task's hash:
 * the same task is the same world, and the same calls have the same end.
 *
 * @since 0.1.0
 * @category models
 */
export interface World<State, T extends Task = Task, R = never> {
  /** The environment's name, as `GET /list_environments` gives it. */
  readonly name: string
  /** The tasks by split: `train`, `test`. */
  readonly tasks: { readonly [split: string]: ReadonlyArray<T> }
  /** The tools; `submit`, which ends an episode and has it graded, is there without being named. */
  readonly tools: ReadonlyArray<Tool<State, R>>
  /**
   * Makes an episode's state. Its scope closes when the next episode begins or the client is gone. `coworkers` is
   * false where the client has no model to speak for them.
   */
  readonly reset: (task: T, options: { readonly coworkers: boolean }) => Effect.Effect<State, never, R | Scope.Scope>
  /** None if not given. */
  readonly coworkers?: Coworkers<State, R>
  /** Grades the state as it stands: after a submit, or when the steps or the time are used up. */
  readonly grade: (state: State, task: T) => Effect.Effect<Grade, GradeError, R>
}

/**
 * A world, with the types of its state, tasks and needs inferred.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <State, T extends Task = Task, R = never>(world: World<State, T, R>): World<State, T, R> => world

/**
 * A tool whose arguments are decoded by a Schema, which clients see as JSON Schema. Arguments that the Schema does
 * not name are refused. The tool is on every surface unless some are named.
 *
 * @since 0.1.0
 * @category constructors
 */
export const tool = <A, I, State, R = never>(options: {
  readonly name: string
  readonly description: string
  readonly parameters: Schema.Schema<A, I>
  readonly surfaces?: ReadonlyArray<Surface>
  readonly handle: (args: A, state: State) => Effect.Effect<Json.Json, ToolError, R>
}): Tool<State, R> => {
  const decode = Schema.decodeUnknown(options.parameters, { errors: "all", onExcessProperty: "error" })
  return {
    name: options.name,
    description: options.description,
    surfaces: options.surfaces ?? ["api", "mcp", "code"],
    inputSchema: inputSchema(options.parameters),
    call: (args, state) =>
      decode(args).pipe(
        Effect.catchTag("ParseError", invalidArguments),
        Effect.flatMap((decoded) => options.handle(decoded, state))
      )
  }
}

/**
 * The parameters of a tool that takes none.
 *
 * @since 0.1.0
 * @category schemas
 */
export const noParameters = Schema.Struct({}).annotations({
  jsonSchema: { type: "object", properties: {}, additionalProperties: false }
})

/**
 * An integer of any size; beyond ±(2^53 - 1) it is a `bigint`. A description goes into its annotation `jsonSchema`,
 * beside the type.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Integer = Schema.Union(Schema.Int, Schema.BigIntFromSelf).annotations({
  jsonSchema: { type: "integer" }
})

const inputSchema = <A, I>(parameters: Schema.Schema<A, I>): Either.Either<Json.JsonObject, string> =>
  Either.try({
    try: () => {
      const { $schema: _, ...schema } = JSONSchema.make(parameters)
      return JSON.stringify(schema)
    },
    catch: (cause) => (cause instanceof Error ? cause.message.replaceAll(/\s+/g, " ") : "its Schema has no JSON Schema")
  }).pipe(
    Either.flatMap(Json.parse),
    Either.filterOrLeft(Json.isObject, () => "its JSON Schema is no object")
  )

/** Characters of each thing that is wrong with the arguments, which may quote them, and how many such things are told. */
const most = { characters: 300, issues: 10 }

const invalidArguments = (error: ParseResult.ParseError): Effect.Effect<never, ToolError> =>
  ParseResult.ArrayFormatter.formatError(error).pipe(
    Effect.map((issues) => {
      const told = issues.slice(0, most.issues).map(({ message, path }) => {
        const text = path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`
        return text.length > most.characters ? `${text.slice(0, most.characters)}…` : text
      })
      const more = issues.length - told.length
      return [...told, ...(more === 0 ? [] : [`and ${more} more`])].join("; ").replaceAll(/\s+/g, " ")
    }),
    // It goes as deep as the engine's stack, into what the policy wrote.
    Effect.catchAllDefect(() => Effect.succeed("The arguments do not fit; they are nested too deeply to say where")),
    Effect.flatMap((message) => new ToolError({ type: "invalid_arguments", message }))
  )
