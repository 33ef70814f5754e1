/**
 * Test a pipeline without containers and models of your own. `ScriptedContainer` and `ChatEndpoint` are servers on
 * loopback, and a `FaultProxy` before one of them, or before a real one, is at fault when it is told to; the stubs are the
 * services of the core, without any I/O and without time.
 *
 * @since 0.1.0
 */

/** @since 0.1.0 */
export * as ChatEndpoint from "./ChatEndpoint.js"

/** @since 0.1.0 */
export * as FaultProxy from "./FaultProxy.js"

/** @since 0.1.0 */
export * as ScriptedContainer from "./ScriptedContainer.js"

/** @since 0.1.0 */
export * as StubCalibration from "./StubCalibration.js"

/** @since 0.1.0 */
export * as StubCatalog from "./StubCatalog.js"

/** @since 0.1.0 */
export * as StubCoworker from "./StubCoworker.js"

/** @since 0.1.0 */
export * as StubLeasing from "./StubLeasing.js"

/** @since 0.1.0 */
export * as StubPolicy from "./StubPolicy.js"

/** @since 0.1.0 */
export * as StubRollout from "./StubRollout.js"

/** @since 0.1.0 */
export * as StubSession from "./StubSession.js"

/** @since 0.1.0 */
export * as StubSessionExchange from "./StubSessionExchange.js"

/** @since 0.1.0 */
export * as StubTraces from "./StubTraces.js"

/** @since 0.1.0 */
export * as StubTransport from "./StubTransport.js"
