/** pass@k and pass^k against exact fractions, and against the Python client. */
import { readFileSync } from "node:fs"
import { assert, it } from "@effect/vitest"
import { passAtK, passHatK } from "@miroir-effect/core/PassAtK"
import * as FastCheck from "effect/FastCheck"

const vectors: ReadonlyArray<{
  readonly n: number
  readonly c: number
  readonly k: number
  readonly "pass@k": number | null
  readonly "pass^k": number | null
}> = JSON.parse(readFileSync(new URL("./vectors/pass-at-k.json", import.meta.url), "utf8"))

/** `(numerator - other) / denominator` by whole numbers, with 60 digits. */
const quotient = (numerator: bigint, denominator: bigint): number => {
  if (numerator === 0n) return 0
  const digits = BigInt(Math.max(0, denominator.toString().length - numerator.toString().length)) + 60n
  const scaled = ((numerator * 10n ** digits) / denominator).toString()
  return Number(`${scaled}e-${digits}`)
}

const choose = (n: number, k: number): bigint => {
  let product = 1n
  for (let i = 1; i <= k; i++) product = (product * BigInt(n - k + i)) / BigInt(i)
  return k > n ? 0n : product
}

const exact = (n: number, c: number, k: number) => {
  const all = choose(n, k)
  return { atK: quotient(all - choose(n - c, k), all), hatK: quotient(choose(c, k), all) }
}

const agree = (value: number | null, right: number, what: string) => {
  // Below the normal doubles digits are lost to any method.
  const tolerance = Math.max(1e-12 * right, 2 ** -1070)
  assert.isTrue(value !== null && Math.abs(value - right) <= tolerance, `${what}: ${value}, not ${right}`)
}

it("are the Python client's", () => {
  assert.isAbove(vectors.length, 10)
  for (const { c, k, n, "pass@k": atK, "pass^k": hatK } of vectors) {
    if (atK === null || hatK === null) {
      assert.deepStrictEqual([passAtK(n, c, k), passHatK(n, c, k)], [atK, hatK])
    } else {
      agree(passAtK(n, c, k), atK, `pass@k ${n} ${c} ${k}`)
      agree(passHatK(n, c, k), hatK, `pass^k ${n} ${c} ${k}`)
    }
  }
})

it("are right to 1e-12 of the exact value at any n", () => {
  const sizes = FastCheck.oneof(
    FastCheck.integer({ min: 1, max: 40 }),
    FastCheck.integer({ min: 180, max: 320 }),
    FastCheck.integer({ min: 1000, max: 1200 })
  )
  const cases = sizes.chain((n) =>
    FastCheck.tuple(
      FastCheck.constant(n),
      FastCheck.oneof(FastCheck.integer({ min: 0, max: n }), FastCheck.integer({ min: 0, max: Math.min(n, 5) })),
      FastCheck.oneof(FastCheck.integer({ min: 1, max: n }), FastCheck.integer({ min: 1, max: Math.min(n, 5) }))
    )
  )
  FastCheck.assert(
    FastCheck.property(cases, ([n, c, k]) => {
      const { atK, hatK } = exact(n, c, k)
      agree(passAtK(n, c, k), atK, `pass@k ${n} ${c} ${k}`)
      agree(passHatK(n, c, k), hatK, `pass^k ${n} ${c} ${k}`)
    }),
    { numRuns: 2000 }
  )
})

it("are right where n is 100,000 and more", () => {
  for (const [n, c, k] of [
    [100_000, 1, 1],
    [100_000, 1, 50_000],
    [100_000, 99_999, 2],
    [100_000, 50_000, 900],
    [100_000, 3, 99_990],
    [100_000, 99_990, 99_980],
    [100_000, 70_000, 1500],
    [1_000_000, 2, 3],
    [1_000_000, 999_000, 700]
  ] as const) {
    const { atK, hatK } = exact(n, c, k)
    agree(passAtK(n, c, k), atK, `pass@k ${n} ${c} ${k}`)
    agree(passHatK(n, c, k), hatK, `pass^k ${n} ${c} ${k}`)
  }
  // So many that a loop over all of them would not end.
  assert.strictEqual(passAtK(2 ** 50, 2 ** 49, 2 ** 48), 1)
  assert.strictEqual(passHatK(2 ** 50, 2 ** 49, 2 ** 48), 0)
})
