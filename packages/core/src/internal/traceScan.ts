/**
 * Finds the few values that calibration needs in the bytes of a record, and skips
 * the rest without parsing it. A record is some 6 KB, of which these are 0.2 KB,
 * so this is what makes calibration as fast as the disk.
 *
 * The scanner only ever says "these are the values" or "not sure": whatever is
 * unusual (an escape in a key, a string as `success`, a fault) is left to the
 * JSON parser, which then has the last word. Of the skipped values only the
 * strings' ends and the balance of the brackets are checked.
 */

import { isUtf8 } from "node:buffer"
import * as Decimal from "./decimal.js"
import { RecordLayout, type Role } from "./recordLayout.js"

const newline = 0x0a
const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b

const table = (stops: (byte: number) => boolean): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => (stops(byte) ? 1 : 0))

/** What ends a run of plain bytes in a key. */
const stopsKey = table((byte) => byte === quote || byte === backslash || byte < 0x20)
/** What matters outside of strings in a value that is skipped. */
const stopsNested = table((byte) => byte === newline || '"{}[]'.includes(String.fromCharCode(byte)))
/** What ends a number or a literal that is skipped. */
const stopsScalar = table((byte) => byte <= 0x20 || ',:"{}[]'.includes(String.fromCharCode(byte)))

const keyTaskId = Buffer.from("task_id")
const keyReward = Buffer.from("reward")
const keyMetadata = Buffer.from("metadata")
const keyTaskHash = Buffer.from("task_hash")
const keySuccess = Buffer.from("success")
const keyHarm = Buffer.from("harm")
const wordNaN = Buffer.from("NaN")
const wordInfinity = Buffer.from("Infinity")

/** The words whose bytes, read as a little-endian number, these are; of `false` the first four. */
const wordNull = 0x6c6c756e
const wordTrue = 0x65757274
const wordFals = 0x736c6166

/** After so many bytes of a string, memchr is faster than looking at four bytes at a time. */
const longString = 40

/** `bytes` holds the lines; `view` is over the same memory. */
export interface Memory {
  readonly bytes: Buffer
  readonly view: DataView
}

/** Behind the last byte of a line there have to be a newline and this many bytes more. */
export const slack = 4

/** What calibration needs of a record. */
export class Scanned {
  /** Where the strings' contents are, quotes excluded. */
  idStart = 0
  idEnd = 0
  hashStart = 0
  hashEnd = 0
  /** Whether the reward is null. */
  isVoid = false
  /** The reward where it is not null; it may be NaN or infinite. */
  reward = 0
  /** Null where the record does not tell. */
  success: boolean | null = null
  harm: boolean | null = null
}

export class Scanner {
  /** What is filled. */
  private into = new Scanned()
  private hasReward = false
  private number = 0
  private told: boolean | null = null
  /** The closing brackets that are due. */
  private due = new Uint8Array(64)
  /** How the last records were laid out: most likely the next one is so too. Some writers have a few layouts. */
  private readonly layouts = [new RecordLayout(), new RecordLayout(), new RecordLayout(), new RecordLayout()] as const
  /** That of the last record, of which the next is tried first. */
  private layout: RecordLayout = this.layouts[0]
  /** The one that is learned next. */
  private next: RecordLayout = this.layouts[0]
  /** How many records in a row were laid out otherwise; there is no layout yet. */
  private surprises = 1

  /**
   * Whether the line from `start` to `end`, where a newline has to be, is a record for certain; then the values are
   * in `into`.
   */
  scan(memory: Memory, start: number, end: number, into: Scanned): boolean {
    this.into = into
    if (this.scanAsBefore(this.layout, memory, start, end)) {
      this.surprises = 0
      return true
    }
    for (const layout of this.layouts) {
      if (layout !== this.layout && this.scanAsBefore(layout, memory, start, end)) {
        this.surprises = 0
        this.layout = layout
        return true
      }
    }
    this.next.begin()
    if (!this.scanAnew(memory, start, end)) return false
    // One odd record among the others does not change what is expected.
    if (++this.surprises > 1 && this.next.learn(memory, start, end)) {
      this.layout = this.next
      this.next = this.layouts[(this.layouts.indexOf(this.next) + 1) % this.layouts.length] ?? this.next
    }
    return true
  }

  /** As `scanAnew`, much faster, where all between the values is to the byte as in the record that was learned. */
  private scanAsBefore(layout: RecordLayout, { bytes, view }: Memory, start: number, end: number): boolean {
    if (layout.values === 0) return false
    this.forget()
    let at = start
    for (let value = 0; value < layout.values; value++) {
      at = layout.behindGap(view, value, at)
      if (at < 0) return false
      at = this.behindRole(layout.roleOf(value), bytes, view, at, end)
      if (at < 0) return false
    }
    return layout.behindGap(view, layout.values, at) === end && this.isWhole()
  }

