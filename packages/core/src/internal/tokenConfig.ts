/** The containers' bearer token from the environment; a variable that is set to nothing is none. */

import * as Config from "effect/Config"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"

export const tokenConfig: Config.Config<Redacted.Redacted | undefined> = Config.redacted(
  Config.nonEmptyString("MIROIR_TOKEN")
).pipe(
  Config.withDescription("The token that the containers want, if they want one"),
  Config.option,
  Config.map(Option.getOrUndefined)
)
