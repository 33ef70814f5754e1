/**
 * How records are laid out. Those of one writer differ in their values only: what is between these is the same to the
 * byte. A layout is the bytes of all gaps and the roles of the values between them, so that the next record can be held
 * against it instead of being read key by key. Some writers have a few layouts.
 */

import { Role } from "./found"

/** Behind its head are the values' roles, then the gaps. */
@unmanaged
class Layout {
  /** How many values there are, 0 before it is learned; there is a gap before each, and one behind the last. */
  values: u32
}

/** Behind its head are whole blocks of 16 bytes, a last block, and which of its bits count. */
@unmanaged
class Gap {
  blocks: u32
  length: u32
}

const mostValues: u32 = 64
const rolesAt: u32 = 16
const gapsAt: u32 = rolesAt + mostValues
const gapHead: u32 = 16

/** Of each layout in bytes; what does not fit is not learned. */
const layoutSize: u32 = 8192
const layouts = <u32>memory.data(4 * 8192, 16)
const layoutsEnd: u32 = layouts + 4 * layoutSize

/** The one of the last record, which is tried first. */
let latest: u32 = layouts
/** The one that is learned next. */
let next: u32 = layouts
/** How many records in a row were laid out otherwise; there is no layout yet. */
let surprises: u32 = 1

/** What of the record that is read key by key is noted: the roles of its values, and the two addresses of each. */
const roles = <u32>memory.data(64)
const places = <u32>memory.data(512)
let noted: u32 = 0
let notedMetadata: u32 = 0

/** The layout to be tried first. */
export function likeliest(): u32 {
  return latest
}

/** The one to be tried behind `layout`, 0 where there is no other. */
export function another(layout: u32): u32 {
  let following = layout === latest ? layouts : layout + layoutSize
  if (following === latest) following += layoutSize
  return following < layoutsEnd ? following : 0
}

export function valuesOf(layout: u32): u32 {
  return changetype<Layout>(layout).values
}

export function roleOf(layout: u32, value: u32): Role {
  return <Role>load<u8>(layout + rolesAt + value)
}

export function firstGap(layout: u32): u32 {
  return layout + gapsAt
}

export function nextGap(gap: u32): u32 {
  return gap + gapHead + (changetype<Gap>(gap).blocks + 2) * 16
}

/** The address behind a gap, if that is what is at `start`, or 0. */
export function behindGap(gap: u32, start: u32): u32 {
  let expected = gap + gapHead
  let at = start
  for (let left = changetype<Gap>(gap).blocks; left !== 0; left--) {
    if (v128.any_true(v128.xor(v128.load(at), v128.load(expected)))) return 0
    expected += 16
    at += 16
  }
  const differs = v128.and(v128.xor(v128.load(at), v128.load(expected)), v128.load(expected, 16))
  return v128.any_true(differs) ? 0 : start + changetype<Gap>(gap).length
}

/** A record was laid out like that. */
export function seen(layout: u32): void {
  surprises = 0
  latest = layout
}

export function noteNothing(): void {
  noted = 0
  notedMetadata = 0
}

export function noteValue(role: Role, start: u32, end: u32): void {
  if (noted < mostValues) {
    store<u8>(roles + noted, <u8>role)
    store<u32>(places + noted * 8, start)
    store<u32>(places + noted * 8, end, 4)
  }
  noted++
}

/** The values that come are of the metadata, or are behind it. */
export function noteMetadata(): void {
  notedMetadata++
}

/** The record from `start` to `end`, whose values were noted, was laid out like none: is that so again, it is learned. */
export function surprise(start: u32, end: u32): void {
  // One odd record among the others does not change what is expected.
  if (++surprises < 2 || !learn(next, start, end)) return
  latest = next
  next = next + layoutSize < layoutsEnd ? next + layoutSize : layouts
}

function learn(layout: u32, start: u32, end: u32): bool {
  // A second `metadata` would have to make us forget the first, and the gaps do not tell that it came.
  if (noted > mostValues || notedMetadata !== 1) return false
  let size = gapsAt
  for (let value: u32 = 0; value <= noted; value++) size += gapHead + 32 + (gapLength(value, start, end) & ~15)
  if (size > layoutSize) return false
  changetype<Layout>(layout).values = noted
  memory.copy(layout + rolesAt, roles, noted)
  let gap = firstGap(layout)
  for (let value: u32 = 0; value <= noted; value++) {
    const length = gapLength(value, start, end)
    const blocks = length / 16
    changetype<Gap>(gap).blocks = blocks
    changetype<Gap>(gap).length = length
    const content = gap + gapHead
    memory.fill(content, 0, (blocks + 2) * 16)
    memory.copy(content, gapStart(value, start), length)
    memory.fill(content + (blocks + 1) * 16, 0xff, length % 16)
    gap = nextGap(gap)
  }
  return true
}

function gapStart(value: u32, start: u32): u32 {
  return value === 0 ? start : load<u32>(places + (value - 1) * 8, 4)
}

function gapLength(value: u32, start: u32, end: u32): u32 {
  return (value === noted ? end : load<u32>(places + value * 8)) - gapStart(value, start)
}
