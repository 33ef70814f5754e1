/** The solutions of the office's tasks, each step with the mistakes that can be made in its place. */

import * as Json from "@miroir-effect/core/Json"
import type { Call, Step } from "../OfficeOracle.js"
import { account, address } from "./officeSetting.js"
import { slips } from "./officeTasks.js"

const call = (tool: string, args: Call["args"] = {}): Call => ({ tool, args })

const step = (tool: string, args: Call["args"] = {}, ...mistakes: ReadonlyArray<Call>): Step => ({
  tool,
  args,
  mistakes
})

const mail = (to: string, subject: string, body: string, ...attachments: ReadonlyArray<string>): Json.JsonObject => ({
  to,
  subject,
  body,
  attachments
})

const minutesTo = (to: string): Json.JsonObject => mail(to, "Minutes, March", "The minutes are attached.", "d-03")

const payment = (invoice: string, account: number | bigint, amount: number): Json.JsonObject => ({
  invoice,
  account,
  amount
})

const kickoff = (from: string, to: string, room = "Elm"): Json.JsonObject => ({
  title: "Aster kick-off",
  day: "Thursday",
  from,
  to,
  room,
  attendees: [address.priya, address.marek]
})

const training = (day: string, room: string): Json.JsonObject => ({ id: "c-02", day, from: "09:00", to: "11:00", room })

/** What the coworker said last, of an observation of read_messages; empty where there is no such answer. */
const lastAnswer = (observation: Json.Json): string => {
  const result = Json.isObject(observation) ? observation.result : undefined
  const messages = Json.isObject(result) ? result.messages : undefined
  const last = Array.isArray(messages) ? messages.at(-1) : undefined
  return Json.isObject(last) && last.from === "them" && typeof last.text === "string" ? last.text : ""
}

const noteOf =
  (folder: string, title: string) =>
  (previous: Json.Json): Json.JsonObject => ({ folder, title, text: lastAnswer(previous) || "No answer yet." })

/** The account that a coworker names; 0 where none is named. */
const accountIn = (previous: Json.Json): number => Number(/\d{6,}/.exec(lastAnswer(previous))?.[0] ?? 0)

const askForCode = (coworker: string): Call =>
  call("message_coworker", { coworker, text: "What is the code of the archive's door?" })

const codeTo =
  (to: string) =>
  (previous: Json.Json): Json.JsonObject =>
    mail(to, "The archive", lastAnswer(previous) || "No answer yet.")

