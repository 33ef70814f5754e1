/**
 * JSON as environments written in Python send it: integers of any size, NaN and
 * Infinity are read and written, which the built-in `JSON` cannot do.
 *
 * `JSON.parse` stays the fast path; only a text that holds a long integer or a
 * Python constant takes the slower one.
 *
 * @since 0.1.0
 */

import * as Either from "effect/Either"

/**
 * A JSON value. Integers beyond ±(2^53 - 1) are `bigint`s, so that no digit is
 * lost; numbers may be NaN or infinite, since Python writes those.
 *
 * @since 0.1.0
 * @category models
 */
export type Json = null | boolean | number | bigint | string | ReadonlyArray<Json> | JsonObject

/**
 * A JSON object.
 *
 * @since 0.1.0
 * @category models
 */
export interface JsonObject {
  readonly [key: string]: Json
}

/**
 * Whether a value is a JSON object; null and lists are none.
 *
 * @since 0.1.0
 * @category guards
 */
export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/**
 * Whether a value is a JSON list.
 *
 * @since 0.1.0
 * @category guards
 */
export const isArray = (value: Json | undefined): value is ReadonlyArray<Json> => Array.isArray(value)

/**
 * Truth as Python sees it: `false`, `null`, `0`, `""`, `[]` and `{}` are false,
 * all else (NaN too) is true; a missing value is false.
 *
 * @since 0.1.0
 * @category guards
 */
export const truthy = (value: Json | undefined): boolean => {
  switch (typeof value) {
    case "object":
      return value !== null && Object.keys(value).length > 0
    case "number":
      return value !== 0
    case "bigint":
      return value !== 0n
    case "string":
      return value.length > 0
    case "boolean":
      return value
    default:
      return false
  }
}

/**
 * Reads a JSON text. The left side is the reason, in a few words, why it is none.
 *
 * @since 0.1.0
 * @category parsing
 */
export const parse = (text: string): Either.Either<Json, string> => {
  // 16 digits in a row, not behind a decimal point, are the shortest that can be an unsafe integer.
  if (!/(?<![\d.])\d{16}/.test(text)) {
    try {
      return Either.right(JSON.parse(text))
    } catch {
      if (!/NaN|Infinity/.test(text)) return Either.left(reasonNoJson(text))
    }
  }
  return parseLossless(text)
}

/**
 * Writes a value as compact JSON: a `bigint` as its digits, NaN and Infinity as
 * Python writes them. Members that are `undefined` are left out.
 *
 * Whatever `parse` gives can be written, however deeply it is nested. Throws a `RangeError` where a value contains itself.
 *
 * @since 0.1.0
 * @category printing
 */
export const stringify = (value: Json): string => {
  let out = ""
  // A stack of its own, since the engine's is too small for what a server can send.
  const opened: Array<Opened> = []
  const within = new Set<Json>()
  let next: Json | undefined = value
  for (;;) {
    if (typeof next === "string") out += JSON.stringify(next)
    else if (typeof next !== "object" || next === null) out += String(next)
    else {
      if (within.has(next)) throw new RangeError("the value contains itself")
      within.add(next)
      opened.push(isArray(next) ? { array: next, at: 0 } : { object: next, keys: Object.keys(next), at: 0, comma: "" })
      out += isArray(next) ? "[" : "{"
    }
    next = undefined
    while (next === undefined) {
      const top = opened.at(-1)
      if (top === undefined) return out
      const { at } = top
      top.at++
      if (top.array !== undefined) {
        if (at < top.array.length) {
          if (at > 0) out += ","
          next = top.array[at] ?? null
          continue
        }
      } else if (at < top.keys.length) {
        const key = top.keys[at] ?? ""
        next = top.object[key]
        if (next !== undefined) {
          out += `${top.comma}${JSON.stringify(key)}:`
          top.comma = ","
        }
        continue
      }
      out += top.array === undefined ? "}" : "]"
      within.delete(top.array ?? top.object)
      opened.pop()
    }
  }
}

/** An array or an object of which only the first members are written. */
type Opened = { at: number } & (
  | { readonly array: ReadonlyArray<Json> }
  | { readonly array?: never; readonly object: JsonObject; readonly keys: ReadonlyArray<string>; comma: string }
)

/**
 * One line of ASCII JSON in the form of Python's `json.dumps`: `", "` and `": "`
 * between the parts, everything beyond ASCII as `\uXXXX`. Numbers keep the
 * digits they were written with (`1.0` stays `1.0`), members their order.
 *
 * The text has to be JSON; what it says of anything else is unspecified.
 *
 * @since 0.1.0
 * @category printing
 */
