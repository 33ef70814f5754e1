/** Numbers and strings as Python writes them. */

import { toPythonLine } from "../Json.js"
import * as Binary from "./binary.js"

/** `repr(float)`: the shortest digits that read back the same; 1.0, 1e-05, 1e+16, nan as NaN. */
export const float = (value: number): string => {
  if (!Number.isFinite(value)) return String(value)
  const magnitude = Math.abs(value)
  // Between these JavaScript's shortest digits are in the same form.
  if (magnitude === 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
    const sign = Object.is(value, -0) ? "-" : ""
    return Number.isInteger(value) ? `${sign}${value}.0` : String(value)
  }
  const [digits = "", power = ""] = value.toExponential().split("e")
  return `${digits}e${power.charAt(0)}${power.slice(1).padStart(2, "0")}`
}

/** `format(value, ".2f")`: the exact binary value, half to even: 0.125 is 0.12 and 0.575 is 0.57. */
export const twoDecimals = (value: number): string => {
  if (Number.isNaN(value)) return "nan"
  const sign = value < 0 || Object.is(value, -0) ? "-" : ""
  if (!Number.isFinite(value)) return `${sign}inf`
  // Only an odd number of eighths is half way between hundredths, where JavaScript does not round to even.
  const isHalfWay = Number.isInteger(value * 8) && !Number.isInteger(value * 4)
  if (value !== 0 && !isHalfWay && Math.abs(value) < 1e21) return value.toFixed(2)
  const { exponent, mantissa } = Binary.toBinary(Math.abs(value))
  const hundreds = mantissa * 100n
  const rounded =
    exponent >= 0 ? hundreds << BigInt(exponent) : Binary.nearestInteger(hundreds, 1n << BigInt(-exponent))
  const digits = rounded.toString().padStart(3, "0")
  return `${sign}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

/** `json.dumps(text)`: ASCII, the rest as \uXXXX. */
export const string = (text: string): string =>
  /^[ !#-[\]-~]*$/.test(text) ? `"${text}"` : toPythonLine(JSON.stringify(text))
