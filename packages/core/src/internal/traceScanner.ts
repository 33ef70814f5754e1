/**
 * The trace scanner: tallies the usual lines of a block without parsing them. A record is some 6 KB, of which
 * calibration needs 0.2 KB. It is a WebAssembly module (packages/core/assembly says how it works); here is the way
 * into it.
 *
 * It only ever says "these lines are tallied" or "not sure": whatever is unusual (an escape in a key, a string as
 * `success`, a fault) is left to the JSON parser, which then has the last word. Of the skipped values only the
 * strings' ends and control characters and the balance of the brackets are checked.
 */

import { constants, isUtf8 } from "node:buffer"
import { rowLength } from "./mutableTally.js"
import { Rest } from "./rewardSums.js"
import type { Columns } from "./scannedTally.js"
import { code } from "./traceScannerCode.js"

/** As much of the platform's as is needed; Node's types have none of it. */
declare namespace WebAssembly {
  class CompileError extends Error {}
  class Memory {
    constructor(limits: { readonly initial: number; readonly maximum: number })
    readonly buffer: ArrayBuffer
  }
  class Module {
    constructor(code: Uint8Array)
  }
  class Instance {
    constructor(module: Module, imports: { readonly env: { readonly memory: Memory } })
    readonly exports: Exports
  }
}

interface Value {
  readonly value: number
}

/** What packages/core/assembly/index.ts exports; addresses are in bytes, and negative above 2 GiB: `>>> 0` mends them. */
interface Exports {
  readonly begin: (size: number, seedLow: number, seedHigh: number) => number
  readonly makeRoom: (bytes: number) => void
  readonly scan: (start: number, end: number) => number
  readonly learn: () => void
  readonly forgetLeftovers: () => void
  readonly reason: Value
  readonly lines: Value
  readonly tellsSuccess: Value
  readonly mayRepeat: Value
  readonly blocks: Value
  readonly unsound: Value
  readonly used: () => number
  readonly order: () => void
  readonly give: (from: number) => number
  readonly heads: Value
  readonly rows: Value
  readonly texts: Value
  readonly count: Value
  readonly isSorted: Value
  readonly leftovers: Value
  readonly leftoverCount: Value
}

const reasonUnsound = 2
const reasonFull = 3
const reasonMore = 4

/** What WebAssembly counts memory in, how much is needed beside the blocks, and all that there can be. */
const pageSize = 65_536
const fewestPages = 8
const mostPages = 65_536

/** What may be read behind the last line end of a block. */
export const slack = 128

/** Bytes that lines are read into; the scanner's are others each time that it makes room. */
export interface Memory {
  bytes: Buffer
  /** Where they are in the scanner's memory; undefined where they are elsewhere. */
  readonly address?: number
}

const leftoverSize = 16

/** Of each pair that is given: its address, the lengths of id and hash, and whether they are plain. */
const headWords = 4

/** With more than that used, a memory is not kept for the next scanner. */
const mostKept = 1 << 26

/**
 * Makes scanners. They share a compiled module, so that those behind the first begin with optimized code, and one memory is
 * kept for the next: to make one has the collector go through the whole heap.
 */
export class TraceScanners {
  private module: WebAssembly.Module | undefined
  private kept: { readonly memory: WebAssembly.Memory; readonly size: number } | undefined
  /** How many are in use, and for how many there is memory: to be refused one takes a third of a second. */
  private inUse = 0
  private most = Number.POSITIVE_INFINITY

  /**
   * One with blocks of at least `size` bytes; undefined where the platform has no memory for it, or no WebAssembly with SIMD. The
   * seed is two random integers of 32 bits, lest ids be chosen that are slow to find.
   */
  make(size: number, seed: readonly [number, number]): TraceScanner | undefined {
    if (typeof WebAssembly === "undefined" || this.inUse >= this.most) return undefined
    // What is too small goes before another is made: there may not be addresses for both.
    if (this.kept !== undefined && this.kept.size < size) this.kept = undefined
    try {
      this.module ??= new WebAssembly.Module(Buffer.from(code, "base64"))
      const { memory, size: given } = this.kept ?? { memory: memoryFor(size), size }
      this.kept = undefined
      const { exports } = new WebAssembly.Instance(this.module, { env: { memory } })
      if (exports.begin(given, ...seed) === 0) return undefined
      this.inUse++
      return new TraceScanner(memory, exports, given)
    } catch (error) {
      this.most = this.inUse
      if (error instanceof RangeError || error instanceof WebAssembly.CompileError) return undefined
      throw error
    }
  }

  /** Nothing may use the scanner any more, nor its blocks. */
  release({ exports, memory, size }: TraceScanner): void {
    this.inUse--
    const used = exports.used() >>> 0
    if (used > mostKept) return
    // An instance takes all but the blocks to be zero.
    const bytes = new Uint8Array(memory.buffer)
    bytes.fill(0, 0, exports.blocks.value)
    bytes.fill(0, exports.blocks.value + 2 * (size + slack), used)
    this.kept = { memory, size }
  }
}

/** Large enough for blocks of that size, since to grow takes a millisecond. */
const memoryFor = (size: number): WebAssembly.Memory =>
  new WebAssembly.Memory({ initial: fewestPages + Math.ceil((2 * size) / pageSize), maximum: mostPages })

interface Block extends Memory {
  readonly address: number
}

