/**
 * Cuts bytes into lines and has each decoded, in two pieces of memory that are used
 * in turn: they grow with the longest line, not with the file.
 */

import { constants, isUtf8 } from "node:buffer"
import * as Either from "effect/Either"
import { EpisodeRecord } from "../EpisodeRecord.js"
import * as Json from "../Json.js"
import { type Memory, slack, type TraceScanner } from "./traceScanner.js"

/** What is wrong with a line. */
export class LineFault {
  constructor(
    /** The line's number, from 1. */
    readonly line: number,
    /** In a few words, without the file and the line. */
    readonly reason: string,
    /** Whether it is JSON at least: then it is no record. */
    readonly isJson: boolean
  ) {}
}

/** Makes something of lines. */
export interface LineDecoder<A> {
  /** Takes lines before they come to `decode`, which then has only those that it does not take; it may be none. */
  readonly scanner: TraceScanner | undefined
  /** Takes the line from `start` to `end`, where a newline is; what comes of it goes to `out`. */
  readonly decode: (memory: Memory, start: number, end: number, line: number, out: Array<A>) => LineFault | undefined
  /** How many rewards it has met that are neither null nor finite. */
  notFinite: number
}

/** About how many bytes are scanned at a time, and how many where there are not so many. */
export const pieceSize = 1 << 22
export const leastPiece = 1 << 16

/** About how many bytes are parsed at a time: more would only keep who wants the first record waiting. */
const parsedSize = 1 << 18

/**
 * Use: put bytes into `room`, say how many by `took`, and while `room` is filled again, have the whole lines of
 * before decoded by `decode`; at the end `decodeRest`.
 */
export class TraceLines<A> {
  /** The pieces that are used but for very long lines. */
  private readonly usual: readonly [Memory, Memory]
  /** The whole lines that are to be decoded: from `start` to `wholeEnd` of this memory. */
  private whole: Memory
  private start = 0
  private wholeEnd = 0
  /** What is behind them, the beginning of a line, is at the beginning of this memory. */
  private next: Memory
  private begun = 0
  /** The number of the line that was decoded last, from 1. */
  private line = 0
  private readonly size: number

  /** `size` is about how many bytes are taken at a time where there is no scanner. */
  constructor(
    private readonly decoder: LineDecoder<A>,
    size = parsedSize
  ) {
    this.usual = decoder.scanner?.blocks ?? [memoryOf(size), memoryOf(size)]
    ;[this.whole, this.next] = this.usual
    this.size = this.usual[0].bytes.length - slack
  }

  /** Forgets what is left, for the next file. */
  reset(): void {
    this.start = this.wholeEnd = this.begun = this.line = 0
  }

  /** Where the file's next bytes have to be put. */
  room(): Uint8Array {
    // Little room is better than another memory, whose lines have to be parsed.
    this.next = withRoom(this.next, this.begun, Math.ceil(this.size / 64))
    return this.next.bytes.subarray(this.begun, this.next.bytes.length - slack)
  }

  /** `count` bytes were put there. What was whole before must have been decoded. */
  took(count: number): void {
    const end = this.begun + count
    if (this.next.address !== undefined) this.decoder.scanner?.makeRoom(end)
    const { bytes } = this.next
    const newline = bytes.subarray(this.begun, end).lastIndexOf(0x0a)
    if (newline < 0) {
      this.begun = end
      return
    }
    const wholeEnd = this.begun + newline + 1
    const left = end - wholeEnd
    const free = this.next === this.usual[0] ? this.usual[1] : this.usual[0]
    const other = withRoom(free, 0, left)
    bytes.copy(other.bytes, 0, wholeEnd, end)
    this.whole = this.next
    this.start = 0
    this.wholeEnd = wholeEnd
    this.next = other
    this.begun = left
  }

  /** Decodes the lines that are whole, and gives the first fault. */
  decode(out: Array<A>): LineFault | undefined {
    const { scanner } = this.decoder
    while (this.start < this.wholeEnd) {
      if (scanner !== undefined) {
        this.start = scanner.scan(this.whole, this.start, this.wholeEnd)
        this.line += scanner.lines
        if (this.start === this.wholeEnd) break
      }
      const start = this.start
      const end = this.whole.bytes.indexOf(0x0a, start)
      this.start = end + 1
      const fault = this.decodeLine(this.whole, start, end, out)
      if (fault !== undefined) return fault
    }
    return undefined
  }

  /** Decodes what is left behind the last line end, and gives what is wrong with it. */
  decodeRest(out: Array<A>): LineFault | undefined {
    if (this.begun === 0) return undefined
    this.next.bytes[this.begun] = 0x0a
    return this.decodeLine(this.next, 0, this.begun, out)
  }

  private decodeLine(memory: Memory, lineStart: number, end: number, out: Array<A>): LineFault | undefined {
    const { bytes } = memory
    this.line++
    let start = lineStart
    if (this.line === 1 && bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf) start += 3
    while (bytes[start] === 0x20 || bytes[start] === 0x09 || bytes[start] === 0x0d) start++
    if (start >= end) return undefined
    return this.decoder.decode(memory, start, end, this.line, out)
  }
}

const memoryOf = (size: number): Memory => ({ bytes: Buffer.allocUnsafeSlow(size + slack) })

/** The memory, or a larger one with the same `used` bytes, that has room for as many more. */
const withRoom = (memory: Memory, used: number, more: number): Memory => {
  if (used + more <= memory.bytes.length - slack) return memory
  const larger = memoryOf((used + more) * 2)
  memory.bytes.copy(larger.bytes, 0, 0, used)
  return larger
}

/** Parses a line as a record. */
export const parseRecord = (
  { bytes }: Memory,
  start: number,
  end: number,
  number: number
): EpisodeRecord | LineFault => {
  const line = bytes.subarray(start, end)
  if (!isUtf8(line)) return new LineFault(number, "it is no UTF-8 text", false)
  if (line.length > constants.MAX_STRING_LENGTH)
    return new LineFault(number, "the line is too long to be parsed", false)
  const text = line.toString("utf8")
  const json = Json.parse(text)
  if (Either.isLeft(json)) return new LineFault(number, json.left, false)
  const record = EpisodeRecord.make(json.right, () => text)
  return Either.isLeft(record) ? new LineFault(number, record.left, true) : record.right
}
