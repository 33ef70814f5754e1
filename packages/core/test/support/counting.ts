/** Counts the fibers that are alive. */
import * as Effect from "effect/Effect"
import * as Supervisor from "effect/Supervisor"

/** Of those that an effect which is `Effect.supervised` by this starts, and they start in turn; without its own. */
export class Counting extends Supervisor.AbstractSupervisor<number> {
  alive = 0
  readonly value = Effect.sync(() => this.alive)
  override onStart(): void {
    this.alive++
  }
  override onEnd(): void {
    this.alive--
  }
}