/** Tallies lines. `blocks` are where they have to be put for that, each of the size that was asked for and its slack. */
export class TraceScanner {
  /** How many lines the last `scan` took. */
  lines = 0
  readonly blocks: readonly [Block, Block]
  /** By the pairs' addresses, what has no place in their rows; few have any. */
  private readonly rests = new Map<number, Rest>()

  constructor(
    readonly memory: WebAssembly.Memory,
    readonly exports: Exports,
    readonly size: number
  ) {
    const block = (address: number): Block => ({ bytes: Buffer.from(memory.buffer, address, size + slack), address })
    this.blocks = [block(exports.blocks.value), block(exports.blocks.value + size + slack)]
  }

  /**
   * Has to be called before so many bytes of a block are scanned, while nothing is read into the other: the blocks' bytes may be
   * others then.
   */
  makeRoom(bytes: number): void {
    const { buffer } = this.memory
    this.exports.makeRoom(bytes)
    if (this.memory.buffer === buffer) return
    for (const block of this.blocks) block.bytes = Buffer.from(this.memory.buffer, block.address, this.size + slack)
  }

  /** Tallies the lines from `start` to `end`, and gives where it stopped: at the end, or at a line that has to be parsed. */
  scan({ address, bytes }: Memory, start: number, end: number): number {
    this.lines = 0
    if (address === undefined) return start
    let at = start
    for (;;) {
      at = this.exports.scan(address + at, address + end) - address
      this.lines += this.exports.lines.value
      const reason = this.exports.reason.value
      if (reason === reasonFull) this.takeLeftovers()
      else if (reason !== reasonMore && (reason !== reasonUnsound || !this.learn(bytes, address))) return at
    }
  }

  /** What was tallied; to be asked for once, at the end. */
  columns(): Columns {
    this.takeLeftovers()
    this.exports.order()
    const { count, isSorted, mayRepeat, tellsSuccess } = this.exports
    const ids: Array<string> = []
    const hashes: Array<string> = []
    const rows = new Float64Array(count.value * rowLength)
    const rests = new Map<number, Rest>()
    while (ids.length < count.value) this.giveTo(ids, hashes, rows, rests)
    return {
      ids,
      hashes,
      rows,
      rests,
      isSorted: isSorted.value !== 0,
      mayRepeat: mayRepeat.value !== 0,
      tellsSuccess: tellsSuccess.value !== 0
    }
  }

  private giveTo(ids: Array<string>, hashes: Array<string>, rows: Float64Array, rests: Map<number, Rest>): void {
    const task = ids.length
    const given = this.exports.give(task)
    const { buffer } = this.memory
    const heads = new Uint32Array(buffer, this.exports.heads.value, given * headWords)
    rows.set(new Float64Array(buffer, this.exports.rows.value, given * rowLength), task * rowLength)
    let size = 0
    for (let head = 0; head < heads.length; head += headWords) size += (heads[head + 1] ?? 0) + (heads[head + 2] ?? 0)
    const bytes = Buffer.from(buffer, this.exports.texts.value >>> 0, size)
    // Each plain text is a part of one string, which is much faster than to decode them one by one.
    const decoded = bytes.toString("latin1")
    let at = 0
    for (let head = 0; head < heads.length; head += headWords) {
      const hash = at + (heads[head + 1] ?? 0)
      const end = hash + (heads[head + 2] ?? 0)
      const isPlain = heads[head + 3] === 1
      ids.push(isPlain ? decoded.slice(at, hash) : (spelled(bytes, at, hash) ?? ""))
      hashes.push(isPlain ? decoded.slice(hash, end) : (spelled(bytes, hash, end) ?? ""))
      at = end
      const rest = this.rests.size === 0 ? undefined : this.rests.get(heads[head] ?? 0)
      if (rest !== undefined) rests.set(task + head / headWords, rest)
    }
  }

  /** Whether the id and the hash for which the scanner stopped are sound; then they are learned. */
  private learn(bytes: Buffer, address: number): boolean {
    const [idStart = 0, idLength = 0, hashStart = 0, hashLength = 0] = new Uint32Array(
      this.memory.buffer,
      this.exports.unsound.value + 8,
      4
    )
    const id = idStart - address
    const hash = hashStart - address
    if (spelled(bytes, id, id + idLength) === undefined) return false
    if (spelled(bytes, hash, hash + hashLength) === undefined) return false
    this.exports.learn()
    return true
  }

  private takeLeftovers(): void {
    const values = new DataView(this.memory.buffer)
    const { leftoverCount, leftovers } = this.exports
    const end = leftovers.value + leftoverCount.value * leftoverSize
    for (let at = leftovers.value; at < end; at += leftoverSize) {
      const pair = values.getUint32(at + 8, true)
      const rest = this.rests.get(pair) ?? new Rest()
      this.rests.set(pair, rest)
      const value = values.getFloat64(at, true)
      if (values.getUint32(at + 12, true) === 0) rest.addToSum(value)
      else rest.addToSquares(value)
    }
    this.exports.forgetLeftovers()
  }
}

/** The string whose content in JSON the bytes are; undefined where they are none. */
const spelled = (bytes: Buffer, start: number, end: number): string | undefined => {
  const content = bytes.subarray(start, end)
  if (!isUtf8(content) || content.length > constants.MAX_STRING_LENGTH - 2) return undefined
  const text = content.toString("utf8")
  if (!/[\u0000-\u001f\\"]/.test(text)) return text
  try {
    return JSON.parse(`"${text}"`)
  } catch {
    return undefined
  }
}
