/**
 * The tasks that were met, by the spelling of their ids and hashes (the bytes between the quotes): a hash table to pairs,
 * each with the counts and sums of its rollouts. A hundred thousandth record makes no string.
 */

import { Found } from "./found"
import { copy, freeBytes, makeRoom, roomForTexts, take, takeText } from "./memory"
import { productError } from "./values"

/**
 * The doubles are a row of mutableTally.ts. A pair is two of the processor's lines of memory, and what is looked at first is
 * at both ends, so that both are fetched before the sums are needed.
 */
@unmanaged
export class Pair {
  /** Where the bytes of the id are, and behind them those of the hash. */
  text: u32
  /** Whether both stand for themselves. */
  isPlain: u32
  graded: f64
  voids: f64
  successes: f64
  harmed: f64
  lowest: f64
  highest: f64
  /** Three cells of the rewards' sum, five of their squares'. */
  sum0: f64
  sum1: f64
  sum2: f64
  square0: f64
  square1: f64
  square2: f64
  square3: f64
  square4: f64
  idLength: u32
  hashLength: u32
}

@unmanaged
class Slot {
  key: u32
  /** 0 where the slot is free. */
  pair: u32
}

export const pairSize: u32 = offsetof<Pair>()
export const rowSize: u32 = offsetof<Pair>("idLength") - offsetof<Pair>("graded")
const slotSize: u32 = offsetof<Slot>()

/** How many pairs there are. */
export let count: u32 = 0

/** Of all ids, the length of the longest and of what they begin with; of all texts, that of the longest. */
export let longestId: u32 = 0
export let sharedPrefix: u32 = 0
export let longestText: u32 = 0
let firstText: u32 = 0

/** Whether a task may be there twice, since it may be spelled in two ways or has two versions. */
export let mayRepeat: bool = false

/** Open addressing, never more than half full. */
let slots: u32 = 0
let mask: u32 = 4095

/** False where there is no memory. The seed decides where in the table a text is. */
export function begin(seed: u64): bool {
  const size = (mask + 1) * slotSize
  if (!makeRoom(size)) return false
  slots = take(size)
  let state = seed
  for (let at: u32 = 0; at < secretsSize; at += 8) {
    state += 0x9e3779b97f4a7c15
    store<u64>(secrets + at, mixed(mixed(state)))
  }
  return true
}

/** What has to be free, so that so many pairs with so many bytes of text in all can be learned, and then all be put in order. */
export function roomFor(more: u64, text: u64): u64 {
  let size = <u64>mask + 1
  let toPut: u64 = 0
  while ((count + more) * 2 > size) {
    size *= 2
    toPut += (size + pairSize) * slotSize
  }
  const toLearn = roomForTexts(more, text) + (more + 1) * pairSize
  const toOrder = (count + more + pairSize) * 32 + longestText + text + (1 << 17)
  return toPut + toLearn + toOrder
}

/** How many bytes of text so many pairs more may have in all. */
export function budget(more: u64): u32 {
  const needed = roomFor(more, 0)
  const free = freeBytes()
  // What a byte of text costs at most: four times itself, and once more to be put in order.
  return free > needed ? <u32>((free - needed) / 5) : 0
}

/** Random numbers that nobody outside knows, or ids could be chosen that all come to one place in the table. */
const secretsSize: u32 = 256
const secrets = <u32>memory.data(256, 8)

/**
 * NH of Black et al., "UMAC: Fast and Secure Message Authentication", 1999, eight bytes a step: whatever two texts of a length
 * are, few secrets give them the same number. Longer ones than the secrets are mixed in between.
 */
export function keyOf(start: u32, length: u32): u32 {
  const end = start + length
  let sum: u64 = length
  let secret: u32 = 0
  let at = start
  for (; at + 8 <= end; at += 8) {
    sum += product(load<u64>(at), load<u64>(secrets + secret))
    secret += 8
    if (secret === secretsSize) {
      sum = mixed(sum ^ load<u64>(secrets))
      secret = 0
    }
  }
  if (at < end) {
    sum += product(load<u64>(at) & (((<u64>1) << ((end - at) * 8)) - 1), load<u64>(secrets + secret))
  }
  return <u32>((sum * (load<u64>(secrets + secretsSize - 8) | 1)) >> 32)
}