  private scanAnew({ bytes, view }: Memory, start: number, end: number): boolean {
    this.forget()
    const open = behindSpace(bytes, start)
    if (bytes[open] !== openBrace) return false
    const close = this.members(bytes, view, open, end, false)
    return close >= 0 && behindSpace(bytes, close) === end && this.isWhole()
  }

  private isWhole(): boolean {
    return this.into.idStart >= 0 && this.into.hashStart >= 0 && this.hasReward
  }

  private forget(): void {
    this.into.idStart = -1
    this.hasReward = false
    this.forgetMetadata()
  }

  private forgetMetadata(): void {
    this.into.hashStart = -1
    this.into.success = null
    this.into.harm = null
  }

  /** Reads the object that opens at `open`; gives the index behind it, or -1. */
  private members(bytes: Buffer, view: DataView, open: number, end: number, inMetadata: boolean): number {
    let at = behindSpace(bytes, open + 1)
    if (bytes[at] === closeBrace) return at + 1
    for (;;) {
      if (bytes[at] !== quote) return -1
      const key = at + 1
      at = behindKey(bytes, key)
      if (at < 0) return -1
      const role = inMetadata ? metadataRole(bytes, key, at - key - 1) : recordRole(bytes, key, at - key - 1)
      at = behindSpace(bytes, at)
      if (bytes[at] !== colon) return -1
      at = behindSpace(bytes, at + 1)
      if (role === "metadata" && bytes[at] === openBrace) {
        this.next.noteMetadata()
        this.forgetMetadata()
        at = this.members(bytes, view, at, end, true)
      } else {
        const value = at
        at = this.behindRole(role, bytes, view, value, end)
        this.next.note(role, value, at)
      }
      if (at < 0) return -1
      at = behindSpace(bytes, at)
      if (bytes[at] === closeBrace) return at + 1
      if (bytes[at] !== comma) return -1
      at = behindSpace(bytes, at + 1)
    }
  }

  /** The index behind the value at `at`, or -1; what the role asks for is set. Of equal keys the last wins, as in `JSON.parse`. */
  private behindRole(role: Role, bytes: Buffer, view: DataView, at: number, end: number): number {
    switch (role) {
      case "taskId": {
        if (bytes[at] !== quote) {
          this.into.idStart = -1
          return this.behindValue(bytes, view, at, end)
        }
        const behind = behindString(bytes, view, at + 1, end)
        this.into.idStart = at + 1
        this.into.idEnd = behind - 1
        return behind
      }
      case "reward": {
        this.hasReward = true
        this.into.isVoid = view.getInt32(at, true) === wordNull
        if (this.into.isVoid) return at + 4
        const behind = this.behindNumber(bytes, at)
        this.into.reward = this.number
        return behind
      }
      case "taskHash": {
        if (bytes[at] !== quote) {
          this.into.hashStart = -1
          return this.behindValue(bytes, view, at, end)
        }
        const behind = behindString(bytes, view, at + 1, end)
        this.into.hashStart = at + 1
        this.into.hashEnd = behind - 1
        return behind
      }
      case "success": {
        const behind = this.behindTruth(bytes, view, at)
        this.into.success = this.told
        return behind
      }
      case "harm": {
        const behind = this.behindTruth(bytes, view, at)
        this.into.harm = this.told
        return behind
      }
      case "metadata":
        this.forgetMetadata()
        return this.behindValue(bytes, view, at, end)
      case "skipped":
        return this.behindValue(bytes, view, at, end)
    }
  }

  /** The index behind a literal or number, whose truth is left in `told`; -1 for any other value. */
  private behindTruth(bytes: Buffer, view: DataView, at: number): number {
    const word = view.getInt32(at, true)
    if (word === wordTrue) {
      this.told = true
      return at + 4
    }
    if (word === wordFals && bytes[at + 4] === 0x65) {
      this.told = false
      return at + 5
    }
    if (word === wordNull) {
      this.told = null
      return at + 4
    }
    const behind = this.behindNumber(bytes, at)
    this.told = this.number !== 0
    return behind
  }

  /** The index behind a number, which is left in `number`; -1 where there is none. */
  private behindNumber(bytes: Buffer, start: number): number {
    const negative = bytes[start] === 0x2d
    let at = negative ? start + 1 : start
    if (isWord(bytes, at, wordInfinity)) {
      this.number = negative ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
      return at + 8
    }
    if (!negative && isWord(bytes, at, wordNaN)) {
      this.number = Number.NaN
      return at + 3
    }
    let mantissa = 0
    const whole = at
    for (let digit = digitAt(bytes, at); digit >= 0; digit = digitAt(bytes, ++at)) mantissa = mantissa * 10 + digit
    let digits = at - whole
    if (digits === 0 || (digits > 1 && bytes[whole] === 0x30)) return -1
    let decimals = 0
    if (bytes[at] === 0x2e) {
      const point = at++
      for (let digit = digitAt(bytes, at); digit >= 0; digit = digitAt(bytes, ++at)) mantissa = mantissa * 10 + digit
      decimals = at - point - 1
      if (decimals === 0) return -1
      digits += decimals
    }
    let exact = digits <= Decimal.shortDigits
    if (bytes[at] === 0x65 || bytes[at] === 0x45) {
      exact = false
      at++
      if (bytes[at] === 0x2b || bytes[at] === 0x2d) at++
      const power = at
      while (digitAt(bytes, at) >= 0) at++
      if (at === power) return -1
    }
    // The parser refuses integers of very many digits; that is for it to say.
    if (at - start > 1000) return -1
    this.number = exact
      ? (negative ? -mantissa : mantissa) / (Decimal.tenTo[decimals] ?? Number.NaN)
      : Decimal.read(bytes, start, at)
    return at
  }

