/**
 * The sums of rewards and of their squares, kept exactly, so that records can be
 * tallied in any order and in pieces, with the same figures to the last digit.
 *
 * Each sum is an expansion: doubles whose exact sum it is. Shewchuk, "Adaptive
 * Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates", 1997;
 * Python's math.fsum does the same.
 */

import * as Binary from "./binary.js"

export interface RewardSums {
  readonly sum: ReadonlyArray<number>
  readonly squares: ReadonlyArray<number>
  /** The sum, in 2^-1074, of the extreme rewards, which are not in the others. */
  readonly extremeSum: bigint
  /** The sum, in 2^-2148, of their squares. */
  readonly extremeSquares: bigint
}

/** Between these a square and its rounding error neither over- nor underflow, nor do the sums of 2^100 of them. */
const least = 2 ** -480
const most = 2 ** 450

/** Too large or too small to be squared exactly with doubles. */
export const isExtreme = (reward: number): boolean => {
  const magnitude = Math.abs(reward)
  return magnitude > most || (magnitude < least && reward !== 0)
}

/**
 * Adds to the expansion in the cells from `from` to `to`, of which zeros are free, and gives what has no place there,
 * 0 as a rule: that is still a part of the sum.
 */
export const grow = (cells: Float64Array, from: number, to: number, value: number): number => {
  let carried = value
  let kept = from
  let at = from
  for (; at < to; at++) {
    const part = cells[at] ?? 0
    if (part === 0) break
    const total = carried + part
    const virtual = total - carried
    const error = carried - (total - virtual) + (part - virtual)
    if (error !== 0) cells[kept++] = error
    carried = total
  }
  if (carried !== 0 && kept < to) {
    cells[kept++] = carried
    carried = 0
  }
  for (; kept < at; kept++) cells[kept] = 0
  return carried
}

/** More parts than an expansion can have: they do not overlap, and all doubles span 2098 bits. */
const mostParts = 48

/** Of a task's sums, what has no place among the usual. */
export class Rest {
  readonly sum = new Float64Array(mostParts)
  readonly squares = new Float64Array(mostParts)
  extremeSum = 0n
  extremeSquares = 0n

  addToSum(value: number): void {
    grow(this.sum, 0, mostParts, value)
  }

  addToSquares(value: number): void {
    grow(this.squares, 0, mostParts, value)
  }

  addExtreme(reward: number): void {
    const { exponent, mantissa } = Binary.toBinary(reward)
    const fixed = mantissa << BigInt(exponent - Binary.smallestExponent)
    this.addExtremes({ extremeSum: fixed, extremeSquares: fixed * fixed })
  }

  addExtremes({ extremeSquares, extremeSum }: Pick<RewardSums, "extremeSum" | "extremeSquares">): void {
    this.extremeSum += extremeSum
    this.extremeSquares += extremeSquares
  }
}

/** The parts in the cells from `from` to `to`, and in others where there are any, without the zeros. */
export const parts = (cells: Float64Array, from: number, to: number, others?: Float64Array): ReadonlyArray<number> => {
  let end = from
  while (end < to && cells[end] !== 0) end++
  // Of the right size from the beginning: a push would make room for 17.
  const found = end === from ? none : new Array<number>(end - from)
  for (let at = from; at < end; at++) found[at - from] = cells[at] ?? 0
  return others === undefined ? found : [...found, ...parts(others, 0, others.length)]
}

/** Of a sum that is 0, as many are. */
const none: Array<number> = []

/** Doubles whose exact sum is what is meant, and which of them those are, from the first on; zeros behind them are free cells. */
type Cells = ArrayLike<number>

/** Where the last part of those from `from` to `to` is, or before `from`. */
const topAt = (cells: Cells, from: number, to: number): number => {
  let at = from
  while (at < to && cells[at] !== 0) at++
  return at - 1
}

/** The last part is all of a sum but its rounding error, as a rule; then the others' sum is, rounded, what it lacks. NaN where it is not. */
const rest = (cells: Cells, from: number, topAt: number): number => {
  let sum = 0
  for (let at = from; at < topAt; at++) sum += cells[at] ?? 0
  return Math.abs(sum) <= Math.abs(cells[topAt] ?? 0) * 2 ** -50 ? sum : Number.NaN
}

