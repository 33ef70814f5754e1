/**
 * URL files, which name the containers of a pool: UTF-8 text, a URL on each line,
 * blank lines and all from a `#` on ignored. Shared with the Python client.
 *
 * @since 0.1.0
 */

import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as BaseUrl from "./BaseUrl.js"
import { platformReason } from "./internal/platformReason.js"
import { shown } from "./internal/text.js"
import { writeWhole } from "./internal/wholeFile.js"
import { UrlFileError } from "./MiroirError.js"

/**
 * The URLs in a URL file's text, as they stand there and in their order; at least one. `file` is its name, for errors.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (file: string, text: string): Either.Either<ReadonlyArray<string>, UrlFileError> => {
  const urls: Array<string> = []
  for (const [index, line] of text.split("\n").entries()) {
    const url = line.replace(/#.*$/s, "").trim()
    if (url === "") continue
    if (Either.isLeft(BaseUrl.parse(url))) {
      const reason = `"${shown(BaseUrl.withoutUserinfo(url), 100)}" is not http(s)://HOST[:PORT][/PATH]`
      return Either.left(new UrlFileError({ file, line: index + 1, reason }))
    }
    urls.push(url)
  }
  return urls.length === 0 ? Either.left(new UrlFileError({ file, reason: "it lists no URL" })) : Either.right(urls)
}

/**
 * Reads a URL file.
 *
 * @since 0.1.0
 * @category parsing
 */
export const read = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const bytes = yield* fs.readFile(file).pipe(
    Effect.mapError(
      (error) =>
        new UrlFileError({
          file,
          reason:
            error._tag === "SystemError" && error.reason === "NotFound" ? "there is no such file" : "it cannot be read"
        })
    )
  )
  const text = yield* Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
    catch: () => new UrlFileError({ file, reason: "it is no UTF-8 text" })
  })
  return yield* parse(file, text)
})

/**
 * Writes a URL file, whole or not at all, in the place of one that is there; its folder is made on demand.
 *
 * @since 0.1.0
 * @category printing
 */
export const write = (
  file: string,
  urls: ReadonlyArray<string>
): Effect.Effect<void, UrlFileError, FileSystem.FileSystem | Path.Path> =>
  writeWhole(file, Buffer.from(urls.map((url) => `${url}\n`).join(""))).pipe(
    Effect.mapError((error) => new UrlFileError({ file, reason: platformReason(error) }))
  )
