/**
 * The library as one import: the modules of @miroir-effect/core, each a namespace, and `Miroir`, one layer over all.
 *
 * @since 0.1.0
 */

/** @since 0.1.0 */
export * from "@miroir-effect/core"

/** @since 0.1.0 */
export * as Miroir from "./Miroir.js"
