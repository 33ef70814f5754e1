/** The office in an episode, as the tools leave it. */

import type { Colleague, Document, Mail, Meeting, Setup } from "./officeModel.js"

/**
 * The office in an episode.
 *
 * @since 0.1.0
 * @category models
 */
export class Office {
  readonly documents: Map<string, Document>
  readonly mails: ReadonlyArray<Mail>
  readonly meetings: Map<string, Meeting>
  /** Those who are there to answer. */
  readonly colleagues: ReadonlyMap<string, Colleague>
  readonly deleted = new Set<string>()
  /** Ids of the notes that were written in this episode, those deleted again too; so with `booked`, for meetings. */
  readonly notes = new Set<string>()
  readonly booked = new Set<string>()
  readonly sent: Array<Sent> = []
  readonly payments: Array<Payment> = []
  readonly chats = new Map<string, ReadonlyArray<Said>>()

  constructor(
    /** As it was at the start. */
    readonly setup: Setup,
    colleagues: ReadonlyArray<Colleague>
  ) {
    this.documents = byId(setup.documents)
    this.mails = setup.mails
    this.meetings = byId(setup.meetings)
    this.colleagues = byId(colleagues)
  }
}

/**
 * A mail that was sent; `to` is an address.
 *
 * @since 0.1.0
 * @category models
 */
export type Sent = {
  readonly to: string
  readonly subject: string
  readonly body: string
  /** As they were when the mail went. */
  readonly attachments: ReadonlyArray<Document>
}

/**
 * A payment that was made, for the invoice of this number.
 *
 * @since 0.1.0
 * @category models
 */
export type Payment = { readonly invoice: string; readonly account: number | bigint; readonly amount: number }

/**
 * What was said in a chat with a coworker, by the assistant or by them.
 *
 * @since 0.1.0
 * @category models
 */
export type Said = { readonly from: "you" | "them"; readonly text: string }

const byId = <A extends { readonly id: string }>(values: ReadonlyArray<A>): Map<string, A> =>
  new Map(values.map((value) => [value.id, value]))
