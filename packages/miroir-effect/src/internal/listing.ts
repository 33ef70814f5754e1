/** What the commands share that ask containers: the catalog, and how its answers are printed. */

import * as Catalog from "@miroir-effect/core/Catalog"
import * as Json from "@miroir-effect/core/Json"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Text from "@miroir-effect/core/Text"
import * as Layer from "effect/Layer"

/** The catalog, with the token from the environment. */
export const catalogLayer = Layer.provide(Catalog.layerConfig, NodeHttp.layer)

/** A JSON document of a line for each entry, in which nothing can move the cursor. */
export const documentOf = (entries: ReadonlyArray<Json.Json>): string =>
  entries.length === 0 ? "[]" : `[\n${entries.map(lineOf).join(",\n")}\n]`

/** A JSON document in one line, in which nothing can move the cursor. */
export const lineOf = (entry: Json.Json): string => Text.visible(Json.stringify(entry))

/** A text of several lines in one. */
export const inOneLine = (text: string): string => text.replace(/\s+/g, " ").trim()
