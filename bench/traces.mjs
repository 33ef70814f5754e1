/** Made-up trace files for the benches, the same for the same seed. */
import * as fs from "node:fs"

const words =
  "the invoice of Thursday was sent to accounting, please check whether order 4711 has already been paid and tell Maria before noon; the calendar shows a conflict in room B2, which nobody has noticed yet".split(
    " "
  )
const rare = [
  "Zürich",
  "Müller",
  "naïve",
  "“quoted”",
  "日本語",
  "🙂",
  "café",
  'said "no"',
  "C:\\temp",
  "tab\there",
  "line\nbreak",
  "<b>bold</b>"
]

/** mulberry32: small, seeded, good enough for made-up text. */
const random = (seed) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** JSON as the environments' Python writes it: ASCII, with `", "` and `": "`. */
const pythonJson = (value) => {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value)
      .map(([key, member]) => `${pythonJson(key)}: ${pythonJson(member)}`)
      .join(", ")}}`
  }
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

const hex = (next, length) => Array.from({ length }, () => Math.floor(next() * 16).toString(16)).join("")

const text = (next, length) => {
  const parts = []
  for (let n = 0; n < length; ) {
    const word = next() < 0.04 ? rare[Math.floor(next() * rare.length)] : words[Math.floor(next() * words.length)]
    parts.push(word)
    n += word.length + 1
  }
  return parts.join(" ")
}

const mails = (next) =>
  Array.from({ length: 2 }, (_, index) => ({
    id: Math.floor(next() * 1e6),
    from: "maria@example.com",
    subject: text(next, 30),
    unread: index === 0,
    labels: ["inbox", "work"],
    size_kb: Number((next() * 100).toFixed(2))
  }))

/** What an agent's episode leaves: messages, tool calls with nested results (some as JSON in a string), figures. */
const body = (next) => {
  const steps = Array.from({ length: 4 }, (_, index) => ({
    index,
    tool: "search_mail",
    arguments: { query: text(next, 24), limit: 5, folder: null },
    observation: {
      content: [{ type: "text", text: index % 2 === 0 ? text(next, 420) : JSON.stringify(mails(next)) }],
      structured: { mails: mails(next), next_page: null },
      is_error: false
    },
    seconds: next()
  }))
  const messages = [
    { role: "user", content: text(next, 700) },
    { role: "assistant", content: text(next, 350), tool_calls: [{ id: hex(next, 12), name: "search_mail" }] }
  ]
  return { steps, messages }
}

const bodies = (next, count) =>
  Array.from({ length: count }, () => {
    const made = pythonJson(body(next))
    return made.slice(1, -1)
  })

/**
 * Writes records until the file has `bytes` bytes or `records` lines.
 * `long` records are of about 6 KB, the others of about 0.2 KB.
 */
export const writeTraces = (
  file,
  { bytes = Number.POSITIVE_INFINITY, records = Number.POSITIVE_INFINITY, tasks, long, seed = 1 }
) => {
  const next = random(seed)
  const middle = long ? bodies(next, 512) : []
  const fd = fs.openSync(file, "w")
  let size = 0
  let lines = 0
  let out = []
  let pending = 0
  const flush = () => {
    fs.writeSync(fd, out.join(""))
    out = []
    pending = 0
  }
  while (size < bytes && lines < records) {
    const task = Math.floor(next() * tasks)
    const reward = next() < 0.02 ? "null" : next() < 0.7 ? (next() < 0.5 ? "1.0" : "0.0") : String(next())
    const success = reward === "1.0"
    const id = `office-${String(task).padStart(6, "0")}`
    const hash = `sha256:${String(task).padStart(8, "0")}${"5be7c2f19a03d846".repeat(3)}${String(task * 7).padStart(8, "0")}`
    const head = `{"task_id": "${id}", "episode_id": "${hex(next, 32)}", "reward": ${reward}, `
    const filling = long ? `${middle[Math.floor(next() * middle.length)]}, ` : ""
    const line = `${head}${filling}"metadata": {"task_hash": "${hash}", "success": ${success}, "harm": false}}\n`
    out.push(line)
    size += line.length
    pending += line.length
    lines++
    if (pending > 8_000_000) flush()
  }
  flush()
  fs.closeSync(fd)
  return { bytes: size, records: lines }
}
