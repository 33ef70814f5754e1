/**
 * How the office's tasks are solved, and what a clumsy policy does instead: for
 * demonstrations and tests, where no model is at hand.
 *
 * @since 0.1.0
 */
import * as Json from "@miroir-effect/core/Json"
import { domain, slips } from "./internal/officeTasks.js"

/**
 * A tool call.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call {
  readonly tool: string
  /** The arguments, or a function that takes them from the observation of the step before. */
  readonly args: Json.JsonObject | ((previous: Json.Json) => Json.JsonObject)
}

/**
 * A call that is right, and plausible ones that might be made in its place and lead astray.
 *
 * @since 0.1.0
 * @category models
 */
export interface Step extends Call {
  readonly mistakes: ReadonlyArray<Call>
}

/**
 * The calls that solve a task of the office, `submit` not among them; empty for a task that it does not have.
 *
 * @since 0.1.0
 * @category getters
 */
export const steps = (taskId: string): ReadonlyArray<Step> => solutions.get(taskId) ?? []

/**
 * A call's arguments, after the given observation.
 *
 * @since 0.1.0
 * @category getters
 */
export const argumentsOf = ({ args }: Call, previous: Json.Json): Json.JsonObject =>
  typeof args === "function" ? args(previous) : args

const call = (tool: string, args: Call["args"] = {}): Call => ({ tool, args })

const step = (tool: string, args: Call["args"] = {}, ...mistakes: ReadonlyArray<Call>): Step => ({
  tool,
  args,
  mistakes
})

const minutesTo = (to: string): Json.JsonObject => ({
  to,
  subject: "Minutes, March",
  body: "The minutes are attached.",
  attachments: ["d-03"]
})

const payment = (account: number | bigint, amount: number): Json.JsonObject => ({ invoice: "4411", account, amount })

/** What the coworker said last, of an observation of read_messages; empty where there is no such answer. */
const lastAnswer = (observation: Json.Json): string => {
  const result = Json.isObject(observation) ? observation.result : undefined
  const messages = Json.isObject(result) ? result.messages : undefined
  const last = Array.isArray(messages) ? messages.at(-1) : undefined
  return Json.isObject(last) && last.from === "them" && typeof last.text === "string" ? last.text : ""
}

const noteOf = (folder: string, title: string, answer: string): Json.JsonObject => ({
  folder,
  title,
  text: answer === "" ? "No answer yet." : answer
})

const solutions: ReadonlyMap<string, ReadonlyArray<Step>> = new Map([
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
        minutesTo(`dana.weiss@${domain}`),
        call("send_mail", minutesTo("dana.wise@brandtsupply.example")),
        call("send_mail", { to: `dana.weiss@${domain}`, subject: "Minutes, March", body: "They are in the inbox." })
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
        {
          to: `ines.carvalho@${domain}`,
          subject: "Your first day",
          body: "Welcome! We expect you at 09:30 on 1 April."
        },
        call("send_mail", { to: `ines.carvalho@${domain}`, subject: "Your first day", body: "Welcome! See you soon." }),
        call("send_mail", { to: "Ines", subject: "Your first day", body: "We expect you at 09:30." })
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
        (previous) => noteOf("Budget", "Travel budget", lastAnswer(previous)),
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
        payment(9007199254740993n, 1280.5),
        // What becomes of the account where it is read as a double.
        call("pay_invoice", payment(9007199254740992n, 1280.5)),
        call("pay_invoice", payment(9007199254740993n, 1280))
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
      step("write_note", (previous) => noteOf("Facilities", "Fire inspection", lastAnswer(previous)))
    ]
  ]
])
