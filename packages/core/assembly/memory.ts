/**
 * The scanner's memory. What has a fixed size is laid out by the compiler; behind it are the two blocks that files are
 * read into, and behind those what grows with the tasks.
 */

/** What may be read behind the last line end of a block, whatever is there. */
export const slack: u32 = 128

/** Where the blocks are. */
export const blocks: u32 = (<u32>__heap_base + 63) & ~63

let top: u32 = 0

/** Behind it nothing was ever written. */
export function used(): u32 {
  return top
}

/** Makes two blocks of `size` bytes, with their slack. False where there is no memory. */
export function makeBlocks(size: u32): bool {
  top = blocks + 2 * (size + slack)
  return makeRoom(0)
}

/** How many bytes can be taken as it is. */
export function freeBytes(): u64 {
  return ((<u64>memory.size()) << 16) - slack - top
}

/**
 * Has the memory grow, if need be, until so many bytes can be taken. False where there is no more. To grow takes a millisecond,
 * and what is not touched takes no memory, so it is by half at least where that is possible.
 */
export function makeRoom(bytes: u64): bool {
  const have = <u64>memory.size()
  const pages = (<u64>top + bytes + slack + 0xffff) >> 16
  if (pages <= have) return true
  if (pages > mostPages) return false
  const ample = min(max(pages, have + have / 2), mostPages)
  return memory.grow(<i32>(ample - have)) >= 0 || memory.grow(<i32>(pages - have)) >= 0
}

/** An address has 32 bits, and that of the end has to be one too. */
const mostPages: u64 = 0xffff

/** Takes bytes that there is room for; they are zeros, and begin at a multiple of 128. */
export function take(bytes: u32): u32 {
  const place = (top + 127) & ~127
  top = place + bytes
  return place
}

/**
 * Texts are put into pieces of memory of this size. Each begins where one of the processor's lines of memory does, so that
 * one of up to 128 bytes is in two of them, which are looked at ahead of its use: its first and its last.
 */
const pieceSize: u32 = 1 << 16
const lineSize: u32 = 64
let textTop: u32 = 0
let textLimit: u32 = 0

/** What has to be free for so many texts with so many bytes in all: a piece may be left half empty. */
export function roomForTexts(count: u64, bytes: u64): u64 {
  return (count * lineSize + bytes) * 4 + 2 * (pieceSize + copySlack)
}

/** Takes bytes for a text that there is room for. */
export function takeText(bytes: u32): u32 {
  const size = (bytes + lineSize - 1) & ~(lineSize - 1)
  if (size > textLimit - textTop) {
    const piece = max(size, pieceSize)
    textTop = take(piece + copySlack)
    textLimit = textTop + piece
  }
  const place = textTop
  textTop += size
  return place
}

/** How many bytes more than it has to `copy` may write, and read. */
export const copySlack: u32 = 16

/** Copies bytes: many texts are short, and this lets the processor go on with the next while it waits for one. */
export function copy(to: u32, from: u32, bytes: u32): void {
  for (let at: u32 = 0; at < bytes; at += 16) v128.store(to + at, v128.load(from + at))
}