function product(word: u64, secret: u64): u64 {
  return <u64>(<u32>word + <u32>secret) * <u64>(<u32>(word >> 32) + <u32>(secret >> 32))
}

function mixed(key: u64): u64 {
  const spread = key * 0xd6e8feb86659fd93
  return spread ^ (spread >> 32)
}

function slotAt(index: u32): Slot {
  return changetype<Slot>(slots + (index & mask) * slotSize)
}

/** The pair in the slot with that number, from 0; 0 where the slot is free. */
export function pairInSlot(index: u32): u32 {
  return slotAt(index).pair
}

/** The first pair that has this key; 0 where there is none. */
export function candidate(key: u32): u32 {
  let index = key
  while (slotAt(index).pair !== 0 && slotAt(index).key !== key) index++
  return slotAt(index).pair
}

/** Where the text of a pair is, if it has the lengths of what was found; 0 if not, or if there is no pair. */
export function textOf(place: u32, found: Found): u32 {
  if (place === 0) return 0
  const pair = changetype<Pair>(place)
  return pair.idLength === found.idLength && pair.hashLength === found.hashLength ? pair.text : 0
}

/** Whether a text of the right lengths has the right ends. */
export function isLikely(text: u32, found: Found): bool {
  if (text === 0 || found.idLength < 4 || found.hashLength < 4) return text !== 0
  const last = text + found.idLength + found.hashLength - 4
  return (
    load<u32>(text) === load<u32>(found.idStart) &&
    load<u32>(last) === load<u32>(found.hashStart + found.hashLength - 4)
  )
}

/** The pair of what was found, 0 where it is not known; that which is likely is tried first. */
export function find(found: Found): u32 {
  if (found.isLikely && isOf(found.pair, found)) return found.pair
  for (let index = found.key; slotAt(index).pair !== 0; index++) {
    const pair = slotAt(index).pair
    if (slotAt(index).key === found.key && isOf(pair, found)) return pair
  }
  return 0
}

/** Adds a pair that is not known, for which there has to be room, and gives it. */
export function learn(found: Found): u32 {
  if (count * 2 > mask) growSlots()
  const place = take(pairSize)
  const text = takeText(found.idLength + found.hashLength)
  const pair = changetype<Pair>(place)
  pair.text = text
  pair.isPlain = u32(found.isPlainId && found.isPlainHash)
  pair.lowest = Infinity
  pair.highest = -Infinity
  pair.idLength = found.idLength
  pair.hashLength = found.hashLength
  copy(text, found.idStart, found.idLength)
  copy(text + found.idLength, found.hashStart, found.hashLength)
  if (count++ === 0) {
    firstText = text
    sharedPrefix = found.idLength
  }
  longestId = max(longestId, found.idLength)
  longestText = max(longestText, found.idLength + found.hashLength)
  let shared: u32 = 0
  while (shared < sharedPrefix && shared < found.idLength && load<u8>(firstText + shared) === load<u8>(text + shared)) {
    shared++
  }
  sharedPrefix = shared
  if (pair.isPlain === 0) mayRepeat = true
  put(found.key, place)
  return place
}

function put(key: u32, pair: u32): void {
  let index = key
  while (slotAt(index).pair !== 0) {
    if (slotAt(index).key === key && !mayRepeat) mayRepeat = hasSameId(slotAt(index).pair, pair)
    index++
  }
  slotAt(index).key = key
  slotAt(index).pair = pair
}

function growSlots(): void {
  const before = slots
  const end = before + (mask + 1) * slotSize
  mask = mask * 2 + 1
  slots = take((mask + 1) * slotSize)
  for (let slot = before; slot < end; slot += slotSize) {
    const old = changetype<Slot>(slot)
    if (old.pair !== 0) put(old.key, old.pair)
  }
}

