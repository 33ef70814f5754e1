/**
 * How a record is laid out: what is between its values, which is keys, brackets and
 * spaces. The records of one writer have it in common to the byte, and to compare
 * it is several times as fast as to read it key by key.
 */

import type { Memory } from "./traceScan.js"

/** What a value of a record, or of its metadata, is to calibration. */
export type Role = "taskId" | "reward" | "metadata" | "taskHash" | "success" | "harm" | "skipped"

/** Use: while a record is read, `begin`, and `note` its values; `learn` makes its layout the one that others are held against. */
export class RecordLayout {
  /** How many values there are, 0 before a layout is learned; there is a gap before each, and one behind the last. */
  values = 0
  private roles: ReadonlyArray<Role> = []
  /** Four values a gap: where its words begin, where the last of them is, which bits of that count, how many bytes it has. */
  private gaps = new Int32Array(0)
  /** The gaps' bytes, four in a word. */
  private words = new Int32Array(0)

  private readonly notedRoles: Array<Role> = []
  private readonly notedPlaces: Array<number> = []
  private noted = 0
  private notedMetadata = 0

  roleOf(value: number): Role {
    return this.roles[value] ?? "skipped"
  }

  /** The index behind a gap, if that is what is at `start`, or -1. Up to 3 bytes behind it are read. */
  behindGap(view: DataView, gap: number, start: number): number {
    const { gaps, words } = this
    const row = gap * 4
    const last = gaps[row + 1] ?? 0
    let at = start
    for (let word = gaps[row] ?? 0; word < last; word++, at += 4) {
      if (view.getInt32(at, true) !== words[word]) return -1
    }
    const differs = (view.getInt32(at, true) ^ (words[last] ?? 0)) & (gaps[row + 2] ?? 0)
    return differs === 0 ? start + (gaps[row + 3] ?? 0) : -1
  }

  begin(): void {
    this.noted = 0
    this.notedMetadata = 0
  }

  note(role: Role, start: number, end: number): void {
    this.notedRoles[this.noted] = role
    this.notedPlaces[2 * this.noted] = start
    this.notedPlaces[2 * this.noted + 1] = end
    this.noted++
  }

  /** Notes that the values that come are of the metadata, or are behind it. */
  noteMetadata(): void {
    this.notedMetadata++
  }

  /** Whether the layout of the line from `start` to `end` can be told by its gaps; then it is learned. */
  learn({ bytes }: Memory, start: number, end: number): boolean {
    // The second `metadata` would have to make us forget the first, and the gaps do not tell that it came.
    if (this.notedMetadata !== 1) return false
    const words: Array<number> = []
    const gaps: Array<number> = []
    for (let gap = 0; gap <= this.noted; gap++) {
      const from = gap === 0 ? start : (this.notedPlaces[2 * gap - 1] ?? 0)
      const to = gap === this.noted ? end : (this.notedPlaces[2 * gap] ?? 0)
      const begin = words.length
      for (let at = from; at < to; at += 4) words.push(bytes.readInt32LE(at))
      gaps.push(begin, words.length - 1, -1 >>> (8 * (3 - ((to - from - 1) % 4))), to - from)
    }
    this.roles = this.notedRoles.slice(0, this.noted)
    this.words = Int32Array.from(words)
    this.gaps = Int32Array.from(gaps)
    this.values = this.noted
    return true
  }
}