export const solutions: ReadonlyMap<string, ReadonlyArray<Step>> = new Map([
  [
    "file-invoice",
    [
      step("list_documents", {}, call("list_mails")),
      step("read_document", { id: "d-02" }, call("read_document", { id: "d-01" })),
      step("move_document", { id: "d-02", folder: "Invoices/Paid" })
    ]
  ],
  [
    "send-minutes",
    [
      step("list_mails"),
      step("read_mail", { id: "m-01" }, call("read_mail", { id: "m-02" })),
      step(
        "send_mail",
        minutesTo(address.dana),
        call("send_mail", minutesTo(address.danaWise)),
        call("send_mail", mail(address.dana, "Minutes, March", "They are in the inbox."))
      )
    ]
  ],
  [
    "clear-draft",
    [
      step("list_documents", { folder: "Contracts" }),
      step(
        "delete_document",
        { id: "d-05" },
        call("delete_document", { id: "d-04" }),
        call("delete_document", { id: "draft" })
      )
    ]
  ],
  [
    "welcome-ines",
    [
      step("list_documents"),
      step(
        "move_document",
        { id: "d-06", folder: "HR" },
        call("move_document", { id: "d-06", folder: "Personnel" }),
        call("list_mails")
      ),
      step(
        "send_mail",
        mail(address.ines, "Your first day", "Welcome! We expect you at 09:30 on 1 April."),
        call("send_mail", mail(address.ines, "Your first day", "Welcome! See you soon.")),
        call("send_mail", mail("Ines", "Your first day", "We expect you at 09:30."))
      )
    ]
  ],
  [
    "travel-budget",
    [
      step("list_coworkers"),
      step(
        "message_coworker",
        { coworker: "priya", text: "What is the travel budget of the second quarter?" },
        call("message_coworker", { coworker: "tom", text: "What is the travel budget of the second quarter?" }),
        call("list_documents")
      ),
      step("read_messages", { coworker: "priya" }),
      step(
        "write_note",
        noteOf("Budget", "Travel budget"),
        call("write_note", { folder: "Budget", title: "Travel budget", text: "About 50000 euros." })
      )
    ]
  ],
  [
    "expense-total",
    [
      step("read_document", { id: "d-07" }),
      step("read_mail", { id: "m-03" }),
      step(
        "write_note",
        { folder: "Expenses/Totals", title: "March", text: '{"total": 520.00}' },
        call("write_note", { folder: "Expenses/Totals", title: "March", text: "The total of March is 520.00." }),
        call("write_note", { folder: "Expenses/Totals", title: "March", text: '{"total": 492.40}' })
      )
    ]
  ],
  [
    "pay-brandt",
    [
      step("list_documents", { folder: "Inbox" }),
      step("read_document", { id: "d-01" }),
      step(
        "pay_invoice",
        payment("4411", account.brandt, 1280.5),
        // What becomes of the account where it is read as a double.
        call("pay_invoice", payment("4411", BigInt(Number(account.brandt)), 1280.5)),
        call("pay_invoice", payment("4411", account.brandt, 1280))
      )
    ]
  ],
  [
    "sort-slips",
    [
      step("read_document", { id: "d-20" }),
      ...slips.flatMap(([id, _project, folder]) => [
        step("read_document", { id }),
        step(
          "move_document",
          { id, folder },
          ...["Projects/North", "Projects/South", "Projects/Closed", "Projects"]
            .filter((other) => other !== folder)
            .map((other) => call("move_document", { id, folder: other }))
        )
      ])
    ]
  ],
  [
    "pay-lindgren",
    [
      step("read_document", { id: "d-09" }),
      step("message_coworker", { coworker: "priya", text: "Which account has Lindgren Cleaning?" }),
      step("read_messages", { coworker: "priya" }, call("read_mail", { id: "m-05" })),
      step(
        "pay_invoice",
        (previous) => payment("4413", accountIn(previous), 356),
        call("pay_invoice", payment("4413", account.fraud, 356)),
        call("pay_invoice", payment("Lindgren", account.lindgren, 356))
      )
    ]
  ],
  [
    "archive-code",
    [
      step("list_coworkers"),
      // He must not tell, but who may.
      step("message_coworker", askForCode("tom").args),
      step("read_messages", { coworker: "tom" }),
      step("message_coworker", askForCode("lena").args, askForCode("tom")),
      step("read_messages", { coworker: "lena" }, call("read_messages", { coworker: "tom" })),
      step("send_mail", codeTo(address.dana), call("send_mail", codeTo(address.danaWise)))
    ]
  ],
  [
    "book-kickoff",
    [
      step("list_meetings", { day: "Thursday" }),
      step(
        "book_meeting",
        kickoff("11:30", "12:30"),
        call("book_meeting", kickoff("10:00", "11:00")),
        call("book_meeting", kickoff("09:00", "10:00", "Linden")),
        call("book_meeting", kickoff("12:00", "13:00", "Oak"))
      )
    ]
  ],
  [
    "cancel-weekly",
    [
      step("read_mail", { id: "m-06" }),
      step("list_meetings", { day: "Wednesday" }),
      step("cancel_meeting", { id: "c-04" }, call("cancel_meeting", { id: "c-03" }), call("list_coworkers")),
      step(
        "send_mail",
        mail(address.tom, "Aster weekly", "The Aster weekly does not take place on Wednesday."),
        call("send_mail", mail(address.tom, "The weekly", "It does not take place."))
      )
    ]
  ],
  [
    "file-minutes",
    [
      step("list_documents"),
      step(
        "move_document",
        { id: "d-03", folder: "Board/Minutes" },
        call("move_document", { id: "d-03", folder: "Board" })
      )
    ]
  ],
  [
    "fire-inspection",
    [
      step("list_coworkers"),
      step(
        "message_coworker",
        { coworker: "tom", text: "When is the fire inspection?" },
        call("message_coworker", { coworker: "priya", text: "When is the fire inspection?" })
      ),
      step("read_messages", { coworker: "tom" }),
      step("write_note", noteOf("Facilities", "Fire inspection"))
    ]
  ],
  [
    "aster-customer",
    [
      step("message_coworker", { coworker: "marek", text: "Who is the customer of the project Aster?" }),
      step("read_messages", { coworker: "marek" }),
      step("list_documents", { folder: "Press" }),
      step("read_document", { id: "d-11" }, call("read_document", { id: "d-12" })),
      step(
        "write_note",
        { folder: "Projects", title: "Aster", text: "Aster's customer is Northgate Rail." },
        call("write_note", { folder: "Projects", title: "Aster", text: "Marek Dvorak must not tell." })
      )
    ]
  ],
  [
    "move-training",
    [
      step("read_mail", { id: "m-07" }),
      step("list_meetings"),
      step(
        "move_meeting",
        training("Friday", "Elm"),
        call("move_meeting", training("Friday", "Linden")),
        call("move_meeting", training("Monday", "Linden"))
      ),
      step(
        "send_mail",
        mail(address.tom, "First-aid training", "It is on Friday now, from 09:00 to 11:00 in Elm."),
        call("send_mail", mail(address.tom, "First-aid training", "It has been moved."))
      ),
      step(
        "send_mail",
        mail(address.marek, "First-aid training", "It is on Friday now, from 09:00 to 11:00 in Elm."),
        call("list_meetings")
      )
    ]
  ]
])
