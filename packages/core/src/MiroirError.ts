/**
 * Every way in which the library can fail: one tag a kind of failure. Each error
 * has the fields a program needs, a `message` of one line that says what to do
 * next where that is known, and the Python client's code as `code`.
 *
 * No error holds a secret: URLs come without userinfo, and no request, header or
 * foreign error object is kept as a cause.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import { counted, listed, shown, visible } from "./internal/text.js"

const optionalString = Schema.optionalWith(Schema.String, { exact: true })
const optionalNumber = Schema.optionalWith(Schema.Number, { exact: true })

const sentence = (text: string): string => (/[.!?\u2026]$/.test(text) ? text : `${text}.`)

/**
 * An empty list of URLs, or one in it that is not http(s) with a host. Nothing was sent.
 *
 * @since 0.1.0
 * @category leasing
 */
export class InvalidUrls extends Schema.TaggedError<InvalidUrls>("@miroir-effect/core/MiroirError/InvalidUrls")(
  "InvalidUrls",
  {
    /** The offending URL without its userinfo; absent where the list is empty. */
    url: optionalString
  }
) {
  get code(): string {
    return "INVALID_URLS"
  }
  override get message(): string {
    return this.url === undefined
      ? "No container's URL was given: give at least one, as http://HOST:PORT."
      : `"${shown(this.url, 100)}" is no base URL: it has to be http(s)://HOST[:PORT][/PATH].`
  }
}

/**
 * The URL file is unreadable, lists something that is no http(s) URL with a host, or lists nothing.
 *
 * @since 0.1.0
 * @category leasing
 */
export class UrlFileError extends Schema.TaggedError<UrlFileError>("@miroir-effect/core/MiroirError/UrlFileError")(
  "UrlFileError",
  {
    file: Schema.String,
    /** The 1-based line at fault, where there is one. */
    line: optionalNumber,
    reason: Schema.String
  }
) {
  get code(): string {
    return "URL_FILE"
  }
  override get message(): string {
    const where = this.line === undefined ? "" : `, line ${this.line}`
    return `URL file ${visible(this.file)}${where}: ${sentence(visible(this.reason))}`
  }
}

/**
 * No container could be leased within the deadline, or at once where all are leased and `waitBusy` is false.
 *
 * @since 0.1.0
 * @category leasing
 */
export class NoFreeContainer extends Schema.TaggedError<NoFreeContainer>(
  "@miroir-effect/core/MiroirError/NoFreeContainer"
)("NoFreeContainer", {
  total: Schema.Number,
  leased: Schema.Number,
  unhealthy: Schema.Number,
  /** Up to three of the unhealthy ones. */
  unhealthyUrls: Schema.Array(Schema.String)
}) {
  get code(): string {
    return "NO_FREE_CONTAINER"
  }
  override get message(): string {
    const counts = `${this.leased} leased, ${this.unhealthy} unhealthy`
    const which = this.unhealthyUrls.length === 0 ? "" : ` (${listed(this.unhealthyUrls, 3)})`
    const advice =
      this.unhealthy > 0
        ? "see whether those are running"
        : "wait for one with waitBusy and a longer timeout, or start more"
    return `None of ${counted(this.total, "container")} is free: ${counts}${which}; ${advice}.`
  }
}

/**
 * An HTTP call did not get through, or a WebSocket handshake was refused.
 *
 * @since 0.1.0
 * @category connection
 */
export class ConnectionFailed extends Schema.TaggedError<ConnectionFailed>(
  "@miroir-effect/core/MiroirError/ConnectionFailed"
)("ConnectionFailed", {
  url: Schema.String,
  /** The status of the refusal, where there was an answer. */
  status: optionalNumber,
  reason: Schema.String
}) {
  get code(): string {
    return "CONNECTION_FAILED"
  }
  override get message(): string {
    const advice =
      this.status === 401 || this.status === 403
        ? " Check the token (MIROIR_TOKEN)."
        : this.status === 404
          ? " Check the URL's path."
          : ""
    return `Could not connect to ${shown(this.url)}: ${sentence(shown(this.reason))}${advice}`
  }
}

