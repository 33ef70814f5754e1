/** Which containers a command is about: by arguments, else by the environment. */

import type * as FileSystem from "@effect/platform/FileSystem"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import type { Containers } from "@miroir-effect/core/Leasing"
import type { UrlFileError } from "@miroir-effect/core/MiroirError"
import * as UrlFile from "@miroir-effect/core/UrlFile"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { WrongUsage } from "./WrongUsage.js"

/** What a command line says of them. */
export interface Given {
  readonly urls: ReadonlyArray<string>
  readonly urlFile: Option.Option<string>
}

/** A variable that is set to nothing is none. */
const fromEnvironment = Config.all({
  urls: Config.nonEmptyString("MIROIR_URLS").pipe(
    Config.withDescription("The containers' base URLs, with commas between them"),
    Config.option,
    Config.map(
      Option.match({
        onNone: (): ReadonlyArray<string> => [],
        onSome: (text) => text.split(",").flatMap((url) => url.trim() || [])
      })
    )
  ),
  urlFile: Config.nonEmptyString("MIROIR_URL_FILE").pipe(
    Config.withDescription("The file that lists the containers' base URLs"),
    Config.option
  )
})

/** Arguments win over the environment. URLs are checked here, those in a file when it is read. */
export const containers = (command: string, given: Given): Effect.Effect<Containers, WrongUsage | ConfigError> =>
  Effect.gen(function* () {
    const wrong = (message: string) => new WrongUsage({ message, command })
    const isGiven = given.urls.length > 0 || Option.isSome(given.urlFile)
    const { urlFile, urls } = isGiven ? given : yield* fromEnvironment
    if (Option.isSome(urlFile)) {
      if (urls.length === 0) return { urlFile: urlFile.value }
      return yield* wrong(
        isGiven
          ? "Give URLs or --url-file, not both."
          : "MIROIR_URLS and MIROIR_URL_FILE are both set: unset one, or give URLs or --url-file."
      )
    }
    if (urls.length === 0) {
      return yield* wrong("No containers: give URLs or --url-file FILE, or set MIROIR_URLS or MIROIR_URL_FILE.")
    }
    yield* Either.mapLeft(Either.all(urls.map(BaseUrl.parse)), ({ message }) =>
      wrong(isGiven ? message : `MIROIR_URLS: ${message}`)
    )
    return { urls }
  })

/** Their URLs; a file is read again by each run of this. */
export const urlsOf = (
  containers: Containers
): Effect.Effect<ReadonlyArray<string>, UrlFileError, FileSystem.FileSystem> =>
  containers.urlFile === undefined ? Effect.succeed(containers.urls) : UrlFile.read(containers.urlFile)
