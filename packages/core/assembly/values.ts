/**
 * JSON values in bytes. Each function takes the address where a value begins and gives the one behind it, or 0 where it
 * is not certain what is there. None reads on behind the line end that has to be somewhere behind the value, except
 * for the slack.
 */

export const lineEnd: u32 = 0x0a
export const quote: u32 = 0x22
const backslash: u32 = 0x5c
export const openBrace: u32 = 0x7b
export const closeBrace: u32 = 0x7d
export const colon: u32 = 0x3a
export const comma: u32 = 0x2c
const openBracket: u32 = 0x5b

/** `null`, `true` and the beginning of `false` as little-endian numbers. */
const wordNull: u32 = 0x6c6c756e
const wordTrue: u32 = 0x65757274
const wordFals: u32 = 0x736c6166

export function isNull(at: u32): bool {
  return load<u32>(at) === wordNull
}

export function behindSpace(start: u32): u32 {
  let at = start
  while (load<u8>(at) === 0x20 || load<u8>(at) === 0x09 || load<u8>(at) === 0x0d) at++
  return at
}

/** Whether the string that was read last is ASCII, and whether it has escapes. */
export let isAscii: bool = false
export let hasEscapes: bool = false

/** Of the string whose content begins at `start`. A control character in it is for the parser. */
export function behindString(start: u32): u32 {
  let at = start
  let high: u32 = 0
  hasEscapes = false
  while (true) {
    const bytes = v128.load(at)
    const hits = i8x16.bitmask(
      v128.or(
        v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c))),
        i8x16.lt_u(bytes, i8x16.splat(0x20))
      )
    )
    if (hits === 0) {
      high |= i8x16.bitmask(bytes)
      at += 16
      continue
    }
    const plain = ctz(hits)
    high |= i8x16.bitmask(bytes) & ((1 << plain) - 1)
    at += plain
    const byte = <u32>load<u8>(at)
    if (byte === quote) {
      isAscii = high === 0
      return at + 1
    }
    if (byte !== backslash || load<u8>(at + 1) < 0x20) return 0
    hasEscapes = true
    // The escaped byte may be beyond ASCII; then it is no JSON, and the parser is to say so where it matters.
    at += 2
  }
}

/** Of a key whose content begins at `start`; one with escapes is for the parser. */
export function behindKey(start: u32): u32 {
  const behind = behindString(start)
  return behind !== 0 && !hasEscapes && (isAscii || isUtf8(start, behind - 1)) ? behind : 0
}

/** Whether the bytes between are UTF-8; a quote is behind them. */
function isUtf8(start: u32, end: u32): bool {
  let at = start
  while (at < end) {
    const first = <u32>load<u8>(at++)
    if (first < 0x80) continue
    if (first < 0xc2 || first > 0xf4) return false
    // Neither in more bytes than need be, nor half of a pair, nor beyond U+10FFFF.
    const least: u32 = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
    const most: u32 = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
    const second = <u32>load<u8>(at++)
    if (second < least || second > most) return false
    if (first >= 0xe0 && (load<u8>(at++) & 0xc0) !== 0x80) return false
    if (first >= 0xf0 && (load<u8>(at++) & 0xc0) !== 0x80) return false
  }
  return true
}

/** The closing brackets that are due. */
const mostNested: u32 = 4096
const due = memory.data(4096)

/** Bit by bit, whether the number of bits up to it is odd: what is between quotes. */
function oddUpTo(bits: u64): u64 {
  let odd = bits
  odd ^= odd << 1
  odd ^= odd << 2
  odd ^= odd << 4
  odd ^= odd << 8
  odd ^= odd << 16
  return odd ^ (odd << 32)
}

const evenBits: u64 = 0x5555555555555555

function equal(one: v128, two: v128, three: v128, four: v128, byte: i8): u64 {
  const all = i8x16.splat(byte)
  return bits(i8x16.eq(one, all), i8x16.eq(two, all), i8x16.eq(three, all), i8x16.eq(four, all))
}

