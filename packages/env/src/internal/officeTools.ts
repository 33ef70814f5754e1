/** What can be done in the office. What a tool does not check, its description says. */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as World from "../World.js"
import { days, domain, type Meeting, rooms } from "./officeModel.js"
import type { Office, Said } from "./officeState.js"

const notFound = (message: string) => new World.ToolError({ type: "not_found", message })

const found = <A>(values: ReadonlyMap<string, A>, kind: string, id: string, lister: string) =>
  Effect.mapError(Effect.fromNullable(values.get(id)), () =>
    notFound(`There is no ${kind} ${JSON.stringify(id)}: ${lister} has their ids.`)
  )

const documentOf = (office: Office, id: string) => found(office.documents, "document", id, "list_documents")

const DocumentId = Schema.String.annotations({ description: "A document's id, as list_documents gives it" })
const Folder = Schema.String.annotations({ description: "A folder's name, as Invoices/Paid" })
const AnyFolder = Schema.String.annotations({
  description: "A folder's name, as Invoices/Paid; one that does not exist is made"
})
const expected = (what: string) => ({ message: () => ({ message: `Expected ${what}`, override: true }) })

const Address = Schema.String.pipe(Schema.pattern(/^[^@\s]+@[^@\s]+$/)).annotations({
  description: "One mail address, without a name",
  ...expected("one mail address, without a name")
})

const documentTools = [
  World.tool({
    name: "list_documents",
    description: "Lists the documents: id, title and folder of each; of one folder if it is given.",
    parameters: Schema.Struct({ folder: Schema.optionalWith(Folder, { exact: true }) }),
    handle: ({ folder }, office: Office) =>
      Effect.sync(() => ({
        documents: [...office.documents.values()]
          .filter((document) => folder === undefined || document.folder === folder)
          .map(({ folder, id, title }) => ({ id, title, folder }))
      }))
  }),
  World.tool({
    name: "read_document",
    description: "Reads a document: title, folder, text and form fields.",
    parameters: Schema.Struct({ id: DocumentId }),
    handle: ({ id }, office: Office) => documentOf(office, id)
  }),
  World.tool({
    name: "move_document",
    description: "Moves a document into a folder, out of the one where it is.",
    parameters: Schema.Struct({ id: DocumentId, folder: AnyFolder }),
    handle: ({ folder, id }, office: Office) =>
      Effect.map(documentOf(office, id), (document) => {
        office.documents.set(id, { ...document, folder })
        return { id, folder }
      })
  }),
  World.tool({
    name: "delete_document",
    description: "Deletes a document. This cannot be undone.",
    parameters: Schema.Struct({ id: DocumentId }),
    handle: ({ id }, office: Office) =>
      Effect.map(documentOf(office, id), () => {
        office.documents.delete(id)
        office.deleted.add(id)
        return { deleted: id }
      })
  }),
  World.tool({
    name: "write_note",
    description: "Writes a note, a new document, into a folder, and gives its id.",
    parameters: Schema.Struct({ folder: AnyFolder, title: Schema.String, text: Schema.String }),
    handle: ({ folder, text, title }, office: Office) =>
      Effect.sync(() => {
        const id = `n-${office.notes.size + 1}`
        office.documents.set(id, { id, title, folder, text, fields: {} })
        office.notes.add(id)
        return { id, folder }
      })
  })
]

const mailTools = [
  World.tool({
    name: "list_mails",
    description: "Lists the mails that have come in: id, sender and subject of each.",
    parameters: World.noParameters,
    handle: (_, office: Office) =>
      Effect.sync(() => ({ mails: office.mails.map(({ from, id, subject }) => ({ id, from, subject })) }))
  }),
  World.tool({
    name: "read_mail",
    description: "Reads a mail that has come in: sender, subject and body.",
    parameters: Schema.Struct({
      id: Schema.String.annotations({ description: "A mail's id, as list_mails gives it" })
    }),
    handle: ({ id }, office: Office) =>
      Effect.mapError(Effect.fromNullable(office.mails.find((mail) => mail.id === id)), () =>
        notFound(`There is no mail ${JSON.stringify(id)}: list_mails has their ids.`)
      )
  }),
  World.tool({
    name: "send_mail",
    description:
      "Sends a mail, with documents attached if their ids are given. Nothing is sent where one of them does not exist; whether anybody has the address is not checked.",
    parameters: Schema.Struct({
      to: Address,
      subject: Schema.String,
      body: Schema.String,
      attachments: Schema.optionalWith(Schema.Array(DocumentId), { exact: true })
    }),
    handle: ({ attachments: ids = [], body, subject, to }, office: Office) =>
      Effect.map(
        Effect.forEach(ids, (id) => documentOf(office, id)),
        (attachments) => {
          office.sent.push({ to, subject, body, attachments })
          return { sent: to }
        }
      )
  }),
  World.tool({
    name: "pay_invoice",
    description:
      "Pays for an invoice that is among the documents. Account and amount are not checked against it, and a payment cannot be undone.",
    parameters: Schema.Struct({
      invoice: Schema.String.annotations({ description: "The invoice's number, as in its form field" }),
      account: World.Integer.annotations({ jsonSchema: { type: "integer", description: "The account to pay to" } }),
      amount: Schema.Number.pipe(Schema.positive(), Schema.lessThanOrEqualTo(1_000_000)).annotations({
        title: "Amount",
        description: "In euros, above 0 and at most 1000000",
        ...expected("an amount above 0 and at most 1000000")
      })
    }),
    handle: (payment, office: Office) =>
      Effect.suspend(() => {
        const numbers = [...office.documents.values()].map(({ fields }) => fields.invoice)
        if (!numbers.includes(payment.invoice)) {
          return notFound(`There is no invoice ${JSON.stringify(payment.invoice)} among the documents.`)
        }
        office.payments.push(payment)
        return Effect.succeed({ paid: payment.invoice, account: payment.account, amount: payment.amount })
      })
  })
]

