/**
 * The record: what an env says of one episode, its reward above all. It is kept
 * as the text that the env sent, so that saving it changes no digit and no key.
 *
 * @since 0.1.0
 */

import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Json from "./Json.js"

/**
 * A record. Where it comes from a trace file or a session it holds at least a
 * `reward` (a number or null) and `metadata` (an object).
 *
 * @since 0.1.0
 * @category models
 */
export class EpisodeRecord {
  private constructor(
    /** The record as it was sent: keys that nobody names here are kept. */
    readonly value: Json.JsonObject,
    private readonly source: () => string
  ) {}

  /**
   * Reads a record's text. The left side says in a few words why it is none.
   */
  static fromText(text: string): Either.Either<EpisodeRecord, string> {
    return Either.flatMap(Json.parse(text), (value) => EpisodeRecord.make(value, () => text))
  }

  /**
   * Makes a record of a value. The left side says in a few words why it is none.
   */
  static fromValue(value: Json.Json): Either.Either<EpisodeRecord, string> {
    return EpisodeRecord.make(value, () => Json.stringify(value))
  }

  /**
   * A record of parts that are known.
   */
  static of(
    value: Json.JsonObject & { readonly reward: number | null; readonly metadata: Json.JsonObject }
  ): EpisodeRecord {
    return new EpisodeRecord(value, () => Json.stringify(value))
  }

  /**
   * A record whose text is asked for only when it is needed; `text` has to say the same as `value`.
   *
   * @internal
   */
  static make(value: Json.Json | undefined, text: () => string): Either.Either<EpisodeRecord, string> {
    if (!Json.isObject(value)) return Either.left("it is no JSON object")
    const { metadata, reward } = value
    if (reward === undefined) return Either.left("it has no reward")
    if (reward !== null && typeof reward !== "number" && typeof reward !== "bigint") {
      return Either.left("its reward is neither a number nor null")
    }
    if (metadata === undefined) return Either.left("it has no metadata")
    if (!Json.isObject(metadata)) return Either.left("its metadata is no object")
    return Either.right(new EpisodeRecord(value, text))
  }

  /** The reward; null (the rollout is void) where it is null or not finite. */
  get reward(): number | null {
    const reward = Number(this.value.reward ?? Number.NaN)
    return Number.isFinite(reward) ? reward : null
  }

  /** The task's id; none where the record does not tell. */
  get taskId(): Option.Option<string> {
    return stringOf(this.value.task_id)
  }

  /** The version of the task; none where the record does not tell. */
  get taskHash(): Option.Option<string> {
    return stringOf(this.metadata.task_hash)
  }

  /** The record's `metadata`: what the env says of the episode beside the reward. */
  get metadata(): Json.JsonObject {
    return objectOrEmpty(this.value.metadata)
  }

  /** Whether the episode succeeded, by Python's idea of truth; false where the record does not tell. */
  get success(): boolean {
    return Json.truthy(this.metadata.success)
  }

  /** Whether the policy did harm, by Python's idea of truth; false where the record does not tell. */
  get harm(): boolean {
    return Json.truthy(this.metadata.harm)
  }

  /** The record as one line of ASCII JSON, without a line end: the form it has in a trace file. */
  get line(): string {
    return Json.toPythonLine(this.source())
  }

  /** For `JSON.stringify`, which cannot write every record: it fails on integers above 2^53. `line` has all digits. */
  toJSON(): Json.JsonObject {
    return this.value
  }

  /** The record with one more member at its end, which must not be there yet. */
  with(key: string, member: Json.Json): EpisodeRecord {
    return new EpisodeRecord({ ...this.value, [key]: member }, () => {
      const text = this.source().trimEnd().slice(0, -1).trimEnd()
      return `${text}${text.endsWith("{") ? "" : ","}${JSON.stringify(key)}:${Json.stringify(member)}}`
    })
  }
}

/**
 * A record's figures by name: `success` and `harm` as 0 or 1, then the
 * diagnostics, which win over those two, then `episode_s` (seconds) from the
 * timings, which wins over all. Takes a record's `value`; what it lacks counts as empty.
 *
 * @since 0.1.0
 * @category metrics
 */
export const metrics = (record: Json.JsonObject): Json.JsonObject => {
  const { episode_s } = objectOrEmpty(record.timings)
  const { harm, success } = objectOrEmpty(record.metadata)
  return {
    success: Json.truthy(success) ? 1 : 0,
    harm: Json.truthy(harm) ? 1 : 0,
    ...objectOrEmpty(record.diagnostics),
    ...(episode_s === undefined ? {} : { episode_s })
  }
}

const objectOrEmpty = (value: Json.Json | undefined): Json.JsonObject => (Json.isObject(value) ? value : {})

const stringOf = (value: Json.Json | undefined): Option.Option<string> =>
  typeof value === "string" ? Option.some(value) : Option.none()