/**
 * The socket failed, in or between exchanges, or was closed by us. It sticks: later calls fail with the same
 * error and send nothing. The episode is gone; lease again to go on.
 *
 * @since 0.1.0
 * @category connection
 */
export class ConnectionLost extends Schema.TaggedError<ConnectionLost>(
  "@miroir-effect/core/MiroirError/ConnectionLost"
)("ConnectionLost", {
  url: Schema.String,
  reason: Schema.String,
  /** RFC 6455, section 7.4; 1006 where the peer sent no close frame. */
  closeCode: optionalNumber,
  closeReason: optionalString,
  /** The error frame that announced the close, where the server sent one. */
  announced: Schema.optionalWith(Schema.Struct({ code: Schema.String, reason: Schema.String }), { exact: true })
}) {
  get code(): string {
    return "CONNECTION_LOST"
  }
  override get message(): string {
    const announced =
      this.announced === undefined
        ? ""
        : ` It had said ${shown(this.announced.code, 60)}: ${sentence(shown(this.announced.reason))}`
    const said = this.closeReason === undefined || this.closeReason === "" ? "" : ` (${shown(this.closeReason)})`
    return `Lost the connection to ${shown(this.url)}: ${shown(this.reason)}${said}.${announced}`
  }
}

/**
 * An answer that is not JSON or lacks what the protocol needs, or a frame that nobody asked for. On a socket it
 * sticks like `ConnectionLost`, since replies can no longer be paired.
 *
 * @since 0.1.0
 * @category connection
 */
export class UnexpectedReply extends Schema.TaggedError<UnexpectedReply>(
  "@miroir-effect/core/MiroirError/UnexpectedReply"
)("UnexpectedReply", {
  url: Schema.String,
  /** What was asked: a frame's type, or the method and path of an HTTP call. */
  request: Schema.String,
  reason: Schema.String
}) {
  get code(): string {
    return "UNEXPECTED_REPLY"
  }
  override get message(): string {
    return `${shown(this.url)} gave an unexpected reply to ${shown(this.request, 80)}: ${sentence(shown(this.reason))}`
  }
}

/**
 * The env answered with an error frame. The session stays usable.
 *
 * @since 0.1.0
 * @category session
 */
export class EnvError extends Schema.TaggedError<EnvError>("@miroir-effect/core/MiroirError/EnvError")("EnvError", {
  url: Schema.String,
  /** The env's own code, as it sent it. */
  code: Schema.String,
  /** The env's own message, as it sent it. */
  reason: Schema.String,
  /** The text of a JSON object with what else the env's error frame held: OpenEnv says there what it refused of an action. */
  details: optionalString
}) {
  override get message(): string {
    const reason = shown(this.reason, 500)
    return `The env answered ${shown(this.code, 60)}${reason === "" ? "" : `: ${reason}`}`
  }
}

/**
 * An HTTP answer outside 2xx.
 *
 * @since 0.1.0
 * @category connection
 */
export class HttpStatusError extends Schema.TaggedError<HttpStatusError>(
  "@miroir-effect/core/MiroirError/HttpStatusError"
)("HttpStatusError", {
  url: Schema.String,
  status: Schema.Number,
  /** The answer's body, of a long one the first megabyte; the message shows its beginning. */
  body: Schema.String,
  /** What to do about it, in a sentence, where that is known. */
  advice: optionalString
}) {
  get code(): string {
    return `HTTP_${this.status}`
  }
  override get message(): string {
    const body = shown(this.body)
    const advice = this.advice ?? (this.status === 401 || this.status === 403 ? "Check the token (MIROIR_TOKEN)." : "")
    const answer = `${shown(this.url)} answered ${this.status}${body === "" ? "." : `: ${sentence(body)}`}`
    return advice === "" ? answer : `${answer} ${visible(advice)}`
  }
}