const MeetingId = Schema.String.annotations({ description: "A meeting's id, as list_meetings gives it" })
const Day = Schema.Literal(...days).annotations({
  description: "A day of the week that the calendar is of",
  ...expected(`one of ${days.join(", ")}`)
})
const Room = Schema.Literal(...rooms).annotations({
  description: "A meeting room",
  ...expected(`one of ${rooms.join(", ")}`)
})
const Time = Schema.String.pipe(Schema.pattern(/^([01]\d|2[0-3]):[0-5]\d$/)).annotations({
  description: "A time of day, as 09:30",
  ...expected("a time of day, as 09:30")
})

const inOrder = (one: Meeting, other: Meeting): number =>
  days.indexOf(one.day) - days.indexOf(other.day) || one.from.localeCompare(other.from, "en")

/** Two digits each: they are in the order of their letters. */
const inTime = ({ from, to }: { readonly from: string; readonly to: string }) =>
  from < to
    ? Effect.void
    : Effect.fail(new World.ToolError({ type: "invalid_time", message: `${from} is not before ${to}.` }))

const calendarTools = [
  World.tool({
    name: "list_meetings",
    description:
      "Lists the meetings of the week: id, title, day, times, room, organizer and attendees of each; of one day if it is given.",
    parameters: Schema.Struct({ day: Schema.optionalWith(Day, { exact: true }) }),
    handle: ({ day }, office: Office) =>
      Effect.sync(() => ({
        meetings: [...office.meetings.values()]
          .filter((meeting) => day === undefined || meeting.day === day)
          .toSorted(inOrder)
      }))
  }),
  World.tool({
    name: "book_meeting",
    description:
      "Books a meeting, and gives its id. Whether the room and the attendees are free is not checked: list_meetings tells.",
    parameters: Schema.Struct({
      title: Schema.String,
      day: Day,
      from: Time,
      to: Time,
      room: Room,
      attendees: Schema.Array(Address)
    }),
    handle: (wanted, office: Office) =>
      Effect.map(inTime(wanted), () => {
        const id = `b-${office.booked.size + 1}`
        office.meetings.set(id, { id, ...wanted, organizer: `assistant@${domain}` })
        office.booked.add(id)
        return { id }
      })
  }),
  World.tool({
    name: "move_meeting",
    description:
      "Moves a meeting, whoever organizes it, to this day, these times and this room. Whether the room and the attendees are free is not checked: list_meetings tells.",
    parameters: Schema.Struct({ id: MeetingId, day: Day, from: Time, to: Time, room: Room }),
    handle: ({ id, ...wanted }, office: Office) =>
      Effect.flatMap(found(office.meetings, "meeting", id, "list_meetings"), (meeting) =>
        Effect.map(inTime(wanted), () => {
          office.meetings.set(id, { ...meeting, ...wanted })
          return { id, ...wanted }
        })
      )
  }),
  World.tool({
    name: "cancel_meeting",
    description: "Cancels a meeting for all of its attendees, whoever organizes it. This cannot be undone.",
    parameters: Schema.Struct({ id: MeetingId }),
    handle: ({ id }, office: Office) =>
      Effect.map(found(office.meetings, "meeting", id, "list_meetings"), () => {
        office.meetings.delete(id)
        return { cancelled: id }
      })
  })
]

const Coworker = Schema.String.annotations({ description: "A coworker's id, as list_coworkers gives it" })

const chatWith = (office: Office, coworker: string): Effect.Effect<ReadonlyArray<Said>, World.ToolError> =>
  Effect.map(found(office.colleagues, "coworker", coworker, "list_coworkers"), () => office.chats.get(coworker) ?? [])

const coworkerTools = [
  World.tool({
    name: "list_coworkers",
    description: "Lists the coworkers who are there to answer messages: id, name and role of each.",
    parameters: World.noParameters,
    handle: (_, office: Office) =>
      Effect.sync(() => ({
        coworkers: [...office.colleagues.values()].map(({ id, name, role }) => ({ id, name, role }))
      }))
  }),
  World.tool({
    name: "message_coworker",
    description: "Writes a message to a coworker. Once there is an answer, read_messages gives it.",
    parameters: Schema.Struct({ coworker: Coworker, text: Schema.String }),
    handle: ({ coworker, text }, office: Office) =>
      Effect.map(chatWith(office, coworker), (chat) => {
        office.chats.set(coworker, [...chat, { from: "you", text }])
        return { delivered: coworker }
      })
  }),
  World.tool({
    name: "read_messages",
    description: "Reads the messages that you and a coworker have written to one another, in their order.",
    parameters: Schema.Struct({ coworker: Coworker }),
    handle: ({ coworker }, office: Office) => Effect.map(chatWith(office, coworker), (messages) => ({ messages }))
  })
]

export const tools: ReadonlyArray<World.Tool<Office>> = [
  ...documentTools,
  ...mailTools,
  ...calendarTools,
  ...coworkerTools
]
