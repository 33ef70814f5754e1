/** `miroir-effect serve`: the embedded env, in containers on loopback, until a signal ends it. */

import * as FileSystem from "@effect/platform/FileSystem"
import * as Text from "@miroir-effect/core/Text"
import * as Token from "@miroir-effect/core/Token"
import * as UrlFile from "@miroir-effect/core/UrlFile"
import * as EnvServer from "@miroir-effect/env/EnvServer"
import * as Office from "@miroir-effect/env/Office"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { print } from "../internal/terminal.js"
import { WrongUsage } from "../internal/WrongUsage.js"

interface Options {
  readonly containers: number
  /** The first container's; 0 for any that is free. */
  readonly port: number
  readonly urlFile: Option.Option<string>
}

const lastPort = 65_535

export const serve = Effect.fnUntraced(function* ({ containers, port, urlFile }: Options) {
  if (port > 0 && port + containers - 1 > lastPort) {
    return yield* new WrongUsage({
      message: `There is no port above ${lastPort}: --port ${port} is too high for ${Text.counted(containers, "container")}.`,
      command: "serve"
    })
  }
  const token = yield* Token.config
  // They end side by side, so that the grace of each is that of all.
  const servers = yield* Effect.forEach(Array.from({ length: containers }).keys(), (index) =>
    EnvServer.make(Office.world, { port: port === 0 ? 0 : port + index, token })
  ).pipe(Effect.parallelFinalizers)
  const urls = servers.map(({ url }) => url)
  if (Option.isSome(urlFile)) yield* listed(urlFile.value, urls)
  yield* print(urls.join("\n"))
  yield* Effect.logInfo(
    `Serving the office in ${Text.counted(containers, "container")} until SIGINT (Ctrl-C) or SIGTERM.${
      token === undefined ? "" : " Clients have to send the token of MIROIR_TOKEN."
    }`
  )
  return yield* Effect.never
}, Effect.scoped)

/**
 * Keeps the URLs in a file for as long as the containers are there. What another has written over it stays, and so does
 * what is no file: a pipe would have to be waited for to be read.
 */
const listed = (file: string, urls: ReadonlyArray<string>) =>
  Effect.acquireReleaseInterruptible(UrlFile.write(file, urls), () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const real = yield* Effect.option(fs.realPath(file))
      if (Option.isNone(real) || (yield* fs.stat(real.value)).type !== "File") return
      const found = yield* Effect.option(UrlFile.read(real.value))
      if (Option.exists(found, (others) => others.join("\n") === urls.join("\n"))) yield* fs.remove(real.value)
    }).pipe(Effect.catchAll((error) => Effect.logWarning(`${Text.visible(file)} is left over`, error)))
  )
