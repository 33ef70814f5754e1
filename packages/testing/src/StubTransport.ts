/**
 * Connections without a socket: frames go to a script.
 *
 * @since 0.1.0
 */

import { ConnectionLost } from "@miroir-effect/core/MiroirError"
import * as Transport from "@miroir-effect/core/Transport"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import { type Answers, answering, missing } from "./internal/answers.js"

/**
 * A frame that was sent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Frame {
  /** The container's base URL. */
  readonly url: string
  readonly text: string
}

/**
 * Connections to any URL. Each frame is answered with the next text of a list, which all connections share, or with what
 * a function makes of the frame, one after the other. An effect stands for its result; so does a `ConnectionLost`, which
 * is an effect that fails with itself, and ends the connection. A frame without an answer ends it too, with a reason that
 * says so.
 *
 * @since 0.1.0
 * @category layers
 */
export const canned = (answers: Answers<Frame, string, ConnectionLost>): Layer.Layer<Transport.Transport> =>
  Layer.sync(Transport.Transport, () => {
    const answer = answering("Connection.send", answers)
    return {
      open: ({ href: url }) =>
        Effect.gen(function* () {
          const sent = yield* Queue.unbounded<string>()
          const peer = new Peer()
          const lost = (reason: string) => Effect.sync(() => peer.end(new ConnectionLost({ url, reason })))
          yield* Effect.addFinalizer(() => lost("it was closed by us"))
          yield* Queue.take(sent).pipe(
            Effect.flatMap((text) => answer({ url, text })),
            Effect.flatMap((text) => Effect.sync(() => peer.say(text))),
            Effect.forever,
            Effect.catchAll((error) => Effect.sync(() => peer.end(error))),
            Effect.catchAllDefect((defect) => lost(defect instanceof Error ? defect.message : String(defect))),
            Effect.forkScoped
          )
          return {
            send: (text) => sent.unsafeOffer(text),
            listen: (listener) => peer.listen(listener),
            close: () => peer.end(new ConnectionLost({ url, reason: "it was closed by us" }))
          }
        })
    }
  })

/**
 * A Transport of the methods that a test gives. Any other dies with its name.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  given: Partial<Context.Tag.Service<Transport.Transport>> = {}
): Layer.Layer<Transport.Transport> =>
  Layer.succeed(Transport.Transport, { open: () => missing("Transport.open"), ...given })

/** The other end of a connection, as its listener hears it. */
class Peer {
  private listener: Transport.Listener | undefined
  private early: Array<string> = []
  private lost: ConnectionLost | undefined

  listen(listener: Transport.Listener): void {
    this.listener = listener
    for (const text of this.early) listener.onFrame(text)
    const { lost } = this
    if (lost !== undefined) listener.onClose(() => lost)
  }

  say(text: string): void {
    if (this.lost !== undefined) return
    if (this.listener === undefined) this.early.push(text)
    else this.listener.onFrame(text)
  }

  end(error: ConnectionLost): void {
    if (this.lost !== undefined) return
    this.lost = error
    this.listener?.onClose(() => error)
  }
}
