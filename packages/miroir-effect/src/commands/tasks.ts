/** `miroir-effect tasks`: the tasks of a split, as the first container that answers lists them. */

import * as Catalog from "@miroir-effect/core/Catalog"
import * as Json from "@miroir-effect/core/Json"
import type { Task } from "@miroir-effect/core/Protocol"
import * as Text from "@miroir-effect/core/Text"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Containers from "../internal/containers.js"
import { catalogLayer, documentOf, inOneLine } from "../internal/listing.js"
import { print, width } from "../internal/terminal.js"

interface Options extends Containers.Given {
  readonly split: string
  readonly json: boolean
}

export const tasks = Effect.fnUntraced(function* ({ json, split, ...given }: Options) {
  const urls = yield* Containers.urlsOf(yield* Containers.containers("tasks", given))
  const catalog = yield* Catalog.Catalog
  const tasks = yield* catalog.tasks(yield* catalog.answering(urls), split)
  if (json) return yield* print(documentOf(tasks))
  const withCoworkers = tasks.filter(({ coworkers }) => Json.truthy(coworkers)).length
  const summary = `${Text.counted(tasks.length, "task")} in the split ${Text.visible(split)}, ${withCoworkers} with coworkers`
  if (tasks.length === 0) return yield* print(summary)
  const table = Text.table(columns, tasks.map(cells), { width: Option.getOrUndefined(yield* width) })
  yield* print(`${table}\n\n${summary}`)
}, Effect.provide(catalogLayer))

const columns: ReadonlyArray<Text.Column> = [
  { heading: "task", fit: "cut" },
  { heading: "steps", align: "right" },
  { heading: "coworkers" },
  { heading: "instruction", fit: "cut" }
]

const cells = ({ coworkers, id, instruction, max_steps }: Task): ReadonlyArray<string> => [
  id,
  typeof max_steps === "number" || typeof max_steps === "bigint" ? String(max_steps) : "-",
  Json.truthy(coworkers) ? "yes" : "-",
  inOneLine(instruction) || "-"
]
