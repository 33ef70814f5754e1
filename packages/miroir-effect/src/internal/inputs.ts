/** Keeps what a command reads from being written over by what it writes. */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Text from "@miroir-effect/core/Text"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { WrongUsage } from "./WrongUsage.js"

/** Refuses an output file, which `option` names, that is one of the inputs, by whatever path, or a trace file in one of them. */
export const keepFrom = Effect.fnUntraced(function* (
  inputs: ReadonlyArray<string>,
  { command, file, option }: { readonly command: string; readonly file: string; readonly option: string }
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  // What is not there is no input yet.
  const real = (name: string) => Effect.option(fs.realPath(name))
  const output = Option.getOrUndefined(yield* real(file))
  if (output === undefined) return
  const folder = /\.jsonl(\.gz)?$/.test(output) ? path.dirname(output) : output
  const isInput = (input: string) => input === output || input === folder
  const given = yield* Effect.forEach(inputs, real)
  if (given.some(Option.exists(isInput))) {
    const message = `${option}: ${Text.visible(file)} is one of the files that are read: give another.`
    return yield* new WrongUsage({ message, command })
  }
})