function below(one: v128, two: v128, three: v128, four: v128, byte: i8): u64 {
  const all = i8x16.splat(byte)
  return bits(i8x16.lt_u(one, all), i8x16.lt_u(two, all), i8x16.lt_u(three, all), i8x16.lt_u(four, all))
}

function bits(one: v128, two: v128, three: v128, four: v128): u64 {
  return (
    <u64>i8x16.bitmask(one) |
    ((<u64>i8x16.bitmask(two)) << 16) |
    ((<u64>i8x16.bitmask(three)) << 32) |
    ((<u64>i8x16.bitmask(four)) << 48)
  )
}

/**
 * Of the object or array that begins at `start`, 64 bytes at a time, bit by bit. Which characters are escaped is told as
 * in Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019.
 */
export function behindNested(start: u32): u32 {
  let depth: u32 = 0
  /** Whether the first byte is escaped, and whether it is within a string (then all bits are set). */
  let escapedNext: u64 = 0
  let within: u64 = 0
  let at = start
  while (true) {
    const one = v128.load(at)
    const two = v128.load(at, 16)
    const three = v128.load(at, 32)
    const four = v128.load(at, 48)
    const quotes0 = equal(one, two, three, four, 0x22)
    const backslashes = equal(one, two, three, four, 0x5c)
    const controls = below(one, two, three, four, 0x20)
    // An opening bracket and an opening brace differ in one bit only, and so do the closing ones.
    const bit5 = i8x16.splat(0x20)
    const folded1 = v128.or(one, bit5)
    const folded2 = v128.or(two, bit5)
    const folded3 = v128.or(three, bit5)
    const folded4 = v128.or(four, bit5)
    const brackets = equal(folded1, folded2, folded3, folded4, 0x7b) | equal(folded1, folded2, folded3, folded4, 0x7d)
    let quotes = quotes0
    if ((backslashes | escapedNext) !== 0) {
      const escaping = backslashes & ~escapedNext
      const follows = (escaping << 1) | escapedNext
      const oddStarts = escaping & ~evenBits & ~follows
      const carried = oddStarts + escaping
      escapedNext = carried < oddStarts ? 1 : 0
      quotes &= ~((evenBits ^ (carried << 1)) & follows)
    }
    const strings = oddUpTo(quotes) ^ within
    within = <u64>(<i64>strings >> 63)
    // A backslash outside of strings is a fault, which may have hidden a quote; it closes nothing.
    let rest = ((brackets | backslashes) & ~strings) | controls
    while (rest !== 0) {
      const bit = <u32>ctz(rest)
      rest &= rest - 1
      const byte = <u32>load<u8>(at + bit)
      if (byte === openBrace || byte === openBracket) {
        if (depth === mostNested) return 0
        // In ASCII a closing bracket of either kind stands two behind its opening one.
        store<u8>(due + depth++, <u8>(byte + 2))
      } else if (byte >= 0x20) {
        if (load<u8>(due + --depth) !== byte) return 0
        if (depth === 0) return at + bit + 1
      } else if ((byte !== 0x09 && byte !== 0x0d) || ((strings >> bit) & 1) !== 0) {
        return 0
      }
    }
    at += 64
  }
}

/** Of any value. */
export function behindValue(start: u32): u32 {
  const first = <u32>load<u8>(start)
  if (first === quote) return behindString(start + 1)
  if (first === openBrace || first === openBracket) return behindNested(start)
  let at = start
  while (!endsScalar(load<u8>(at))) at++
  return at === start ? 0 : at
}

function endsScalar(byte: u32): bool {
  const folded = byte | 0x20
  return (
    byte <= 0x20 || byte === comma || byte === colon || byte === quote || folded === openBrace || folded === closeBrace
  )
}

/** What the literal or number that was read last is to Python: 0 for null, 1 for what is false, 2 for what is true. */
export let truth: u32 = 0

