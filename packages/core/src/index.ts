/**
 * Lease containers, run episodes, keep traces, calibrate: the services, each a namespace.
 *
 * @since 0.1.0
 */

/** @since 0.1.0 */
export * as BaseUrl from "./BaseUrl.js"

/** @since 0.1.0 */
export * as Calibration from "./Calibration.js"

/** @since 0.1.0 */
export * as CalibrationReport from "./CalibrationReport.js"

/** @since 0.1.0 */
export * as Catalog from "./Catalog.js"

/** @since 0.1.0 */
export * as Coworker from "./Coworker.js"

/** @since 0.1.0 */
export * as Dialect from "./Dialect.js"

/** @since 0.1.0 */
export * as EpisodeRecord from "./EpisodeRecord.js"

/** @since 0.1.0 */
export * as Folders from "./Folders.js"

/** @since 0.1.0 */
export * as Json from "./Json.js"

/** @since 0.1.0 */
export * as Leasing from "./Leasing.js"

/** @since 0.1.0 */
export * as MiroirError from "./MiroirError.js"

/** @since 0.1.0 */
export * as NodeHttp from "./NodeHttp.js"

/** @since 0.1.0 */
export * as OpenEnv from "./OpenEnv.js"

/** @since 0.1.0 */
export * as Outcome from "./Outcome.js"

/** @since 0.1.0 */
export * as PassAtK from "./PassAtK.js"

/** @since 0.1.0 */
export * as Policy from "./Policy.js"

/** @since 0.1.0 */
export * as Prompt from "./Prompt.js"

/** @since 0.1.0 */
export * as Protocol from "./Protocol.js"

/** @since 0.1.0 */
export * as Recognition from "./Recognition.js"

/** @since 0.1.0 */
export * as Rollout from "./Rollout.js"

/** @since 0.1.0 */
export * as Session from "./Session.js"

/** @since 0.1.0 */
export * as SessionExchange from "./SessionExchange.js"

/** @since 0.1.0 */
export * as Tally from "./Tally.js"

/** @since 0.1.0 */
export * as Tasks from "./Tasks.js"

/** @since 0.1.0 */
export * as Telemetry from "./Telemetry.js"

/** @since 0.1.0 */
export * as Text from "./Text.js"

/** @since 0.1.0 */
export * as Token from "./Token.js"

/** @since 0.1.0 */
export * as Traces from "./Traces.js"

/** @since 0.1.0 */
export * as Transport from "./Transport.js"

/** @since 0.1.0 */
export * as UrlFile from "./UrlFile.js"
