/**
 * The bearer token of containers, as the environment has it: clients send it, servers ask for it.
 *
 * @since 0.1.0
 */

import * as Config from "effect/Config"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"

/**
 * `MIROIR_TOKEN`; undefined where it is not set, or set to nothing.
 *
 * @since 0.1.0
 * @category config
 */
export const config: Config.Config<Redacted.Redacted | undefined> = Config.redacted(
  Config.nonEmptyString("MIROIR_TOKEN")
).pipe(
  Config.withDescription("The token that the containers want, if they want one"),
  Config.option,
  Config.map(Option.getOrUndefined)
)
