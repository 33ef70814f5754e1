/** Doubles as exact binary fractions, and back with one rounding. */

/** `mantissa * 2 ** exponent`, exactly. */
export interface Binary {
  readonly mantissa: bigint
  readonly exponent: number
}

/** The exponent of the last bit of the smallest double. */
export const smallestExponent = -1074

/** Of a finite double. */
export const toBinary = (value: number): Binary => {
  const magnitude = Math.abs(value)
  if (magnitude === 0) return { mantissa: 0n, exponent: 0 }
  // Powers of two that are doubles themselves take two steps at the ends of the range.
  if (magnitude < 2 ** -900) return shifted(toBinary(value * 2 ** 600), -600)
  // One more than the 53 bits, should the logarithm be rounded up.
  const exponent = Math.floor(Math.log2(magnitude)) - 53
  return { mantissa: BigInt(value * 2 ** -exponent), exponent }
}

const shifted = ({ exponent, mantissa }: Binary, by: number): Binary => ({ mantissa, exponent: exponent + by })

export const add = (one: Binary, other: Binary): Binary => {
  const exponent = Math.min(one.exponent, other.exponent)
  const aligned = (part: Binary): bigint => part.mantissa << BigInt(part.exponent - exponent)
  return { mantissa: aligned(one) + aligned(other), exponent }
}

/** The splitter of Dekker's product: a double's upper half comes out of a multiplication with it. */
const splitter = 2 ** 27 + 1

/** What rounding took from a product of two doubles, exactly where nothing over- or underflows (Dekker, 1971). */
export const productError = (one: number, other: number, product: number): number => {
  const split = splitter * one
  const high = split - (split - one)
  const low = one - high
  const otherSplit = splitter * other
  const otherHigh = otherSplit - (otherSplit - other)
  const otherLow = other - otherHigh
  return low * otherLow - (product - high * otherHigh - low * otherHigh - high * otherLow)
}

/** `(high + low) / divisor` rounded once, where `low` is much smaller than `high`; NaN where that is not certain. */
export const quotient = (high: number, low: number, divisor: number): number => {
  const rough = high / divisor
  const back = rough * divisor
  const correction = (high - back - productError(rough, divisor, back) + low) / divisor
  return certain(rough, correction)
}

/**
 * `high + low` rounded once, where `low` is much smaller than `high` and itself rounded; NaN in the seldom case that another
 * double could be the nearest if `low` were a little larger or smaller.
 */
export const certain = (high: number, low: number): number => {
  const value = high + low
  const taken = low - (value - high)
  return value + taken * (1 + 2 ** -12) === value ? value : Number.NaN
}

const bitLength = (value: bigint): number => {
  const hex = value.toString(16)
  return hex.length * 4 - (Math.clz32(Number.parseInt(hex.charAt(0), 16)) - 28)
}

/** The integer nearest to a quotient of positive integers, of two equally near ones the even. */
export const nearestInteger = (numerator: bigint, denominator: bigint): bigint => {
  const quotient = numerator / denominator
  const twice = (numerator - quotient * denominator) * 2n
  const isUp = twice > denominator || (twice === denominator && quotient % 2n === 1n)
  return isUp ? quotient + 1n : quotient
}

/**
 * The double nearest to `numerator / denominator * 2 ** exponent`, of two equally near ones the even; infinite where it is
 * beyond all doubles. The denominator is positive.
 */
export const nearest = (numerator: bigint, denominator: bigint, exponent = 0): number => {
  if (numerator === 0n) return 0
  if (numerator < 0n) return -nearest(-numerator, denominator, exponent)
  const scaled = (bits: number): readonly [bigint, bigint] =>
    bits >= 0 ? [numerator << BigInt(bits), denominator] : [numerator, denominator << BigInt(-bits)]
  // The quotient is at least 2 ** (magnitude - 1) and below 2 ** (magnitude + 1).
  const magnitude = bitLength(numerator) - bitLength(denominator)
  const [whole, unit] = scaled(-magnitude)
  const top = whole < unit ? magnitude - 1 : magnitude
  // A double has 53 bits, less near zero.
  const lastBit = Math.max(top + exponent - 52, smallestExponent)
  return Number(nearestInteger(...scaled(exponent - lastBit))) * 2 ** lastBit
}
