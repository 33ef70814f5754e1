/** `miroir-effect tools`: the tools of a surface, as the first container that answers lists them. */

import * as Catalog from "@miroir-effect/core/Catalog"
import * as Json from "@miroir-effect/core/Json"
import type { Surface, Tool } from "@miroir-effect/core/Protocol"
import * as Text from "@miroir-effect/core/Text"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Containers from "../internal/containers.js"
import { catalogLayer, documentOf, inOneLine } from "../internal/listing.js"
import { print, width } from "../internal/terminal.js"

interface Options extends Containers.Given {
  readonly surface: Option.Option<Surface>
  readonly json: boolean
}

export const tools = Effect.fnUntraced(function* ({ json, surface, ...given }: Options) {
  const urls = yield* Containers.urlsOf(yield* Containers.containers("tools", given))
  const catalog = yield* Catalog.Catalog
  const tools = yield* catalog.tools(yield* catalog.answering(urls), Option.getOrUndefined(surface))
  if (json) return yield* print(documentOf(tools))
  const where = Option.match(surface, { onNone: () => "", onSome: (name) => ` on the surface ${name}` })
  const summary = `${Text.counted(tools.length, "tool")}${where}; a ? marks what may be left out`
  if (tools.length === 0) return yield* print(`0 tools${where}`)
  const table = Text.table(columns, tools.map(cells), { width: Option.getOrUndefined(yield* width) })
  yield* print(`${table}\n\n${summary}`)
}, Effect.provide(catalogLayer))

const columns: ReadonlyArray<Text.Column> = [
  { heading: "tool", fit: "cut" },
  { heading: "parameters", fit: "wrap" },
  { heading: "description", fit: "wrap" }
]

const cells = (tool: Tool): ReadonlyArray<string> => [
  tool.name,
  parameters(tool),
  typeof tool.description === "string" ? inOneLine(tool.description) : "-"
]

/** By name, in the schema's order. */
const parameters = (tool: Tool): string => {
  const schema = tool.inputSchema ?? tool.input_schema
  const { properties, required } = Json.isObject(schema) ? schema : {}
  const names = Json.isObject(properties) ? Object.keys(properties) : []
  const isRequired = (name: string): boolean => Json.isArray(required) && required.includes(name)
  return names.length === 0 ? "-" : names.map((name) => (isRequired(name) ? name : `${name}?`)).join(", ")
}
