/**
 * A program of its own, since Node reads NODE_EXTRA_CA_CERTS when it starts: calls each of the base URLs that are its
 * arguments, opens a socket there, and prints what became of both.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as BaseUrl from "../../src/BaseUrl.js"
import * as http from "../../src/internal/http.js"
import * as NodeHttp from "../../src/NodeHttp.js"
import * as Transport from "../../src/Transport.js"

const token = Option.some(Redacted.make("tok-0123456789"))

const told = <A, E extends Error, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.match(effect, { onFailure: (error) => `${error.name}: ${error.message}`, onSuccess: () => "fine" })

const program = Effect.gen(function* () {
  const transport = yield* Transport.make()
  return yield* Effect.forEach(process.argv.slice(2), (url) =>
    Effect.flatMap(BaseUrl.parse(url), (base) =>
      Effect.all([
        told(http.call({ base, token, method: "GET", path: ["list_environments"], timeout: "10 seconds" })),
        told(Effect.scoped(transport.open(base, token)))
      ])
    )
  )
}).pipe(Effect.provide(NodeHttp.layer))

Effect.runPromise(program).then((outcomes) => process.stdout.write(JSON.stringify(outcomes)))