/**
 * A file of tasks that is unreadable, or a line in it that is no task.
 *
 * @since 0.1.0
 * @category catalog
 */
export class TasksFileError extends Schema.TaggedError<TasksFileError>(
  "@miroir-effect/core/MiroirError/TasksFileError"
)("TasksFileError", {
  file: Schema.String,
  /** The 1-based line at fault, where there is one. */
  line: optionalNumber,
  reason: Schema.String
}) {
  get code(): string {
    return "TASKS_FILE"
  }
  override get message(): string {
    const where = this.line === undefined ? "" : `, line ${this.line}`
    return `Tasks file ${visible(this.file)}${where}: ${sentence(shown(this.reason))}`
  }
}

/**
 * What was given as a range of seeds is none.
 *
 * @since 0.1.0
 * @category catalog
 */
export class InvalidSeeds extends Schema.TaggedError<InvalidSeeds>("@miroir-effect/core/MiroirError/InvalidSeeds")(
  "InvalidSeeds",
  {
    seeds: Schema.String,
    reason: Schema.String
  }
) {
  get code(): string {
    return "INVALID_SEEDS"
  }
  override get message(): string {
    return `"${shown(this.seeds, 80)}" is no range of seeds: ${sentence(visible(this.reason))}`
  }
}

/**
 * The MCP endpoint answered `tools/list` with a JSON-RPC error.
 *
 * @since 0.1.0
 * @category catalog
 */
export class ToolsError extends Schema.TaggedError<ToolsError>("@miroir-effect/core/MiroirError/ToolsError")(
  "ToolsError",
  {
    url: Schema.String,
    /** The JSON-RPC error's code, where it has one. */
    rpcCode: optionalNumber,
    reason: Schema.String
  }
) {
  get code(): string {
    return "TOOLS"
  }
  override get message(): string {
    const code = this.rpcCode === undefined ? "" : ` (${this.rpcCode})`
    return `${shown(this.url)} did not list its tools: ${sentence(shown(this.reason))}${code}`
  }
}

/**
 * A step or a finish without a reset that succeeded. Nothing was sent.
 *
 * @since 0.1.0
 * @category session
 */
export class NoEpisode extends Schema.TaggedError<NoEpisode>("@miroir-effect/core/MiroirError/NoEpisode")("NoEpisode", {
  url: Schema.String
}) {
  get code(): string {
    return "NO_EPISODE"
  }
  override get message(): string {
    return `There is no episode on ${shown(this.url)}: call reset first, and see that it succeeds.`
  }
}

/**
 * A step's arguments that are no JSON object, or that hold what JSON cannot. Nothing was sent.
 *
 * @since 0.1.0
 * @category session
 */
export class InvalidArguments extends Schema.TaggedError<InvalidArguments>(
  "@miroir-effect/core/MiroirError/InvalidArguments"
)("InvalidArguments", {
  tool: Schema.String,
  reason: Schema.String
}) {
  get code(): string {
    return "INVALID_ARGUMENTS"
  }
  override get message(): string {
    return `The arguments for the tool ${shown(this.tool, 80)} are no JSON object: ${sentence(shown(this.reason))}`
  }
}

/**
 * `finish` submitted and the episode did not end.
 *
 * @since 0.1.0
 * @category session
 */
export class NotGraded extends Schema.TaggedError<NotGraded>("@miroir-effect/core/MiroirError/NotGraded")("NotGraded", {
  url: Schema.String,
  episodeId: Schema.String,
  /** What the submit's observation gave as its error's message, where it did. */
  reason: optionalString
}) {
  get code(): string {
    return "NOT_GRADED"
  }
  override get message(): string {
    const why = this.reason === undefined ? "." : `: ${sentence(shown(this.reason))}`
    return `The episode was submitted and did not end${why} It may be finished again.`
  }
}

/**
 * No usable text came from the coworker model.
 *
 * @since 0.1.0
 * @category coworkers
 */
