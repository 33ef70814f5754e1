/**
 * Environments: write a `World`, serve it with `EnvServer`. The `Office` is one to begin with.
 *
 * @since 0.1.0
 */

export * as EnvServer from "./EnvServer.js"
export * as Office from "./Office.js"
export * as OfficeOracle from "./OfficeOracle.js"
export * as World from "./World.js"
