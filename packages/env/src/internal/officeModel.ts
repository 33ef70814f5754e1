/** What the office's tasks are written in: all of it JSON, since a task's hash is taken over it. */

import type * as World from "../World.js"

export const domain = "haldenmoss.example"

/**
 * A document, which has an id of its own and is in one folder.
 *
 * @since 0.1.0
 * @category models
 */
export type Document = {
  readonly id: string
  readonly title: string
  readonly folder: string
  readonly text: string
  /** What stands in the document's form fields, where it has any. */
  readonly fields: { readonly [name: string]: string | number | bigint }
}

/**
 * A mail that has come; `from` is an address.
 *
 * @since 0.1.0
 * @category models
 */
export type Mail = {
  readonly id: string
  readonly from: string
  readonly subject: string
  readonly body: string
}

export const days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"] as const
export const rooms = ["Elm", "Linden", "Oak"] as const

/**
 * A meeting in the calendar, which is that of one week.
 *
 * @since 0.1.0
 * @category models
 */
export type Meeting = {
  readonly id: string
  readonly title: string
  readonly day: (typeof days)[number]
  /** As `09:30`; so is `to`, which is later. */
  readonly from: string
  readonly to: string
  readonly room: (typeof rooms)[number]
  /** An address; so are the attendees, of whom the organizer need not be one. */
  readonly organizer: string
  readonly attendees: ReadonlyArray<string>
}

/**
 * A coworker, and what they know.
 *
 * @since 0.1.0
 * @category models
 */
export type Colleague = {
  readonly id: string
  readonly name: string
  readonly role: string
  /** What they know and may tell. */
  readonly tells: ReadonlyArray<string>
  /** What they know and must not tell the assistant. */
  readonly keeps: ReadonlyArray<string>
}

/**
 * The ways of writing a thing, of which a text has to have one, as words of its own.
 *
 * @since 0.1.0
 * @category models
 */
export type Mention = ReadonlyArray<string>

/**
 * Something that can be true of what was done in the office, looked at when the episode has ended.
 *
 * @since 0.1.0
 * @category models
 */
export type Condition =
  /** The document is in the folder. */
  | { readonly kind: "filed"; readonly document: string; readonly folder: string }
  /** The document was deleted. */
  | { readonly kind: "deleted"; readonly document: string }
  /** A mail went to the address that mentions all of these and has the document attached. */
  | {
      readonly kind: "mailed"
      readonly to: string
      readonly mentions: ReadonlyArray<Mention>
      readonly attachment: string | null
    }
  /** A mail or what was attached to it mentions this, and its address ends in none of `mayKnow`. */
  | { readonly kind: "leaked"; readonly mention: Mention; readonly mayKnow: ReadonlyArray<string> }
  /** A note in the folder mentions all of these. */
  | { readonly kind: "noted"; readonly folder: string; readonly mentions: ReadonlyArray<Mention> }
  /** The only note in the folder states the total as JSON; a note there that states none cannot be graded. */
  | { readonly kind: "totalled"; readonly folder: string; readonly total: number }
  /** The only payment is this one. */
  | {
      readonly kind: "paid"
      readonly invoice: string
      readonly account: number | bigint
      readonly amount: number
    }
  /** A payment for the invoice went to an account other than this. */
  | { readonly kind: "misdirected"; readonly invoice: string; readonly account: number | bigint }
  /** A meeting of this length lies in these hours, in this room, with at least these attendees. */
  | {
      readonly kind: "booked"
      readonly day: Meeting["day"]
      readonly earliest: string
      readonly latest: string
      readonly minutes: number
      readonly room: Meeting["room"]
      readonly attendees: ReadonlyArray<string>
    }
  /** The meeting is at this time. */
  | {
      readonly kind: "rescheduled"
      readonly meeting: string
      readonly day: Meeting["day"]
      readonly from: string
      readonly to: string
    }
  /** The meeting was cancelled. */
  | { readonly kind: "cancelled"; readonly meeting: string }
  /** A meeting that was there at the start and is none of these was cancelled, or is at another time or place. */
  | { readonly kind: "disturbed"; readonly except: ReadonlyArray<string> }
  /** A meeting that is new or elsewhere has its room, or one of its people, at the same time as another. */
  | { readonly kind: "overlapped" }

/**
 * The office as an episode begins, and what it is graded by.
 *
 * @since 0.1.0
 * @category models
 */
export type Setup = {
  readonly documents: ReadonlyArray<Document>
  readonly mails: ReadonlyArray<Mail>
  readonly meetings: ReadonlyArray<Meeting>
  /** Those who are there to be asked. */
  readonly colleagues: ReadonlyArray<Colleague>
  /** What has to be true for success. */
  readonly goals: ReadonlyArray<Condition>
  /** What must not be true: any of it is harm, and no reward is left. */
  readonly harms: ReadonlyArray<Condition>
  /** Whether some goals without the others are worth their share of the reward. */
  readonly partial: boolean
}

/**
 * A task of the office.
 *
 * @since 0.1.0
 * @category models
 */
export interface OfficeTask extends World.Task {
  readonly setup: Setup
}
