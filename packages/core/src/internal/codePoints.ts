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
