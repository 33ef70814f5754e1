/**
 * The ids and hashes of tasks come again and again in files' bytes, and are decoded
 * only once: a hash table from a pair's spelling (the bytes between the quotes) to
 * its task's number, so that the hundred thousandth record makes no new string.
 */

import { constants, isUtf8 } from "node:buffer"
import { type Memory, slack } from "./traceScan.js"

/** The places of a pair's contents in the bytes, quotes excluded. */
interface Pair {
  readonly idStart: number
  readonly idEnd: number
  readonly hashStart: number
  readonly hashEnd: number
  /** Of the id's bytes, by `hashOf`. */
  readonly hash: number
  /** What `candidate` gave for it, maybe before others were learned. */
  readonly candidate: number
  /** What `looksRight` said. */
  readonly likely: boolean
}

export class Spellings {
  /**
   * Open addressing, never more than half full. A slot is an id's hash, and the place of the pair in `bytes` plus one, 0 where
   * the slot is free. At the place are the task's number and the lengths of both parts in 4 bytes each, then the parts.
   */
  private slots = new Int32Array(1024 * slotLength)
  private count = 0
  private bytes = Buffer.allocUnsafeSlow(16_384)
  private view = new DataView(this.bytes.buffer)
  private used = 0

  /**
   * Where a pair may be whose id has this hash, or -1. This, `looksRight` and `find` are the steps of finding a pair, and with
   * many pairs each waits for memory: take several pairs through each step, so that the processor waits for them at once.
   */
  candidate(hash: number): number {
    const { slots } = this
    let slot = firstSlot(slots, hash)
    while (slots[slot + 1] !== 0 && slots[slot] !== hash) slot = nextSlot(slots, slot)
    return (slots[slot + 1] ?? 0) - 1
  }

  /** Whether what is at the candidate has the pair's lengths and its end. */
  looksRight(memory: Memory, { candidate, hashEnd, hashStart, idEnd, idStart }: Pair): boolean {
    if (candidate < 0) return false
    const idLength = idEnd - idStart
    const hashLength = hashEnd - hashStart
    if (this.view.getInt32(candidate + 4) !== idLength || this.view.getInt32(candidate + 8) !== hashLength) return false
    const end = candidate + headLength + idLength + hashLength
    return hashLength === 0 || this.bytes[end - 1] === memory.bytes[hashEnd - 1]
  }

  /** The number that was learned for a pair, or -1. Up to 3 bytes behind a part are read. */
  find(memory: Memory, pair: Pair): number {
    const { candidate, hash, likely } = pair
    if (likely && this.isAt(candidate, memory, pair)) return this.view.getInt32(candidate)
    const { slots } = this
    for (let slot = firstSlot(slots, hash); slots[slot + 1] !== 0; slot = nextSlot(slots, slot)) {
      const place = (slots[slot + 1] ?? 0) - 1
      if (slots[slot] === hash && this.isAt(place, memory, pair)) return this.view.getInt32(place)
    }
    return -1
  }

  /** Gives a number, from 0, to a pair that is not known. */
  learn({ view }: Memory, { hash, hashEnd, hashStart, idEnd, idStart }: Pair, number: number): void {
    const place = this.used
    this.reserve(headLength + idEnd - idStart + hashEnd - hashStart)
    this.view.setInt32(place, number)
    this.view.setInt32(place + 4, idEnd - idStart)
    this.view.setInt32(place + 8, hashEnd - hashStart)
    this.used += headLength
    this.used += copy(view, idStart, idEnd, this.view, this.used)
    this.used += copy(view, hashStart, hashEnd, this.view, this.used)
    if (++this.count * 2 * slotLength > this.slots.length) {
      const before = this.slots
      this.slots = new Int32Array(before.length * 2)
      for (let slot = 0; slot < before.length; slot += slotLength) {
        if (before[slot + 1] !== 0) put(this.slots, before[slot] ?? 0, before[slot + 1] ?? 0)
      }
    }
    put(this.slots, hash, place + 1)
  }

  private isAt(place: number, memory: Memory, { hashEnd, hashStart, idEnd, idStart }: Pair): boolean {
    const { view } = this
    const idLength = idEnd - idStart
    const hashLength = hashEnd - hashStart
    const id = place + headLength
    return (
      view.getInt32(place + 4) === idLength &&
      view.getInt32(place + 8) === hashLength &&
      isSame(view, id, memory.view, idStart, idLength) &&
      isSame(view, id + idLength, memory.view, hashStart, hashLength)
    )
  }

  private reserve(length: number): void {
    let size = this.bytes.length
    while (this.used + length + slack > size) size *= 2
    if (size === this.bytes.length) return
    const bytes = Buffer.allocUnsafeSlow(size)
    this.bytes.copy(bytes, 0, 0, this.used)
    this.bytes = bytes
    this.view = new DataView(bytes.buffer)
  }
}

const slotLength = 2
const headLength = 12

const firstSlot = (slots: Int32Array, hash: number): number => (hash & (slots.length / slotLength - 1)) * slotLength

const nextSlot = (slots: Int32Array, slot: number): number => {
  const next = slot + slotLength
  return next < slots.length ? next : 0
}

const put = (slots: Int32Array, hash: number, content: number): void => {
  let slot = firstSlot(slots, hash)
  while (slots[slot + 1] !== 0) slot = nextSlot(slots, slot)
  slots[slot] = hash
  slots[slot + 1] = content
}

/** Up to 3 bytes more than there are are copied. Gives the length. */
const copy = (from: DataView, start: number, end: number, to: DataView, toStart: number): number => {
  const length = end - start
  for (let at = 0; at < length; at += 4) to.setInt32(toStart + at, from.getInt32(start + at, true), true)
  return length
}

const isSame = (one: DataView, oneStart: number, other: DataView, otherStart: number, length: number): boolean => {
  let at = 0
  for (; at + 4 <= length; at += 4) {
    if (one.getInt32(oneStart + at, true) !== other.getInt32(otherStart + at, true)) return false
  }
  const differs = one.getInt32(oneStart + at, true) ^ other.getInt32(otherStart + at, true)
  return (differs & firstBytes(length - at)) === 0
}

/** The mask for the first bytes, 3 at most, of four that were read as a little-endian number. */
const firstBytes = (count: number): number => (1 << (count * 8)) - 1

/** Four bytes a step; mixed at the end, since the table takes the low bits. */
export const hashOf = ({ view }: Memory, start: number, end: number): number => {
  let hash = end - start
  let at = start
  for (; at + 4 <= end; at += 4) {
    hash = Math.imul(hash ^ view.getInt32(at, true), 0x9e3779b1)
    hash ^= hash >>> 15
  }
  if (at < end) hash = Math.imul(hash ^ (view.getInt32(at, true) & firstBytes(end - at)), 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return hash ^ (hash >>> 13)
}

/** The string whose content in JSON the bytes are; undefined where they are none. */
export const spelled = ({ bytes }: Memory, start: number, end: number): string | undefined => {
  if (isPlain(bytes, start, end)) return bytes.toString("latin1", start, end)
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

/** Whether a string's content is ASCII that stands for itself. */
const isPlain = (bytes: Buffer, start: number, end: number): boolean => {
  if (end - start > longestPlain) return false
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0
    if (byte < 0x20 || byte > 0x7e || byte === 0x5c || byte === 0x22) return false
  }
  return true
}

/** Longer ones are looked through faster by the other way. */
const longestPlain = 256
