/** Text from elsewhere, made fit for a message of one line on a terminal. */

/** Control characters, bidirectional marks and other characters without a width. */
const unseen =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\u{e0000}-\u{e007f}]/gu

/** Escapes what could move the cursor, break the line or hide: `\n`, `\u001b`, … */
export const visible = (text: string): string =>
  text.replace(unseen, (char) => {
    if (char === "\n") return "\\n"
    if (char === "\r") return "\\r"
    if (char === "\t") return "\\t"
    return char.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
  })

/** `visible`, and cut to `length` characters with an ellipsis. */
export const shown = (text: string, length = 200): string => {
  const characters = Array.from(visible(text.slice(0, length * 4).trim()))
  return characters.length > length || text.length > length * 4
    ? `${characters.slice(0, length - 1).join("")}…`
    : characters.join("")
}

/** `1 container`, `3 containers`. */
export const counted = (count: number, noun: string, plural = `${noun}s`): string =>
  `${count} ${count === 1 ? noun : plural}`

/** `a, b, c and 4 more`: the first `most` of them. */
export const listed = (items: ReadonlyArray<string>, most: number): string => {
  const head = items
    .slice(0, most)
    .map((item) => shown(item, 80))
    .join(", ")
  return items.length > most ? `${head} and ${items.length - most} more` : head
}
