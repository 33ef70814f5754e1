/**
 * All services in one layer, on Node: what a program needs to lease, to ask the
 * catalog, to keep traces and to calibrate them.
 *
 * @since 0.1.0
 */

import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as Catalog from "@miroir-effect/core/Catalog"
import * as Leasing from "@miroir-effect/core/Leasing"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as SessionExchange from "@miroir-effect/core/SessionExchange"
import * as Traces from "@miroir-effect/core/Traces"
import * as Transport from "@miroir-effect/core/Transport"
import type * as ConfigError from "effect/ConfigError"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"

/**
 * What every program uses, and the file system that it uses. `Policy` and `Coworker` are a program's own choice, and `Rollout`
 * needs the first of them.
 *
 * @since 0.1.0
 * @category models
 */
export type Miroir =
  | Leasing.Leasing
  | Catalog.Catalog
  | Traces.Traces
  | Calibration.Calibration
  | FileSystem.FileSystem
  | Path.Path

/**
 * The settings of all services; what is not given has the default of its service.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** The containers' bearer token, for leases and catalog alike. */
  readonly token?: Redacted.Redacted | undefined
  /** Whether the proxies that the environment names are left aside, by calls and sockets alike. Default false. */
  readonly direct?: boolean | undefined
  readonly transport?: Partial<Transport.Settings> | undefined
  readonly exchange?: Partial<SessionExchange.Settings> | undefined
  readonly leasing?: Partial<Leasing.Settings> | undefined
  readonly catalog?: Catalog.Settings | undefined
}

const files = Layer.merge(NodeFileSystem.layer, NodePath.layer)

/**
 * All services, with settings given here.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = ({
  catalog,
  direct = false,
  exchange,
  leasing,
  token,
  transport
}: Settings = {}): Layer.Layer<Miroir> =>
  Layer.mergeAll(Leasing.layer({ token, ...leasing }), Catalog.layer({ token, ...catalog }), Calibration.layer).pipe(
    Layer.provideMerge(Traces.layer),
    Layer.provide([
      Layer.effect(SessionExchange.SessionExchange, SessionExchange.make(exchange)).pipe(
        Layer.provide(Transport.layer({ direct, ...transport }))
      ),
      direct ? NodeHttp.layerDirect : NodeHttp.layer
    ]),
    Layer.provideMerge(files)
  )

/**
 * All services, with settings from the environment: MIROIR_TOKEN, MIROIR_LEASE_TIMEOUT and those of `Transport`.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<Miroir, ConfigError.ConfigError> = Layer.mergeAll(
  Leasing.layerConfig,
  Catalog.layerConfig,
  Calibration.layer
).pipe(
  Layer.provideMerge(Traces.layer),
  Layer.provide([SessionExchange.layer.pipe(Layer.provide(Transport.layerConfig)), NodeHttp.layer]),
  Layer.provideMerge(files)
)
