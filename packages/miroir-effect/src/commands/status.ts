/** `miroir-effect status`: how each container is, once, or round by round until a signal ends it. */

import * as Text from "@miroir-effect/core/Text"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Containers from "../internal/containers.js"
import { check, counts, tableOf, toJson } from "../internal/health.js"
import { catalogLayer, documentOf } from "../internal/listing.js"
import { coloured, print, width } from "../internal/terminal.js"
import { watch } from "../internal/watch.js"

interface Options extends Containers.Given {
  readonly watch: boolean
  readonly json: boolean
}

/** No container can be used; the table, which says why, has been printed by then. */
export class NoneHealthy extends Data.TaggedError("NoneHealthy")<{ readonly message: string }> {}

export const status = Effect.fnUntraced(function* ({ json, watch: again, ...given }: Options) {
  const containers = yield* Containers.containers("status", given)
  if (again) return yield* watch(containers, json)
  const checked = yield* check(yield* Containers.urlsOf(containers))
  if (json) {
    yield* print(documentOf(checked.map(toJson)))
  } else {
    const table = tableOf(checked, { columns: Option.getOrUndefined(yield* width), styled: yield* coloured })
    yield* print(`${table}\n\n${counts(checked)}`)
  }
  if (checked.every(({ health }) => health === "unhealthy")) {
    return yield* new NoneHealthy({ message: `None of ${Text.counted(checked.length, "container")} is healthy.` })
  }
}, Effect.provide(catalogLayer))