const exactly = (parts: ReadonlyArray<number>, extreme: bigint, unit: number): Binary.Binary => {
  const start = extreme === 0n ? { mantissa: 0n, exponent: 0 } : { mantissa: extreme, exponent: unit }
  return parts.map(Binary.toBinary).reduce(Binary.add, start)
}

/** The mean of `count` rewards whose sum is in the cells; NaN where more than doubles are needed. */
export const quickMean = (cells: Cells, from: number, to: number, count: number): number => {
  const top = topAt(cells, from, to)
  if (top < from) return 0
  // Two parts do not overlap: their sum is rounded correctly by the addition.
  if (top === from || top === from + 1) return ((top > from ? (cells[from] ?? 0) : 0) + (cells[top] ?? 0)) / count
  return Binary.certain(cells[top] ?? 0, rest(cells, from, top)) / count
}

/** The mean of `count` rewards: their sum, rounded, over their count, as Python's statistics.fmean has it. */
export const mean = (sums: RewardSums, count: number): number => {
  const quick = sums.extremeSum === 0n ? quickMean(sums.sum, 0, sums.sum.length, count) : Number.NaN
  if (Number.isFinite(quick)) return quick
  const { exponent, mantissa } = exactly(sums.sum, sums.extremeSum, Binary.smallestExponent)
  const rounded = Binary.nearest(mantissa, 1n, exponent)
  // A mean may well be a double where its sum is beyond all doubles.
  return Number.isFinite(rounded) ? rounded / count : Binary.nearest(mantissa, BigInt(count), exponent)
}

/** The population's variance, (n·Σx² - (Σx)²) / n², rounded once. */
export const variance = (sums: RewardSums, count: number): number => {
  const cells = [...sums.sum, ...sums.squares]
  const isQuick = sums.extremeSum === 0n && sums.extremeSquares === 0n
  const quick = isQuick ? quickVariance(cells, 0, sums.sum.length, cells.length, count) : Number.NaN
  if (!Number.isNaN(quick)) return quick
  const sum = exactly(sums.sum, sums.extremeSum, Binary.smallestExponent)
  const squares = exactly(sums.squares, sums.extremeSquares, 2 * Binary.smallestExponent)
  const n = BigInt(count)
  const { exponent, mantissa } = Binary.add(
    { mantissa: n * squares.mantissa, exponent: squares.exponent },
    { mantissa: -(sum.mantissa * sum.mantissa), exponent: 2 * sum.exponent }
  )
  return Binary.nearest(mantissa, n * n, exponent)
}

/** Between these no product of two doubles that the variance is made of over- or underflows. */
const leastQuick = 2 ** -400
const mostQuick = 2 ** 400

/**
 * The same with twice a double's precision, much faster; NaN where that is not enough. The sum is in the cells from `from`
 * to `squares`, that of the squares in those behind, to `to`.
 */
export const quickVariance = (cells: Cells, from: number, squares: number, to: number, count: number): number => {
  const squareAt = topAt(cells, squares, to)
  const square = squareAt < squares ? 0 : (cells[squareAt] ?? 0)
  if (count > 2 ** 26 || square < leastQuick || square > mostQuick) return Number.NaN
  const totalAt = topAt(cells, from, squares)
  const total = totalAt < from ? 0 : (cells[totalAt] ?? 0)
  const one = count * square
  const other = total * total
  const high = one - other
  const virtual = high - one
  const rounded = one - (high - virtual) - (other + virtual)
  const low =
    rounded +
    (Binary.productError(count, square, one) + count * rest(cells, squares, squareAt)) -
    (Binary.productError(total, total, other) + 2 * total * (totalAt < from ? 0 : rest(cells, from, totalAt)))
  // Where nearly all is cancelled, what is left has too few certain bits.
  return high > one * 2 ** -30 ? Binary.quotient(high, low, count * count) : Number.NaN
}
