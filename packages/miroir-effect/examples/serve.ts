/** The program of a container that serves an environment of one's own; docs/environments.md shows it. */
// #region serve
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Layer from "effect/Layer"
import { cellar } from "./environment.js"

NodeRuntime.runMain(Layer.launch(EnvServer.layerConfig(cellar)))
// #endregion
