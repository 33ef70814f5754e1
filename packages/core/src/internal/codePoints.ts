/** The order in which Python sorts strings. */

import * as Order from "effect/Order"

/** By code points; the built-in order, by UTF-16 units, puts U+FF5E behind U+1F600. */
export const byCodePoints: Order.Order<string> = Order.make((one, other) => {
  const length = Math.min(one.length, other.length)
  let at = 0
  while (at < length && one.charCodeAt(at) === other.charCodeAt(at)) at++
  // Where only the second half of a pair differs, the pair is what has to be compared.
  if (at > 0 && isHigh(one.charCodeAt(at - 1)) && (isLow(one.charCodeAt(at)) || isLow(other.charCodeAt(at)))) at--
  const difference = (one.codePointAt(at) ?? -1) - (other.codePointAt(at) ?? -1)
  return difference < 0 ? -1 : difference > 0 ? 1 : 0
})

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000

/** The strings in that order. */
export const sortedByCodePoints = (strings: Iterable<string>): Array<string> => {
  const sorted = Array.from(strings)
  // Below the surrogates both orders are the same, and the built-in one is fast.
  return sorted.some((text) => /[\ud800-\uffff]/.test(text)) ? sorted.sort(byCodePoints) : sorted.sort()
}

/** The places of strings in that order. */
export const orderByCodePoints = (strings: ReadonlyArray<string>): Iterable<number> =>
  orderByColumns(strings) ??
  Array.from(strings.keys()).sort((one, other) => byCodePoints(strings[one] ?? "", strings[other] ?? ""))

/** With more columns a sort that compares is faster. */
const mostColumns = 64

/**
 * By the last column first, then by those before it, each time keeping the order of equals: several times as fast as
 * comparing, since each string is looked at once a column. Undefined where it does not pay, or where a character is beyond Latin-1.
 */
const orderByColumns = (strings: ReadonlyArray<string>): Uint32Array | undefined => {
  let [prefix = ""] = strings
  let longest = 0
  for (const text of strings) {
    longest = Math.max(longest, text.length)
    while (!text.startsWith(prefix)) prefix = prefix.slice(0, -1)
  }
  const shared = prefix.length
  if (longest - shared > mostColumns) return undefined
  let order = Uint32Array.from(strings.keys())
  let next = new Uint32Array(strings.length)
  const units = new Uint16Array(strings.length)
  for (let column = longest - 1; column >= shared; column--) {
    /** How many strings are before those with this unit plus one, 0 for those that end before. */
    const before = new Uint32Array(258)
    for (let at = 0; at < strings.length; at++) {
      const text = strings[at] ?? ""
      const unit = column < text.length ? text.charCodeAt(column) + 1 : 0
      if (unit > 256) return undefined
      units[at] = unit
      before[unit + 1] = (before[unit + 1] ?? 0) + 1
    }
    for (let unit = 1; unit < before.length; unit++) before[unit] = (before[unit] ?? 0) + (before[unit - 1] ?? 0)
    for (let at = 0; at < order.length; at++) {
      const string = order[at] ?? 0
      const unit = units[string] ?? 0
      const place = before[unit] ?? 0
      before[unit] = place + 1
      next[place] = string
    }
    ;[order, next] = [next, order]
  }
  return order
}
