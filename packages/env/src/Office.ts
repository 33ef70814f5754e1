/**
 * The office: a World with documents, mail, payments, a calendar, and coworkers who
 * know what stands nowhere and may not tell all of it. An episode is graded by what
 * was done in it, and by nothing else; nothing in it is left to chance.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import { coworkers } from "./internal/officeCoworkers.js"
import { grade } from "./internal/officeGrade.js"
import type {
  Colleague,
  Condition,
  Document,
  Mail,
  Meeting,
  Mention,
  OfficeTask,
  Setup
} from "./internal/officeModel.js"
import { Office, type Payment, type Said, type Sent } from "./internal/officeState.js"
import { test, train } from "./internal/officeTasks.js"
import { tools } from "./internal/officeTools.js"
import * as World from "./World.js"

export type { Colleague, Condition, Document, Mail, Meeting, Mention, OfficeTask, Setup }

export { Office, type Payment, type Said, type Sent }

/**
 * The office, to be served: `EnvServer.layer(Office.world)`. The reward is 1, a share of it where a task is worth
 * something in parts, or 0; after harm it is 0. The record's metadata has `goals` and `goals_met`, which are numbers,
 * and `harms`, the kinds of the harms done. Where no model speaks for the coworkers, none are there.
 *
 * @since 0.1.0
 * @category worlds
 */
export const world: World.World<Office, OfficeTask> = World.make({
  name: "office",
  tasks: { train, test },
  tools,
  reset: ({ setup }, options) => Effect.sync(() => new Office(setup, options.coworkers ? setup.colleagues : [])),
  coworkers,
  grade
})