function isOf(place: u32, found: Found): bool {
  const pair = changetype<Pair>(place)
  return (
    pair.idLength === found.idLength &&
    pair.hashLength === found.hashLength &&
    isSame(pair.text, found.idStart, found.idLength) &&
    isSame(pair.text + found.idLength, found.hashStart, found.hashLength)
  )
}

function hasSameId(place: u32, other: u32): bool {
  const pair = changetype<Pair>(place)
  const length = pair.idLength
  return length === changetype<Pair>(other).idLength && isSame(pair.text, changetype<Pair>(other).text, length)
}

/** Up to 15 bytes behind both are read. */
function isSame(one: u32, other: u32, length: u32): bool {
  let at: u32 = 0
  for (; at + 16 <= length; at += 16) {
    if (v128.any_true(v128.xor(v128.load(one + at), v128.load(other + at)))) return false
  }
  const differs = v128.xor(v128.load(one + at), v128.load(other + at))
  return !v128.any_true(v128.and(differs, v128.load(masks + 16 + at - length)))
}

/** From 16 bytes less than n on, these count the first n of a block. */
const masks = <u32>(
  memory.data<u8>([
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0
  ])
)

/** Counts a rollout, and adds its reward where it has one. */
export function add(place: u32, found: Found): void {
  const pair = changetype<Pair>(place)
  if (found.isVoid) {
    pair.voids += 1
    return
  }
  const reward = found.reward
  pair.graded += 1
  if (found.success === 2) pair.successes += 1
  if (found.harm === 2) pair.harmed += 1
  if (reward < pair.lowest) pair.lowest = reward
  if (reward > pair.highest) pair.highest = reward
  if (reward === 0) return
  const square = reward * reward
  addToSum(place, reward)
  addToSquares(place, square)
  const error = productError(reward, reward, square)
  if (error !== 0) addToSquares(place, error)
}

/** What has no place in a pair's cells, seldom anything: it is still a part of the sum of the rewards, or of their squares. */
@unmanaged
class Leftover {
  value: f64
  pair: u32
  isOfSquares: u32
}

const leftoverSize: u32 = offsetof<Leftover>()
const mostLeftovers: u32 = 1024
export const leftovers = <u32>memory.data(16384, 8)
export let leftoverCount: u32 = 0

/** Whether there may be no room for those of so many more records. */
export function isFull(records: u32): bool {
  return leftoverCount + 3 * records > mostLeftovers
}

export function forgetLeftovers(): void {
  leftoverCount = 0
}

function keepLeftover(place: u32, isOfSquares: u32, value: f64): void {
  if (value === 0) return
  const leftover = changetype<Leftover>(leftovers + leftoverCount++ * leftoverSize)
  leftover.value = value
  leftover.pair = place
  leftover.isOfSquares = isOfSquares
}

function addToSum(place: u32, value: f64): void {
  keepLeftover(place, 0, grow(place + offsetof<Pair>("sum0"), place + offsetof<Pair>("square0"), value))
}

function addToSquares(place: u32, value: f64): void {
  keepLeftover(place, 1, grow(place + offsetof<Pair>("square0"), place + offsetof<Pair>("idLength"), value))
}

/**
 * Adds to the expansion in the cells from `from` to `to`, of which zeros are free, and gives what has no place there.
 * It is the `grow` of rewardSums.ts.
 */
function grow(from: u32, to: u32, value: f64): f64 {
  let carried = value
  let kept = from
  let at = from
  for (; at < to; at += 8) {
    const part = load<f64>(at)
    if (part === 0) break
    const total = carried + part
    const virtual = total - carried
    const error = carried - (total - virtual) + (part - virtual)
    if (error !== 0) {
      store<f64>(kept, error)
      kept += 8
    }
    carried = total
  }
  if (carried !== 0 && kept < to) {
    store<f64>(kept, carried)
    kept += 8
    carried = 0
  }
  for (; kept < at; kept += 8) store<f64>(kept, 0)
  return carried
}
