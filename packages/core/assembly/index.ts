/**
 * The trace scanner: tallies the usual records of a block of lines, and leaves the others to whoever calls. It is
 * compiled to WebAssembly (AssemblyScript; `npm run scanner`), since 16 bytes can be looked at at a time there, and
 * numbers of 64 bits be used. An instance has one memory and one tally: what stands at the top of its modules is its state.
 *
 * Use: `begin`, then put whole lines into a block and `scan` them; where that stops before the end, `reason` says why.
 */

import { Found } from "./found"
import * as Memory from "./memory"
import * as Pairs from "./pairs"
import { behindRecord } from "./records"

export { countBytes, give, heads, isSorted, moveEntries, order, readKeys, rows, texts } from "./columns"
export { blocks, used } from "./memory"
export { count, forgetLeftovers, leftoverCount, leftovers, mayRepeat } from "./pairs"

/** Why `scan` stopped. */
enum Reason {
  /** It is at the end. */
  end,
  /** It is not certain what the line says. */
  unsure,
  /** The line's id or hash is new and not plain: if both are sound, `learn` it and go on. */
  unsound,
  /** There is no room for what is left of sums: take it, and `forgetLeftovers`. */
  full,
  /** It took many lines. What is called once for all lines would never be optimized. */
  more
}

export let reason: Reason = Reason.end

/** How many lines a `scan` takes at most, and how many the last one took. */
const mostLines: u32 = 1024
export let lines: u32 = 0

/** Whether any record told `success`. */
export let tellsSuccess: bool = false

/**
 * Records that are scanned and not tallied yet. Where there are many tasks, each step of that has to wait for memory, and the
 * processor waits for those of several records at once if they follow one another.
 */
const mostWaiting: u32 = 64
/** More than a `Found` has, so that each is in one of the processor's lines of memory. */
const foundSize: u32 = 64
const waiting = <u32>memory.data(64 * 64, 64)
const waitingLimit: u32 = waiting + mostWaiting * foundSize
let waitingEnd: u32 = waiting

/** How many bytes of text there are in the records that wait, and how many there is room for. */
let promised: u32 = 0
let budget: u32 = 0

/** That for which `scan` stopped, since its strings may be unsound. */
export let unsound: Found = changetype<Found>(waiting)

/**
 * Has two blocks of `size` bytes made, with their slack. False where there is no memory. The halves of the seed have to be random:
 * it decides where in its table a task is.
 */
export function begin(size: u32, seedLow: u32, seedHigh: u32): bool {
  return Memory.makeBlocks(size) && Pairs.begin(((<u64>seedHigh) << 32) | seedLow)
}

/** With less no record can be told, its line end included. */
const leastRecord: u32 = 48

/**
 * Has the memory grow, if need be, so that all lines in so many bytes can be tallied; `scan` does not, since what is outside
 * loses sight of a memory that grows. Where there is no more, `scan` will leave lines that bring new tasks.
 */
export function makeRoom(bytes: u32): void {
  // What is taken on the way does not count for what is asked for at the last line.
  Memory.makeRoom(Pairs.roomFor(bytes / leastRecord, bytes) + Pairs.roomFor(mostWaiting, 0))
}

/** Tallies the lines from `start` to `end`, and gives where it stopped: at the end, or where a line begins. */
export function scan(start: u32, end: u32): u32 {
  lines = 0
  reason = Reason.end
  budget = Pairs.budget(mostWaiting)
  let at = start
  while (at < end) {
    if (Pairs.isFull(mostWaiting) || lines === mostLines) {
      reason = lines === mostLines ? Reason.more : Reason.full
      break
    }
    const found = changetype<Found>(waitingEnd)
    const lineEnd = behindRecord(at, found)
    const text = lineEnd === 0 ? 0 : found.idLength + found.hashLength
    if (lineEnd === 0 || promised + text > budget) {
      reason = Reason.unsure
      break
    }
    found.key = Pairs.keyOf(found.idStart, found.idLength)
    if (found.isPlainId && found.isPlainHash) {
      promised += text
      waitingEnd += foundSize
      if (waitingEnd === waitingLimit) finish()
    } else {
      finish()
      found.isLikely = false
      const pair = Pairs.find(found)
      if (pair === 0) {
        unsound = found
        reason = Reason.unsound
        break
      }
      Pairs.add(pair, found)
    }
    if (found.success !== 0) tellsSuccess = true
    lines++
    at = lineEnd + 1
  }
  finish()
  return at
}

/** Makes a pair of the id and the hash for which `scan` stopped. */
export function learn(): void {
  Pairs.learn(unsound)
}

function finish(): void {
  for (let at = waiting; at < waitingEnd; at += foundSize) {
    const found = changetype<Found>(at)
    found.pair = Pairs.candidate(found.key)
  }
  for (let at = waiting; at < waitingEnd; at += foundSize) {
    const found = changetype<Found>(at)
    found.text = Pairs.textOf(found.pair, found)
  }
  for (let at = waiting; at < waitingEnd; at += foundSize) {
    const found = changetype<Found>(at)
    found.isLikely = Pairs.isLikely(found.text, found)
  }
  for (let at = waiting; at < waitingEnd; at += foundSize) {
    const found = changetype<Found>(at)
    const pair = Pairs.find(found)
    found.pair = pair === 0 ? Pairs.learn(found) : pair
  }
  for (let at = waiting; at < waitingEnd; at += foundSize) Pairs.add(changetype<Found>(at).pair, changetype<Found>(at))
  waitingEnd = waiting
  promised = 0
  budget = Pairs.budget(mostWaiting)
}