  /** The index behind any value, or -1. */
  private behindValue(bytes: Buffer, view: DataView, start: number, end: number): number {
    const first = bytes[start]
    if (first === quote) return behindString(bytes, view, start + 1, end)
    if (first === openBrace || first === openBracket) return this.behindNested(bytes, view, start, end)
    let at = start
    while (stopsScalar[bytes[at] ?? 0] === 0) at++
    return at === start ? -1 : at
  }

  /** The index behind the object or array that opens at `start`, or -1 where it does not end in the line. */
  private behindNested(bytes: Buffer, view: DataView, start: number, end: number): number {
    let depth = 0
    let at = start
    for (;;) {
      while (stopsNested[bytes[at] ?? 0] === 0) at++
      const byte = bytes[at++] ?? newline
      if (byte === quote) {
        at = behindString(bytes, view, at, end)
        if (at < 0) return -1
      } else if (byte === openBrace || byte === openBracket) {
        if (depth === this.due.length) {
          const more = new Uint8Array(depth * 2)
          more.set(this.due)
          this.due = more
        }
        // In ASCII a closing bracket of either kind stands two behind its opening one.
        this.due[depth++] = byte + 2
      } else if (byte === newline || this.due[--depth] !== byte) {
        return -1
      } else if (depth === 0) {
        return at
      }
    }
  }
}

const digitAt = (bytes: Buffer, at: number): number => {
  const digit = (bytes[at] ?? 0) - 0x30
  return digit <= 9 ? digit : -1
}

const recordRole = (bytes: Buffer, key: number, length: number): Role => {
  if (length === 7 && isWord(bytes, key, keyTaskId)) return "taskId"
  if (length === 6 && isWord(bytes, key, keyReward)) return "reward"
  return length === 8 && isWord(bytes, key, keyMetadata) ? "metadata" : "skipped"
}

const metadataRole = (bytes: Buffer, key: number, length: number): Role => {
  if (length === 9 && isWord(bytes, key, keyTaskHash)) return "taskHash"
  if (length === 7 && isWord(bytes, key, keySuccess)) return "success"
  return length === 4 && isWord(bytes, key, keyHarm) ? "harm" : "skipped"
}

/** The newline at the line's end is no space, so this never leaves the line. */
const behindSpace = (bytes: Buffer, start: number): number => {
  let at = start
  while (bytes[at] === 0x20 || bytes[at] === 0x09 || bytes[at] === 0x0d) at++
  return at
}

const isWord = (bytes: Buffer, at: number, word: Buffer): boolean => {
  for (let index = 0; index < word.length; index++) {
    if (bytes[at + index] !== word[index]) return false
  }
  return true
}

/** The index behind a key's closing quote; -1 where it has an escape or a fault. */
const behindKey = (bytes: Buffer, start: number): number => {
  let at = start
  let seen = 0
  while (stopsKey[bytes[at] ?? 0] === 0) seen |= bytes[at++] ?? 0
  if (bytes[at] !== quote) return -1
  return seen < 0x80 || isUtf8(bytes.subarray(start, at)) ? at + 1 : -1
}

/** The index behind a string's closing quote; -1 where it does not end in the line. */
const behindString = (bytes: Buffer, view: DataView, start: number, end: number): number => {
  let at = start
  let patience = at + longString
  for (;;) {
    // Four bytes at a time: the lowest high bit that comes out set is of the first quote or backslash among them.
    const four = view.getInt32(at, true)
    const quotes = four ^ 0x22222222
    const backslashes = four ^ 0x5c5c5c5c
    const hits = (((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes)) & 0x80808080
    if (hits !== 0) {
      at += (31 - Math.clz32(hits & -hits)) >> 3
      if (bytes[at] === quote) return at < end ? at + 1 : -1
      at += 2
    } else {
      at += 4
      if (at >= patience) {
        const found = bytes.indexOf(quote, at)
        if (found < 0 || found >= end) return -1
        let escapes = found
        while (bytes[escapes - 1] === backslash) escapes--
        at = found + 1
        if ((found - escapes) % 2 === 0) return at
        patience = at + longString
      }
    }
    if (at >= end) return -1
  }
}
