/**
 * pass@k and pass^k: of n rollouts of which c succeeded, the chance that of k drawn
 * without replacement at least one succeeded, or that all did.
 *
 *     pass@k = 1 - C(n-c,k) / C(n,k)        pass^k = C(c,k) / C(n,k)
 *
 * Right to 1e-12 of the exact value at any n and k. (Factorials, or C(n,k) as
 * doubles, turn NaN near n = 200 and 1100.)
 *
 * pass@k: Chen et al., "Evaluating Large Language Models Trained on Code", 2021;
 * pass^k: Yao et al., "τ-bench", 2024.
 *
 * @since 0.1.0
 */

import * as Binary from "./internal/binary.js"

/**
 * The chance that at least one of k rollouts succeeded; null where n < k.
 *
 * `n` and `c` are whole numbers with 0 <= c <= n, `k` is one of at least 1.
 *
 * @since 0.1.0
 * @category figures
 */
export const passAtK = (n: number, c: number, k: number): number | null => {
  if (n < k) return null
  if (c === 0) return 0
  if (k > n - c) return 1
  if (n > largestExact) return -Math.expm1(logRatio(n, c, k))
  const [numerator, denominator] = ratio(n, c, k)
  return Binary.nearest(denominator - numerator, denominator)
}

/**
 * The chance that all of k rollouts succeeded; null where n < k.
 *
 * `n` and `c` are whole numbers with 0 <= c <= n, `k` is one of at least 1.
 *
 * @since 0.1.0
 * @category figures
 */
export const passHatK = (n: number, c: number, k: number): number | null => {
  if (n < k) return null
  if (k > c) return 0
  if (c === n) return 1
  if (n > largestExact) return Math.exp(logRatio(n, n - c, k))
  const [numerator, denominator] = ratio(n, n - c, k)
  return Binary.nearest(numerator, denominator)
}

/** Up to this n the exact fraction is cheap. */
const largestExact = 300

/**
 * C(n-d,k) / C(n,k) with d + k <= n, as a fraction. It is symmetric in d and k, and the product of 1 - max(d,k)/i over
 * the min(d,k) whole numbers i that end at n.
 */
const ratio = (n: number, d: number, k: number): readonly [bigint, bigint] => {
  const more = Math.max(d, k)
  let numerator = 1n
  let denominator = 1n
  for (let i = n - Math.min(d, k) + 1; i <= n; i++) {
    numerator *= BigInt(i - more)
    denominator *= BigInt(i)
  }
  return [numerator, denominator]
}

/** The logarithm of `ratio`, summed with Neumaier's compensation. */
const logRatio = (n: number, d: number, k: number): number => {
  const more = Math.max(d, k)
  let sum = 0
  let lost = 0
  for (let i = n - Math.min(d, k) + 1; i <= n; i++) {
    // Near 0 log1p keeps the digits, near -1 the quotient of whole numbers does.
    const term = 2 * more < i ? Math.log1p(-more / i) : Math.log((i - more) / i)
    const total = sum + term
    lost += Math.abs(sum) >= Math.abs(term) ? sum - total + term : term - total + sum
    sum = total
    // What comes cannot raise it: the ratio is 0 to a double. The terms shrink, so this is soon or never.
    if (sum < -800) break
  }
  return sum + lost
}