export class CoworkerFailed extends Schema.TaggedError<CoworkerFailed>(
  "@miroir-effect/core/MiroirError/CoworkerFailed"
)("CoworkerFailed", {
  url: Schema.String,
  model: Schema.String,
  reason: Schema.Literal("transport", "timeout", "status", "malformed", "refused", "empty"),
  /** The status, where the endpoint answered with one outside 2xx. */
  status: optionalNumber,
  detail: Schema.String,
  /** What to change, where no repeat mends it: the key, the model's name, a spent quota. */
  advice: optionalString
}) {
  get code(): string {
    return "COWORKER_FAILED"
  }
  override get message(): string {
    const advice = this.advice === undefined ? "" : ` ${visible(this.advice)}`
    return `The coworker model ${shown(this.model, 80)} at ${shown(this.url)} gave no text (${this.reason}): ${sentence(shown(this.detail))}${advice}`
  }
}

/**
 * A trace file that is unreadable or unwritable, or a line in it that is malformed or no record.
 *
 * @since 0.1.0
 * @category traces
 */
export class TraceError extends Schema.TaggedError<TraceError>("@miroir-effect/core/MiroirError/TraceError")(
  "TraceError",
  {
    /** Absent where the record is from no file. */
    file: optionalString,
    /** The 1-based line at fault, where there is one; without a file the record's number in its stream. */
    line: optionalNumber,
    reason: Schema.String
  }
) {
  get code(): string {
    return "TRACES"
  }
  override get message(): string {
    const { file, line } = this
    const where = file === undefined ? [] : [visible(file)]
    const which = line === undefined ? [] : [`${file === undefined ? "Record" : "line"} ${line}`]
    return `${[...where, ...which].join(", ")}: ${sentence(shown(this.reason))}`
  }
}

/**
 * A k below 1, or one that is no whole number.
 *
 * @since 0.1.0
 * @category calibration
 */
export class InvalidK extends Schema.TaggedError<InvalidK>("@miroir-effect/core/MiroirError/InvalidK")("InvalidK", {
  k: Schema.Number
}) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    return `k is ${this.k}, but has to be a whole number of at least 1.`
  }
}

/**
 * No task has two graded rollouts, which a class needs.
 *
 * @since 0.1.0
 * @category calibration
 */
export class NoClassableTask extends Schema.TaggedError<NoClassableTask>(
  "@miroir-effect/core/MiroirError/NoClassableTask"
)("NoClassableTask", {
  tasks: Schema.Number,
  /** Rollouts that were graded, over all tasks. */
  graded: Schema.Number,
  void: Schema.Number
}) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    return this.tasks === 0
      ? "There is no record to calibrate."
      : `None of ${counted(this.tasks, "task")} has 2 graded rollouts (${this.graded} graded, ${this.void} void in all): ${
          this.graded === 0 && this.void > 1 ? "find out why the env grades none" : "roll out more"
        }.`
  }
}

/**
 * Records of two versions of a task: their task_hash differs.
 *
 * @since 0.1.0
 * @category calibration
 */
export class TaskVersionConflict extends Schema.TaggedError<TaskVersionConflict>(
  "@miroir-effect/core/MiroirError/TaskVersionConflict"
)("TaskVersionConflict", {
  taskId: Schema.String,
  /** The two hashes, in code point order. */
  hashes: Schema.Tuple(Schema.String, Schema.String)
}) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    const [one, other] = this.hashes
    return `Task ${shown(this.taskId, 80)} is there in two versions, ${shown(one, 80)} and ${shown(other, 80)}: calibrate the traces of one.`
  }
}

/**
 * The calibration file is unreadable, unwritable, or no calibration.
 *
 * @since 0.1.0
 * @category calibration
 */
export class CalibrationFileError extends Schema.TaggedError<CalibrationFileError>(
  "@miroir-effect/core/MiroirError/CalibrationFileError"
)("CalibrationFileError", {
  file: Schema.String,
  reason: Schema.String
}) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    return `Calibration file ${visible(this.file)}: ${sentence(shown(this.reason))}`
  }
}

