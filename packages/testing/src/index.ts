/**
 * Test a pipeline without containers and models of your own. `ScriptedContainer` and `ChatEndpoint` are servers on
 * loopback; the stubs are the services of the core, without any I/O and without time.
 *
 * @since 0.1.0
 */

/** @since 0.1.0 */
export * as ChatEndpoint from "./ChatEndpoint.js"

/** @since 0.1.0 */
export * as ScriptedContainer from "./ScriptedContainer.js"

/** @since 0.1.0 */
export * as StubCatalog from "./StubCatalog.js"

/** @since 0.1.0 */
export * as StubCoworker from "./StubCoworker.js"

/** @since 0.1.0 */
export * as StubLeasing from "./StubLeasing.js"

/** @since 0.1.0 */
export * as StubPolicy from "./StubPolicy.js"

/** @since 0.1.0 */
export * as StubSession from "./StubSession.js"

/** @since 0.1.0 */
export * as StubTraces from "./StubTraces.js"