/** Of a literal or number. */
export function behindTruth(at: u32): u32 {
  const word = load<u32>(at)
  if (word === wordTrue) {
    truth = 2
    return at + 4
  }
  if (word === wordFals && load<u8>(at + 4) === 0x65) {
    truth = 1
    return at + 5
  }
  if (word === wordNull) {
    truth = 0
    return at + 4
  }
  const behind = behindNumber(at)
  truth = number === 0 ? 1 : 2
  return behind
}

/** The number that was read last. */
export let number: f64 = 0

/** Powers of ten that are exact in a double. */
const mostTen: i32 = 22
const tenTo = memory.data<f64>([
  1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
  1e21, 1e22
])

/** So many digits are an exact double. */
const shortDigits: u32 = 15

/** Of a number of at most 22 digits, of which at most 22 are behind the point, its exponent applied. */
export function behindNumber(start: u32): u32 {
  const isNegative = load<u8>(start) === 0x2d
  let at = start + u32(isNegative)
  const whole = at
  let digits: u32 = 0
  let decimals: i32 = 0
  /** The first digits, and those behind them, of which `scale` says how many there are. */
  let high: u64 = 0
  let low: u64 = 0
  let scale: f64 = 1
  let isBehindPoint = false
  while (true) {
    const byte = <u32>load<u8>(at)
    const digit = byte - 0x30
    if (digit <= 9) {
      if (++digits <= shortDigits) {
        high = high * 10 + digit
      } else {
        low = low * 10 + digit
        scale *= 10
      }
      if (isBehindPoint) decimals++
    } else if (byte === 0x2e && !isBehindPoint) {
      if (digits === 0) return 0
      isBehindPoint = true
    } else {
      break
    }
    at++
  }
  if (digits === 0 || digits > <u32>mostTen || (isBehindPoint && decimals === 0)) return 0
  // A zero in front of another digit.
  if (load<u8>(whole) === 0x30 && load<u8>(whole + 1) - 0x30 <= 9) return 0
  if ((load<u8>(at) | 0x20) === 0x65) {
    at++
    const sign = <u32>load<u8>(at)
    if (sign === 0x2d || sign === 0x2b) at++
    const first = at
    let exponent: i32 = 0
    while (<u32>load<u8>(at) - 0x30 <= 9 && at - first < 4) exponent = exponent * 10 + (<i32>load<u8>(at++) - 0x30)
    if (at === first || at - first === 4) return 0
    decimals += sign === 0x2d ? exponent : -exponent
  }
  if (decimals < 0 || decimals > mostTen) return 0
  const ten = load<f64>(tenTo + (decimals << 3))
  const magnitude = digits <= shortDigits ? <f64>high / ten : quotient(<f64>high, <f64>low, scale, ten)
  // Not certain which double is the nearest.
  if (magnitude !== magnitude) return 0
  // Zeros have one sign here, so that it does not matter which came first.
  number = isNegative ? 0 - magnitude : magnitude
  return at
}

const certainty: f64 = 1 / <f64>((<u64>1) << 40)

/** `(high * scale + low) / ten` rounded once; NaN where it is not certain how. */
function quotient(high: f64, low: f64, scale: f64, ten: f64): f64 {
  const product = high * scale
  const sum = product + low
  const rest = low - (sum - product) + productError(high, scale, product)
  const rough = sum / ten
  const back = rough * ten
  const correction = (sum - back - productError(rough, ten, back) + rest) / ten
  const value = rough + correction
  const taken = correction - (value - rough)
  // The correction is itself rounded, to some 50 bits: with a little more of it the sum has to be the same.
  return value + taken * (1 + certainty) === value ? value : NaN
}

/** The splitter of Dekker's product: a double's upper half comes out of a multiplication with it. */
const splitter: f64 = 134217729

/** What rounding took from a product of two doubles, exactly where nothing over- or underflows (Dekker, 1971). */
export function productError(one: f64, other: f64, product: f64): f64 {
  const split = splitter * one
  const high = split - (split - one)
  const low = one - high
  const otherSplit = splitter * other
  const otherHigh = otherSplit - (otherSplit - other)
  const otherLow = other - otherHigh
  return low * otherLow - (product - high * otherHigh - low * otherHigh - high * otherLow)
}
