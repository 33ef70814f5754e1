/** Numbers and strings as Python writes them. */

import { toPythonLine } from "../Json.js"
import * as Binary from "./binary.js"

/** `repr(float)`: the shortest digits that read back the same; 1.0, 1e-05, 1e+16, nan as NaN. */
export const float = (value: number): string => {
  if (!Number.isFinite(value)) return String(value)
  const sign = value < 0 || Object.is(value, -0) ? "-" : ""
  const [digits = "", power = ""] = Math.abs(value).toExponential().replace(".", "").split("e")
  const exponent = Number(power)
  if (exponent < -4 || exponent >= 16) {
    const decimals = digits.length > 1 ? `.${digits.slice(1)}` : ""
    const magnitude = String(Math.abs(exponent)).padStart(2, "0")
    return `${sign}${digits.charAt(0)}${decimals}e${exponent < 0 ? "-" : "+"}${magnitude}`
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0")
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`
}

/** `format(value, ".2f")`: the exact binary value, half to even: 0.125 is 0.12 and 0.575 is 0.57. */
export const twoDecimals = (value: number): string => {
  if (Number.isNaN(value)) return "nan"
  const sign = value < 0 || Object.is(value, -0) ? "-" : ""
  if (!Number.isFinite(value)) return `${sign}inf`
  const { exponent, mantissa } = Binary.toBinary(Math.abs(value))
  const hundreds = mantissa * 100n
  const rounded =
    exponent >= 0 ? hundreds << BigInt(exponent) : Binary.nearestInteger(hundreds, 1n << BigInt(-exponent))
  const digits = rounded.toString().padStart(3, "0")
  return `${sign}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

/** `json.dumps(text)`: ASCII, the rest as \uXXXX. */
export const string = (text: string): string => toPythonLine(JSON.stringify(text))