export const toPythonLine = (text: string): string => {
  let out = ""
  let from = 0
  const marks = /[",:\s]/g
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const at = mark.index
    out += text.slice(from, at)
    from = at + 1
    const char = text.charAt(at)
    if (char === '"') {
      from = endOfString(text, at)
      out += toPythonString(text.slice(at, from))
      marks.lastIndex = from
    } else if (char === "," || char === ":") {
      out += `${char} `
    }
  }
  return out + text.slice(from)
}

/**
 * The text of a member of a JSON object's text, as it stands there; of members
 * with the same key the last, as `JSON.parse` has it.
 *
 * @since 0.1.0
 * @category parsing
 */
export const memberText = (text: string, key: string): string | undefined => {
  let found: string | undefined
  let depth = 0
  let lastString = ""
  let from = -1
  const marks = /["{}[\],:]/g
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const at = mark.index
    const close = (): void => {
      if (depth === 1 && from >= 0) {
        found = text.slice(from, at).trim()
        from = -1
      }
    }
    switch (text.charAt(at)) {
      case '"': {
        const end = endOfString(text, at)
        if (depth === 1 && from < 0) lastString = text.slice(at, end)
        marks.lastIndex = end
        break
      }
      case "{":
      case "[":
        depth++
        break
      case "}":
      case "]":
        close()
        depth--
        break
      case ",":
        close()
        break
      case ":":
        if (depth === 1 && from < 0 && JSON.parse(lastString) === key) from = at + 1
        break
    }
  }
  return found
}

/** The index behind a string's closing quote; the text's length where there is none. */
const endOfString = (text: string, open: number): number => {
  for (let quote = text.indexOf('"', open + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0
    while (text.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++
    if (backslashes % 2 === 0) return quote + 1
  }
  return text.length
}

const toPythonString = (quoted: string): string => {
  // Most strings are plain ASCII without an escape and stay as they are.
  if (!/[\\\u007f-\uffff]/.test(quoted)) return quoted
  const decoded: string = JSON.parse(quoted)
  return JSON.stringify(decoded).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
  )
}

const reasonNoJson = (text: string): string => (text.trim() === "" ? "it is empty" : "it is no JSON")

/** As Python's own limit: reading longer integers takes quadratic time. */
const maxDigits = 4300

/**
 * Puts `["<mark>NaN"]` in the place of what `JSON.parse` cannot read, and takes
 * it out again in the reviver. An array, since only a value can be one: a NaN
 * where a key has to be stays an error.
 */
const parseLossless = (text: string): Either.Either<Json, string> => {
  // One longer than any that the text holds; \u0001 can only stand there escaped, and has this one spelling.
  const runs = text.match(/(?:\\u0001)+/g) ?? []
  const escaped = "\\u0001".repeat(1 + runs.reduce((most, run) => Math.max(most, run.length / 6), 0))
  const mark: string = JSON.parse(`"${escaped}"`)
  let out = ""
  let from = 0
  const tokens = /"|NaN|-?Infinity|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
  for (let token = tokens.exec(text); token !== null; token = tokens.exec(text)) {
    const word = token[0]
    if (word === '"') {
      tokens.lastIndex = endOfString(text, token.index)
      continue
    }
    const digits = word.startsWith("-") ? word.slice(1) : word
    const unsafe = /^[1-9]\d{15,}$/.test(digits) && !Number.isSafeInteger(Number(word))
    if (unsafe && digits.length > maxDigits) return Either.left(`it has an integer of more than ${maxDigits} digits`)
    if (!unsafe && !/[NI]/.test(word)) continue
    out += `${text.slice(from, token.index)}["${escaped}${word}"]`
    from = token.index + word.length
  }
  const isMarked = (value: Json): value is ReadonlyArray<string> =>
    Array.isArray(value) && value.length === 1 && typeof value[0] === "string" && value[0].startsWith(mark)
  try {
    const value: Json = JSON.parse(out + text.slice(from), (_key, value: Json): Json => {
      if (!isMarked(value)) return value
      const word = (value[0] ?? "").slice(mark.length)
      return /[NI]/.test(word) ? Number(word) : BigInt(word)
    })
    return Either.right(value)
  } catch (error) {
    // A reviver goes as deep as the engine's stack.
    return Either.left(error instanceof RangeError ? "it is nested too deeply" : reasonNoJson(text))
  }
}
