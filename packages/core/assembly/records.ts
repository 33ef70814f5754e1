/**
 * Finds in a record what calibration needs. The answer is the address of its line end, or 0 for "not sure": whatever is
 * unusual (an escape in a key, a string as `success`, a fault) is left to the JSON parser, which has the last word.
 */

import { Found, Role } from "./found"
import * as Layouts from "./layouts"
import * as Values from "./values"

/** Of the record that begins at `start`; what it says is in `into`. */
export function behindRecord(start: u32, into: Found): u32 {
  for (let layout = Layouts.likeliest(); layout !== 0; layout = Layouts.another(layout)) {
    const end = behindKnown(layout, start, into)
    if (end !== 0) {
      Layouts.seen(layout)
      return end
    }
  }
  Layouts.noteNothing()
  const end = behindUnknown(start, into)
  if (end !== 0) Layouts.surprise(start, end)
  return end
}

/** Of one that is laid out like that. */
function behindKnown(layout: u32, start: u32, into: Found): u32 {
  const values = Layouts.valuesOf(layout)
  if (values === 0) return 0
  forget(into)
  let gap = Layouts.firstGap(layout)
  let at = Layouts.behindGap(gap, start)
  for (let value: u32 = 0; at !== 0 && value < values; value++) {
    at = behindRole(Layouts.roleOf(layout, value), at, into)
    if (at === 0) return 0
    gap = Layouts.nextGap(gap)
    at = Layouts.behindGap(gap, at)
  }
  return at !== 0 && load<u8>(at) === Values.lineEnd && isWhole(into) ? at : 0
}

function behindUnknown(start: u32, into: Found): u32 {
  forget(into)
  const open = Values.behindSpace(start)
  if (load<u8>(open) !== Values.openBrace) return 0
  const close = behindMembers(open, false, into)
  if (close === 0) return 0
  const end = Values.behindSpace(close)
  return load<u8>(end) === Values.lineEnd && isWhole(into) ? end : 0
}

function forget(into: Found): void {
  into.idStart = 0
  into.hasReward = false
  forgetMetadata(into)
}

function forgetMetadata(into: Found): void {
  into.hashStart = 0
  into.success = 0
  into.harm = 0
}

function isWhole(into: Found): bool {
  return into.idStart !== 0 && into.hashStart !== 0 && into.hasReward
}

/** Of an object that opens at `open`: the record, or its metadata. */
function behindMembers(open: u32, inMetadata: bool, into: Found): u32 {
  let at = Values.behindSpace(open + 1)
  if (load<u8>(at) === Values.closeBrace) return at + 1
  while (true) {
    if (load<u8>(at) !== Values.quote) return 0
    const key = at + 1
    at = Values.behindKey(key)
    if (at === 0) return 0
    const role = inMetadata ? roleInMetadata(key, at - 1 - key) : roleInRecord(key, at - 1 - key)
    at = Values.behindSpace(at)
    if (load<u8>(at) !== Values.colon) return 0
    at = Values.behindSpace(at + 1)
    if (role === Role.metadata && load<u8>(at) === Values.openBrace) {
      Layouts.noteMetadata()
      forgetMetadata(into)
      at = behindMembers(at, true, into)
    } else {
      const value = at
      at = behindRole(role, value, into)
      Layouts.noteValue(role, value, at)
    }
    if (at === 0) return 0
    at = Values.behindSpace(at)
    if (load<u8>(at) === Values.closeBrace) return at + 1
    if (load<u8>(at) !== Values.comma) return 0
    at = Values.behindSpace(at + 1)
  }
}

/** The keys as little-endian numbers of 8 bytes. */
const keyTaskId: u64 = 0x0064695f6b736174
const keyReward: u64 = 0x0000647261776572
const keyMetadata: u64 = 0x617461646174656d
const keyTaskHas: u64 = 0x7361685f6b736174
const keySuccess: u64 = 0x0073736563637573
const keyHarm: u64 = 0x000000006d726168

function roleInRecord(key: u32, length: u32): Role {
  const word = firstBytes(key, length)
  if (length === 7 && word === keyTaskId) return Role.taskId
  if (length === 6 && word === keyReward) return Role.reward
  return length === 8 && word === keyMetadata ? Role.metadata : Role.skipped
}

function roleInMetadata(key: u32, length: u32): Role {
  const word = firstBytes(key, length)
  if (length === 9 && word === keyTaskHas && load<u8>(key + 8) === 0x68) return Role.taskHash
  if (length === 7 && word === keySuccess) return Role.success
  return length === 4 && word === keyHarm ? Role.harm : Role.skipped
}

/** At most 8 of them. */
function firstBytes(start: u32, length: u32): u64 {
  const word = load<u64>(start)
  return length < 8 ? word & (((<u64>1) << (length * 8)) - 1) : word
}

/** Of a value; what its role asks for is set. Of equal keys the last wins, as in `JSON.parse`. */
function behindRole(role: Role, at: u32, into: Found): u32 {
  switch (role) {
    case Role.taskId: {
      into.idStart = 0
      const behind = Values.behindValue(at)
      if (load<u8>(at) === Values.quote) {
        into.idStart = at + 1
        into.idLength = behind - 2 - at
        into.isPlainId = Values.isAscii && !Values.hasEscapes
      }
      return behind
    }
    case Role.taskHash: {
      into.hashStart = 0
      const behind = Values.behindValue(at)
      if (load<u8>(at) === Values.quote) {
        into.hashStart = at + 1
        into.hashLength = behind - 2 - at
        into.isPlainHash = Values.isAscii && !Values.hasEscapes
      }
      return behind
    }
    case Role.reward: {
      into.hasReward = true
      into.isVoid = Values.isNull(at)
      if (into.isVoid) return at + 4
      const behind = Values.behindNumber(at)
      into.reward = Values.number
      return behind
    }
    case Role.success: {
      const behind = Values.behindTruth(at)
      into.success = Values.truth
      return behind
    }
    case Role.harm: {
      const behind = Values.behindTruth(at)
      into.harm = Values.truth
      return behind
    }
    case Role.metadata: {
      forgetMetadata(into)
      return Values.behindValue(at)
    }
    default:
      return Values.behindValue(at)
  }
}