/**
 * Tasks that the calibration does not know, or knows in another version.
 *
 * @since 0.1.0
 * @category calibration
 */
export class StaleCalibration extends Schema.TaggedError<StaleCalibration>(
  "@miroir-effect/core/MiroirError/StaleCalibration"
)("StaleCalibration", {
  /** Ids of all tasks without an entry. */
  missing: Schema.Array(Schema.String),
  /** Ids of all tasks whose entry has another task_hash. */
  changed: Schema.Array(Schema.String)
}) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    const parts = [
      this.missing.length === 0 ? [] : [`no entry for ${listed(this.missing, 5)}`],
      this.changed.length === 0 ? [] : [`another version of ${listed(this.changed, 5)}`]
    ].flat()
    return `The calibration is stale: ${parts.join("; ")}. Calibrate again.`
  }
}

/**
 * `keep` is empty or names what is no class.
 *
 * @since 0.1.0
 * @category calibration
 */
export class UnknownClass extends Schema.TaggedError<UnknownClass>("@miroir-effect/core/MiroirError/UnknownClass")(
  "UnknownClass",
  {
    /** What was given that is no class; empty where nothing was given. */
    unknown: Schema.Array(Schema.String)
  }
) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    const what = this.unknown.length === 0 ? "No class to keep was given" : `No such class: ${listed(this.unknown, 5)}`
    return `${what}. Keep one or more of solved, learnable and out_of_reach.`
  }
}

/**
 * No task is of a class to keep.
 *
 * @since 0.1.0
 * @category calibration
 */
export class NoTaskKept extends Schema.TaggedError<NoTaskKept>("@miroir-effect/core/MiroirError/NoTaskKept")(
  "NoTaskKept",
  {
    keep: Schema.Array(Schema.String),
    /** How many of the given tasks are of each class; `none` for those without one. */
    counts: Schema.Struct({
      solved: Schema.Number,
      learnable: Schema.Number,
      out_of_reach: Schema.Number,
      none: Schema.Number
    })
  }
) {
  get code(): string {
    return "CALIBRATION"
  }
  override get message(): string {
    const { learnable, none, out_of_reach, solved } = this.counts
    return `No task is ${visible(this.keep.join(" or "))}: ${solved} solved, ${learnable} learnable, ${out_of_reach} out_of_reach, ${none} without a class.`
  }
}

/**
 * A setting of a chat model that it cannot have. Nothing was sent.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>(
  "@miroir-effect/core/MiroirError/InvalidSetting"
)("InvalidSetting", {
  /** Its name, as `temperature`. */
  setting: Schema.String,
  /** What it has to be. */
  reason: Schema.String
}) {
  get code(): string {
    return "INVALID_SETTING"
  }
  override get message(): string {
    return `The setting ${visible(this.setting)} ${sentence(shown(this.reason))}`
  }
}

/**
 * No message came from the policy: its endpoint could not be reached, did not answer in time or answered what nothing can
 * be made of, after all repeats. It breaks the episode, which is done again.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class PolicyFailed extends Schema.TaggedError<PolicyFailed>("@miroir-effect/core/MiroirError/PolicyFailed")(
  "PolicyFailed",
  {
    model: Schema.String,
    /** The endpoint's base URL, where the policy has one. */
    url: optionalString,
    /** The status that the endpoint answered with, where it did. */
    status: optionalNumber,
    reason: Schema.String
  }
) {
  get code(): string {
    return "POLICY_FAILED"
  }
  override get message(): string {
    return `The policy ${policyAt(this)} gave no message: ${sentence(shown(this.reason))}`
  }
}

