/** Reads decimal numbers from bytes as `Number` reads them from text, but without making one where two doubles do. */

import * as Binary from "./binary.js"

/** Powers of ten that are exact in a double. */
export const tenTo = Array.from({ length: 23 }, (_, exponent) => 10 ** exponent)

/** So many digits are an exact double. */
export const shortDigits = 15

/** With so many the power of ten below them is an exact double. */
const longDigits = 22

/** The double nearest to the number that the bytes are; it must be one of JSON's. */
export const read = (bytes: Buffer, start: number, end: number): number => {
  const fast = fromTwoParts(bytes, start, end)
  return Number.isNaN(fast) ? Number(bytes.toString("latin1", start, end)) : fast
}

/** NaN where there is an exponent, where there are too many digits, or where it is too close which double is the nearest. */
const fromTwoParts = (bytes: Buffer, start: number, end: number): number => {
  const negative = bytes[start] === 0x2d
  let digits = 0
  let decimals = 0
  let hasPoint = false
  let high = 0
  let low = 0
  let scale = 1
  for (let at = negative ? start + 1 : start; at < end; at++) {
    const digit = (bytes[at] ?? 0) - 0x30
    if (digit >= 0 && digit <= 9) {
      if (++digits <= shortDigits) {
        high = high * 10 + digit
      } else {
        low = low * 10 + digit
        scale *= 10
      }
      if (hasPoint) decimals++
    } else if (bytes[at] === 0x2e) {
      hasPoint = true
    } else {
      return Number.NaN
    }
  }
  if (digits > longDigits) return Number.NaN
  const product = high * scale
  const top = product + low
  const rest = low - (top - product) + Binary.productError(high, scale, product)
  const magnitude = Binary.quotient(top, rest, tenTo[decimals] ?? Number.NaN)
  return negative ? -magnitude : magnitude
}
