/**
 * The end of a tally: the pairs in the order of their ids, where that is quickly told, some at a time.
 *
 * What is called once is never optimized, however long it runs; so the loops over all pairs are cut into calls of functions
 * that are exported, since then they are not made a part of their caller.
 */

import { copy, copySlack, take } from "./memory"
import * as Pairs from "./pairs"

/** What a pair is sorted by, eight bytes at a time, as a big-endian number; behind the id's end they are zeros. */
@unmanaged
class Entry {
  key: u64
  pair: u32
}

const entrySize: u32 = offsetof<Entry>()
const groupSize: u32 = 8
let entries: u32 = 0
let others: u32 = 0

/** With more bytes behind what all ids begin with, a sort that compares is faster. */
const mostSorted: u32 = 64

/** Whether the pairs are in the order of their ids. */
export let isSorted: bool = false

/** For the pairs that were given out last: their addresses, the lengths of id and hash and whether they are plain, and the texts. */
export const heads = <u32>memory.data(512 * 16, 16)
export const rows = <u32>memory.data(512 * 128, 16)
export let texts: u32 = 0
const mostGiven: u32 = 512
const textsSize: u32 = 1 << 16

@unmanaged
class Head {
  pair: u32
  idLength: u32
  hashLength: u32
  isPlain: u32
}

/** How many entries a call goes through. */
const step: u32 = 1024

/** Makes ready for `give`, once and at the end. There is room, by `Pairs.roomFor`. */
export function order(): void {
  const count = Pairs.count
  entries = take(count * entrySize)
  others = take(count * entrySize)
  texts = take(max(textsSize, Pairs.longestText) + copySlack)
  let entry = entries
  for (let slot: u32 = 0; entry < entries + count * entrySize; slot++) {
    const pair = Pairs.pairInSlot(slot)
    if (pair === 0) continue
    changetype<Entry>(entry).pair = pair
    entry += entrySize
  }
  const differing = Pairs.longestId - Pairs.sharedPrefix
  if (Pairs.mayRepeat || differing > mostSorted) return
  // By the last bytes first, then by those before them, each time keeping the order of equals.
  for (let groups = (differing + groupSize - 1) / groupSize; groups > 0; groups--) {
    const from = Pairs.sharedPrefix + (groups - 1) * groupSize
    for (let at: u32 = 0; at < count; at += step) readKeys(at, min(at + step, count), from)
    for (let shift: u64 = 0; shift < 64; shift += 8) sortByByte(shift, count)
  }
  isSorted = true
}

/** Gives out pairs from that number on, and their number. */
export function give(from: u32): u32 {
  let text = texts
  let at = from
  for (; at < Pairs.count && at - from < mostGiven; at++) {
    const place = changetype<Entry>(entries + at * entrySize).pair
    const pair = changetype<Pairs.Pair>(place)
    const length = pair.idLength + pair.hashLength
    if (text !== texts && text + length > texts + textsSize) break
    const head = changetype<Head>(heads + (at - from) * offsetof<Head>())
    head.pair = place
    head.idLength = pair.idLength
    head.hashLength = pair.hashLength
    head.isPlain = pair.isPlain
    copy(rows + (at - from) * Pairs.pairSize, place + offsetof<Pairs.Pair>("graded"), Pairs.rowSize)
    copy(text, pair.text, length)
    text += length
  }
  return at - from
}

/** Reads, into the entries from one to another, the eight bytes of the ids that begin at `from`. */
export function readKeys(first: u32, last: u32, from: u32): void {
  for (let at = first; at < last; at++) {
    const entry = changetype<Entry>(entries + at * entrySize)
    const pair = changetype<Pairs.Pair>(entry.pair)
    entry.key = 0
    if (pair.idLength > from) {
      const key = bswap(load<u64>(pair.text + from))
      const left = pair.idLength - from
      entry.key = left < groupSize ? key & (~(<u64>0) << ((groupSize - left) * 8)) : key
    }
  }
}

/** Where entries with a byte are to be put, for each byte. */
const places = <u32>memory.data(1024, 4)

function placeOf(entry: Entry, shift: u64): u32 {
  return places + (<u32>(entry.key >> shift) & 0xff) * 4
}

function sortByByte(shift: u64, count: u32): void {
  memory.fill(places, 0, 1024)
  for (let at: u32 = 0; at < count; at += step) countBytes(at, min(at + step, count), shift)
  // All have the same.
  if (load<u32>(placeOf(changetype<Entry>(entries), shift)) === count) return
  let next = others
  for (let place = places; place < places + 1024; place += 4) {
    const some = load<u32>(place)
    store<u32>(place, next)
    next += some * entrySize
  }
  for (let at: u32 = 0; at < count; at += step) moveEntries(at, min(at + step, count), shift)
  const sorted = others
  others = entries
  entries = sorted
}

export function countBytes(first: u32, last: u32, shift: u64): void {
  for (let at = first; at < last; at++) {
    const place = placeOf(changetype<Entry>(entries + at * entrySize), shift)
    store<u32>(place, load<u32>(place) + 1)
  }
}

export function moveEntries(first: u32, last: u32, shift: u64): void {
  for (let at = first; at < last; at++) {
    const entry = changetype<Entry>(entries + at * entrySize)
    const place = placeOf(entry, shift)
    const to = changetype<Entry>(load<u32>(place))
    to.key = entry.key
    to.pair = entry.pair
    store<u32>(place, load<u32>(place) + entrySize)
  }
}