/**
 * The policy's endpoint refuses what it is asked, and no repeat mends that: a wrong key, an unknown model, a spent quota, a
 * request that it calls invalid, a base URL that leads to no API. It ends the run.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class PolicyRejected extends Schema.TaggedError<PolicyRejected>(
  "@miroir-effect/core/MiroirError/PolicyRejected"
)("PolicyRejected", {
  model: Schema.String,
  /** The endpoint's base URL, where the policy has one. */
  url: optionalString,
  /** The status that the endpoint answered with, where it did. */
  status: optionalNumber,
  reason: Schema.String,
  /** What to change, as a sentence. */
  advice: optionalString
}) {
  get code(): string {
    return "POLICY_REJECTED"
  }
  override get message(): string {
    const advice = this.advice === undefined ? "" : ` ${visible(this.advice)}`
    return `The policy ${policyAt(this)} was rejected: ${sentence(shown(this.reason, 500))}${advice}`
  }
}

/**
 * The conversation is longer than the policy's model can take. It ends the episode, which is finished and graded.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class ContextFull extends Schema.TaggedError<ContextFull>("@miroir-effect/core/MiroirError/ContextFull")(
  "ContextFull",
  {
    model: Schema.String,
    reason: Schema.String
  }
) {
  get code(): string {
    return "CONTEXT_FULL"
  }
  override get message(): string {
    return `The conversation is too long for the policy ${shown(this.model, 80)}: ${sentence(shown(this.reason))}`
  }
}

/**
 * The policy, or a filter before it, refuses to go on with the conversation. It ends the episode, which is finished and
 * graded.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class PolicyRefused extends Schema.TaggedError<PolicyRefused>("@miroir-effect/core/MiroirError/PolicyRefused")(
  "PolicyRefused",
  {
    model: Schema.String,
    reason: Schema.String
  }
) {
  get code(): string {
    return "POLICY_REFUSED"
  }
  override get message(): string {
    return `The policy ${shown(this.model, 80)} refused: ${sentence(shown(this.reason))}`
  }
}

/**
 * An attempt at a rollout was not over in time. It breaks the episode, which is done again.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class EpisodeTimeout extends Schema.TaggedError<EpisodeTimeout>(
  "@miroir-effect/core/MiroirError/EpisodeTimeout"
)("EpisodeTimeout", {
  /** The container's base URL. */
  url: Schema.String,
  seconds: Schema.Number
}) {
  get code(): string {
    return "EPISODE_TIMEOUT"
  }
  override get message(): string {
    return `The episode on ${shown(this.url)} was not over after ${this.seconds} s. Give it more time with maxSeconds, or see what keeps it.`
  }
}

/**
 * Another run works in the folder, or one on another host did and left its lock.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class RunLocked extends Schema.TaggedError<RunLocked>("@miroir-effect/core/MiroirError/RunLocked")("RunLocked", {
  folder: Schema.String,
  /** The lock's file. */
  file: Schema.String,
  /** Where the other run's process is. */
  host: Schema.String,
  pid: Schema.Number,
  /** When the other run began, in UTC. */
  since: Schema.String
}) {
  get code(): string {
    return "RUN_LOCKED"
  }
  override get message(): string {
    const { file, folder, host, pid, since } = this
    return `A run works in ${visible(folder)}: process ${pid} on ${shown(host, 80)}, since ${shown(since, 40)}. Wait for it or give another folder; if it is over for certain, remove ${visible(file)}.`
  }
}

/**
 * The folder holds a run with other settings, or rollouts of other versions of the tasks. Nothing was changed.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class RunMismatch extends Schema.TaggedError<RunMismatch>("@miroir-effect/core/MiroirError/RunMismatch")(
  "RunMismatch",
  {
    folder: Schema.String,
    /** What differs: a setting by its name, or `task ID`, whose values are the versions. */
    differences: Schema.Array(Schema.Struct({ setting: Schema.String, was: Schema.String, is: Schema.String }))
  }
) {
  get code(): string {
    return "RUN_MISMATCH"
  }
  override get message(): string {
    const differences = this.differences.map(
      ({ is, setting, was }) => `${shown(setting, 80)} was ${shown(was, 80)} and is ${shown(is, 80)}`
    )
    const most = 5
    const more = differences.length > most ? `; and ${differences.length - most} more` : ""
    return `The run in ${visible(this.folder)} is another one: ${differences.slice(0, most).join("; ")}${more}. Go on with what it was, give another folder, or begin anew (--fresh).`
  }
}

