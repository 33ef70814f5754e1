/**
 * The ids and hashes of tasks come again and again in files' bytes, and are decoded
 * only once: a hash table from a pair's spelling (the bytes between the quotes) to
 * its task's number, so that the hundred thousandth record makes no new string.
 */

import { constants, isUtf8 } from "node:buffer"
import type { Memory } from "./traceScan.js"

/** The places of a pair's contents in the bytes, quotes excluded. */
interface Pair {
  readonly idStart: number
  readonly idEnd: number
  readonly hashStart: number
  readonly hashEnd: number
}

export class Spellings {
  /**
   * Open addressing, never more than half full. A slot is a pair's hash, its number plus one, 0 where the slot is free,
   * and where the pair is in `bytes`: the lengths of both parts in 4 bytes each, then the parts.
   */
  private slots = new Int32Array(1024 * slotLength)
  private count = 0
  private bytes = Buffer.allocUnsafeSlow(16_384)
  private view = new DataView(this.bytes.buffer)
  private used = 0

  /** The number that was learned for a pair, or -1. Up to 3 bytes behind a part are read. */
  find(memory: Memory, pair: Pair): number {
    const { slots } = this
    const idLength = pair.idEnd - pair.idStart
    const hashLength = pair.hashEnd - pair.hashStart
    const hash = hashOf(memory.view, pair.idStart, pair.idEnd)
    for (let slot = firstSlot(slots, hash); ; slot = nextSlot(slots, slot)) {
      const number = (slots[slot + 1] ?? 0) - 1
      if (number < 0) return -1
      if (slots[slot] !== hash) continue
      const place = slots[slot + 2] ?? 0
      if (
        this.view.getInt32(place) === idLength &&
        this.view.getInt32(place + 4) === hashLength &&
        this.isAt(place + 8, memory, pair.idStart, idLength) &&
        this.isAt(place + 8 + idLength, memory, pair.hashStart, hashLength)
      ) {
        return number
      }
    }
  }

  /** Gives a number, from 0, to a pair that is not known. */
  learn(memory: Memory, { hashEnd, hashStart, idEnd, idStart }: Pair, number: number): void {
    const place = this.used
    this.reserve(8 + idEnd - idStart + hashEnd - hashStart)
    this.view.setInt32(place, idEnd - idStart)
    this.view.setInt32(place + 4, hashEnd - hashStart)
    this.used += 8
    this.used += memory.bytes.copy(this.bytes, this.used, idStart, idEnd)
    this.used += memory.bytes.copy(this.bytes, this.used, hashStart, hashEnd)
    if (++this.count * 2 * slotLength > this.slots.length) {
      const before = this.slots
      this.slots = new Int32Array(before.length * 2)
      for (let slot = 0; slot < before.length; slot += slotLength) {
        if (before[slot + 1] !== 0) put(this.slots, before.subarray(slot, slot + slotLength))
      }
    }
    put(this.slots, [hashOf(memory.view, idStart, idEnd), number + 1, place])
  }

  private isAt(known: number, memory: Memory, start: number, length: number): boolean {
    let at = 0
    for (; at + 4 <= length; at += 4) {
      if (this.view.getInt32(known + at) !== memory.view.getInt32(start + at)) return false
    }
    for (; at < length; at++) {
      if (this.bytes[known + at] !== memory.bytes[start + at]) return false
    }
    return true
  }

  private reserve(length: number): void {
    let size = this.bytes.length
    while (this.used + length > size) size *= 2
    if (size === this.bytes.length) return
    const bytes = Buffer.allocUnsafeSlow(size)
    this.bytes.copy(bytes, 0, 0, this.used)
    this.bytes = bytes
    this.view = new DataView(bytes.buffer)
  }
}

const slotLength = 3

const firstSlot = (slots: Int32Array, hash: number): number => (hash & (slots.length / slotLength - 1)) * slotLength

const nextSlot = (slots: Int32Array, slot: number): number => {
  const next = slot + slotLength
  return next < slots.length ? next : 0
}

const put = (slots: Int32Array, content: ArrayLike<number>): void => {
  let slot = firstSlot(slots, content[0] ?? 0)
  while (slots[slot + 1] !== 0) slot = nextSlot(slots, slot)
  slots.set(content, slot)
}

/** Four bytes a step; mixed at the end, since the table takes the low bits. */
const hashOf = (view: DataView, start: number, end: number): number => {
  let hash = end - start
  let at = start
  for (; at + 4 <= end; at += 4) {
    hash = Math.imul(hash ^ view.getInt32(at, true), 0x9e3779b1)
    hash ^= hash >>> 15
  }
  if (at < end) hash = Math.imul(hash ^ (view.getInt32(at, true) & ((1 << ((end - at) * 8)) - 1)), 0x9e3779b1)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return hash ^ (hash >>> 13)
}

/** The string whose content in JSON the bytes are; undefined where they are none. */
export const spelled = ({ bytes }: Memory, start: number, end: number): string | undefined => {
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