/**
 * A task is another version than the one that a run is of: two are in its plan, or a container has another one.
 *
 * @since 0.1.0
 * @category rollouts
 */
export class TaskChanged extends Schema.TaggedError<TaskChanged>("@miroir-effect/core/MiroirError/TaskChanged")(
  "TaskChanged",
  {
    taskId: Schema.String,
    /** The plan's `task_hash`, and the other one. */
    hashes: Schema.Tuple(Schema.String, Schema.String),
    /** The container that has the other one; absent where it is in the plan too. */
    url: optionalString
  }
) {
  get code(): string {
    return "TASK_CHANGED"
  }
  override get message(): string {
    const [hash, other] = this.hashes.map((each) => shown(each, 80))
    const task = `Task ${shown(this.taskId, 80)}`
    return this.url === undefined
      ? `${task} is in the plan in two versions, ${hash} and ${other}: list the tasks again.`
      : `${task} is ${hash} in the plan, but ${other} on ${shown(this.url)}: take containers of one version, and list their tasks again.`
  }
}

const policyAt = ({ model, url }: { readonly model: string; readonly url?: string }): string =>
  url === undefined ? shown(model, 80) : `${shown(model, 80)} at ${shown(url)}`

/**
 * What one exchange on a session's socket can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type ExchangeError = ConnectionLost | UnexpectedReply | EnvError

/**
 * What `Session.step` can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type StepError = ExchangeError | NoEpisode | InvalidArguments

/**
 * What `Session.finish` can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type FinishError = ExchangeError | NoEpisode | NotGraded

/**
 * What `Leasing.lease` can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type LeaseError = InvalidUrls | UrlFileError | NoFreeContainer | ConnectionFailed | EnvError

/**
 * What an HTTP call of the catalog can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type CatalogError = InvalidUrls | ConnectionFailed | HttpStatusError | UnexpectedReply | ToolsError

/**
 * What the tasks that a user gives can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type TasksError = TasksFileError | InvalidSeeds

/**
 * What `Coworker.answerCoworkers` can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type AnswerError = ExchangeError | CoworkerFailed

/**
 * What making a calibration of records can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type CalibrationError = InvalidK | NoClassableTask | TaskVersionConflict

/**
 * What `Calibration.select` can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type SelectError = CalibrationFileError | StaleCalibration | UnknownClass | NoTaskKept

/**
 * What `Policy.next` can fail with.
 *
 * @since 0.1.0
 * @category unions
 */
export type PolicyError = PolicyFailed | PolicyRejected | ContextFull | PolicyRefused

/**
 * What breaks one episode of a rollout run; the run itself goes on.
 *
 * @since 0.1.0
 * @category unions
 */
export type EpisodeError = StepError | FinishError | AnswerError | PolicyFailed | EpisodeTimeout

/**
 * What ends a rollout run. Of the coworkers' failures it is those with an `advice`, which no repeat mends; of the policy's,
 * that a rollout was given up for want of an answer while there never was one, or none for long.
 *
 * @since 0.1.0
 * @category unions
 */
export type RolloutError =
  | LeaseError
  | CatalogError
  | TraceError
  | PolicyRejected
  | PolicyFailed
  | CoworkerFailed
  | RunLocked
  | RunMismatch
  | TaskChanged

/**
 * Any failure of the library.
 *
 * @since 0.1.0
 * @category unions
 */
export type MiroirError =
  | LeaseError
  | StepError
  | FinishError
  | CatalogError
  | TasksError
  | AnswerError
  | PolicyError
  | InvalidSetting
  | EpisodeError
  | RolloutError
  | TraceError
  | CalibrationError
  | SelectError
