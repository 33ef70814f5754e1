/** The scanner that skips what calibration does not need, against the JSON parser. */
import { isUtf8 } from "node:buffer"
import { assert, it, vi } from "@effect/vitest"
import * as Calibration from "@miroir-effect/core/Calibration"
import * as EpisodeRecord from "@miroir-effect/core/EpisodeRecord"
import * as Outcome from "@miroir-effect/core/Outcome"
import * as Tally from "@miroir-effect/core/Tally"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { figuresOf } from "../src/internal/mutableTally.js"
import { RecordDecoder, TallyDecoder } from "../src/internal/traceDecoders.js"
import { type LineDecoder, type LineFault, TraceLines } from "../src/internal/traceLines.js"
import { TraceScanners } from "../src/internal/traceScanner.js"

const size = 1 << 20
const scanners = new TraceScanners()
const seed = [1, 2] as const

interface Decoded {
  readonly fault: LineFault | undefined
  readonly tally: Tally.Tally
  readonly notFinite: number
}

/** By way of the scanner; what is in the memory behind the lines must not matter. */
const decoded = (lines: ReadonlyArray<Buffer>): Decoded => {
  const bytes = Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")]))
  const scanner = scanners.make(size, seed) ?? assert.fail("no scanner")
  const decoder = new TallyDecoder(scanner)
  const whole = new TraceLines(decoder)
  let fault: LineFault | undefined
  for (let at = 0; at < bytes.length && fault === undefined; ) {
    const room = whole.room()
    const count = Math.min(room.length, bytes.length - at)
    room.set(bytes.subarray(at, at + count))
    room.fill(0x22, count, Math.min(count + 1000, room.length))
    at += count
    whole.took(count)
    fault = whole.decode([])
  }
  const { notFinite } = decoder
  const tally = decoder.result()
  scanners.release(scanner)
  return { fault, tally, notFinite }
}

/** A tally but for the parts of its sums, which depend on the order of the records where their sum does not. */
const told = (task: Tally.TaskTally | undefined) => {
  if (task === undefined) return undefined
  const { rewards, ...rest } = task
  return { ...rest, ...figuresOf(task) }
}

/** Whether the scanner takes all of the lines. */
const takes = (lines: ReadonlyArray<Buffer>, from = scanners): boolean => {
  const scanner = from.make(size, seed) ?? assert.fail("no scanner")
  const bytes = Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")]))
  scanner.makeRoom(bytes.length)
  bytes.copy(scanner.blocks[0].bytes)
  const end = scanner.scan(scanner.blocks[0], 0, bytes.length)
  from.release(scanner)
  return end === bytes.length
}

type Verdict = { readonly outcome: Outcome.Outcome; readonly notFinite: number } | { readonly isJson: boolean }

/** By way of the scanner. */
const scanned = (line: Buffer): Verdict => {
  const { fault, notFinite, tally } = decoded([line])
  if (fault !== undefined) return { isJson: fault.isJson }
  // A blank line.
  if (tally.tasks.size === 0) return { isJson: false }
  const [[taskId, task] = assert.fail("no task")] = tally.tasks
  const { graded, harmed, highestReward, successes, taskHashes } = task
  // A void rollout does not tell how it ended.
  const success = graded === 0 ? false : successes === 1
  const outcome = {
    taskId,
    taskHash: taskHashes[0] ?? "",
    reward: graded === 0 ? null : highestReward,
    success: tally.tellsSuccess ? success : null,
    harm: harmed === 1
  }
  return { outcome, notFinite }
}

/** By way of the parser. */
const parsed = (line: Buffer): Verdict => {
  if (!isUtf8(line)) return { isJson: false }
  const text = line.toString("utf8")
  const record = EpisodeRecord.EpisodeRecord.fromText(text)
  if (Either.isLeft(record))
    return {
      isJson:
        record.left.startsWith("it has no ") || record.left.startsWith("its ") || record.left === "it is no JSON object"
    }
  const outcome = Outcome.fromRecord(record.right)
  if (Either.isLeft(outcome)) return { isJson: true }
  const { harm, reward, success } = outcome.right
  const graded = reward !== null
  return {
    outcome: {
      ...outcome.right,
      reward: reward === null ? null : reward + 0,
      success: success === null ? null : graded && success,
      harm: graded && harm
    },
    notFinite: !graded && record.right.value.reward !== null ? 1 : 0
  }
}

/**
 * The line with `null` for each value that is not needed (a needed one comes again behind it, or its key is another),
 * if its strings end and its brackets balance.
 */
const withoutSkipped = (line: Buffer): Buffer | undefined => {
  const text = line.toString("latin1")
  const needed = [
    ["task_id", "reward", "metadata"],
    ["task_hash", "success", "harm"]
  ]
  const value = (from: number): number => {
    const due: Array<string> = []
    let at = from
    do {
      const char = text.charAt(at)
      if (char === "") return -1
      if (char === '"') {
        const string = /"(?:[^"\\]|\\.)*"/sy
        string.lastIndex = at
        if (!string.test(text)) return -1
        at = string.lastIndex
      } else if (char === "{" || char === "[") {
        due.push(char === "{" ? "}" : "]")
        at++
      } else if (char === "}" || char === "]") {
        if (due.pop() !== char) return -1
        at++
      } else if (due.length > 0) {
        at++
      } else {
        while (/[^\u0000- ,:"{}[\]]/.test(text.charAt(at))) at++
      }
    } while (due.length > 0)
    return at === from ? -1 : at
  }
  const object = (from: number, level: number): { readonly out: string; readonly at: number } | undefined => {
    let out = ""
    let at = from
    const last = new Map<string, { readonly at: number; readonly text: string }>()
    const done = () => ({
      out: Array.from(last.values())
        .sort((one, other) => other.at - one.at)
        .reduce((text, kept) => text.slice(0, kept.at) + kept.text + text.slice(kept.at + 4), out),
      at
    })
    const copy = (pattern: RegExp) => {
      const sticky = new RegExp(pattern, "y")
      sticky.lastIndex = at
      const found = sticky.exec(text)?.[0]
      if (found === undefined) return undefined
      out += found
      at += found.length
      return found
    }
    if (copy(/[ \t\r]*\{[ \t\r]*/) === undefined) return undefined
    if (copy(/\}/) !== undefined) return done()
    for (;;) {
      const key = copy(/"(?:[^"\\]|\\.)*"/)
      if (key === undefined || copy(/[ \t\r]*:[ \t\r]*/) === undefined) return undefined
      let name: string
      try {
        name = JSON.parse(key)
      } catch {
        return undefined
      }
      if (level === 0 && name === "metadata" && text.charAt(at) === "{") {
        const inner = object(at, 1)
        if (inner === undefined) return undefined
        last.set(name, { at: out.length, text: inner.out })
        at = inner.at
      } else {
        const end = value(at)
        if (end < 0) return undefined
        if (needed[level]?.includes(name) === true) last.set(name, { at: out.length, text: text.slice(at, end) })
        at = end
      }
      out += "null"
      if (copy(/[ \t\r]*\}/) !== undefined) return done()
      if (copy(/[ \t\r]*,[ \t\r]*/) === undefined) return undefined
    }
  }
  const whole = object(0, 0)
  return whole === undefined || /[^ \t\r]/.test(text.slice(whole.at)) ? undefined : Buffer.from(whole.out, "latin1")
}

const space = FastCheck.stringMatching(/^[ \t\r]{0,2}$/)
const string = FastCheck.oneof(
  FastCheck.string({ unit: "binary", maxLength: 60 }).map((text) => JSON.stringify(text)),
  FastCheck.stringMatching(/^([ -!#-[\]-~]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|é|🙂|[{}[\],:]){0,90}$/).map(
    (text) => `"${text}"`
  )
)
const number = FastCheck.oneof(
  FastCheck.stringMatching(/^-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?$/),
  FastCheck.double()
    .map(String)
    .filter((text) => !text.startsWith("-NaN")),
  FastCheck.constantFrom(
    "0",
    "-0",
    "1",
    "1.0",
    "0.5",
    "1e400",
    "0e5",
    "1e-999",
    "NaN",
    "Infinity",
    "-Infinity",
    "9007199254740993"
  )
)
const literal = FastCheck.constantFrom("true", "false", "null")
const joined = (open: string, parts: ReadonlyArray<string>, close: string) => `${open}${parts.join(",")}${close}`
const spaced = (text: FastCheck.Arbitrary<string>) => FastCheck.tuple(space, text, space).map((parts) => parts.join(""))
const { value } = FastCheck.letrec<{ value: string }>((tie) => ({
  value: FastCheck.oneof(
    { maxDepth: 3, withCrossShrink: true },
    literal,
    number,
    string,
    FastCheck.array(spaced(tie("value")), { maxLength: 3 }).map((parts) => joined("[", parts, "]")),
    FastCheck.array(FastCheck.tuple(spaced(string), spaced(tie("value"))), { maxLength: 3 }).map((members) =>
      joined(
        "{",
        members.map((member) => member.join(":")),
        "}"
      )
    )
  )
}))

/** Some of the characters of a key as escapes. */
const key = (name: string) =>
  FastCheck.oneof(
    { weight: 9, arbitrary: FastCheck.constant(`"${name}"`) },
    {
      weight: 1,
      arbitrary: FastCheck.nat(name.length - 1).map(
        (at) => `"${name.slice(0, at)}\\u${name.charCodeAt(at).toString(16).padStart(4, "0")}${name.slice(at + 1)}"`
      )
    }
  )

const member = (name: FastCheck.Arbitrary<string>, of: FastCheck.Arbitrary<string>) =>
  FastCheck.tuple(spaced(name), spaced(of)).map((parts) => parts.join(":"))

/** Objects that mostly have the members that matter, at times twice or of another type, in any order. */
const objectOf = (members: Record<string, FastCheck.Arbitrary<string>>) => {
  const names = Object.keys(members)
  const mostly = names.map((name) =>
    FastCheck.option(member(key(name), members[name] ?? value), { freq: 20, nil: undefined })
  )
  const some = FastCheck.constantFrom(...names)
  const again = some.chain((name) => member(key(name), FastCheck.oneof(members[name] ?? value, value)))
  const others = FastCheck.array(
    FastCheck.oneof({ weight: 8, arbitrary: member(string, value) }, { weight: 1, arbitrary: again }),
    { maxLength: 4 }
  )
  return FastCheck.tuple(FastCheck.tuple(...mostly), others)
    .chain(([own, more]) => {
      const all = [...own.filter((one) => one !== undefined), ...more]
      return FastCheck.shuffledSubarray(all, { minLength: all.length })
    })
    .map((all) => joined("{", all.length === 0 ? [""] : all, "}"))
}

const truth = FastCheck.oneof(
  { weight: 5, arbitrary: literal },
  { weight: 2, arbitrary: number },
  { weight: 2, arbitrary: value }
)
const record = spaced(
  objectOf({
    task_id: string,
    reward: FastCheck.oneof(number, FastCheck.constant("null")),
    metadata: objectOf({ task_hash: string, success: truth, harm: truth })
  })
).map((text) => Buffer.from(text, "utf8"))

/** A record, and it with a few bytes flipped, taken out or put in, or the end cut off. */
const pair = FastCheck.tuple(
  record,
  FastCheck.array(
    FastCheck.record({
      at: FastCheck.nat(9999),
      kind: FastCheck.constantFrom("put", "take", "set", "cut"),
      byte: FastCheck.oneof(
        FastCheck.constantFrom(...Array.from('"\\{}[],:0-.eNu \t', (char) => char.charCodeAt(0))),
        FastCheck.nat(255).filter((byte) => byte !== 0x0a)
      )
    }),
    { minLength: 1, maxLength: 3 }
  )
).map(([line, mutations]) => ({
  line,
  mutated: mutations.reduce((before, { at, byte, kind }) => {
    const index = Math.floor((at / 10_000) * before.length)
    const [head, tail] = [before.subarray(0, index), before.subarray(index)]
    if (kind === "cut") return Buffer.from(head)
    return Buffer.concat([head, Buffer.from(kind === "take" ? [] : [byte]), tail.subarray(kind === "put" ? 0 : 1)])
  }, line)
}))

it("takes from a record what the parser does", () => {
  let records = 0
  FastCheck.assert(
    FastCheck.property(record, (line) => {
      const right = parsed(line)
      assert.deepStrictEqual(scanned(line), right)
      if ("outcome" in right) records++
    }),
    { numRuns: 5000 }
  )
  assert.isAbove(records, 1000)
})

it("takes a broken record only where the fault is in a value that it skips", () => {
  let skipped = 0
  FastCheck.assert(
    FastCheck.property(pair, ({ mutated: line }) => {
      const right = parsed(line)
      const seen = scanned(line)
      if ("outcome" in right || !("outcome" in seen)) {
        assert.deepStrictEqual(seen, right)
      } else {
        const rest = withoutSkipped(line)
        assert.isDefined(rest, line.toString("latin1"))
        assert.deepStrictEqual(seen, parsed(rest ?? line))
        skipped++
      }
    }),
    { numRuns: 20_000 }
  )
  assert.isAbove(skipped, 50)
})

it("takes the same from a record whatever came before it", () => {
  const outcome = (line: Buffer) => {
    const verdict = scanned(line)
    return "outcome" in verdict ? [verdict.outcome] : []
  }
  let taken = 0
  FastCheck.assert(
    FastCheck.property(pair, ({ line, mutated }) => {
      // By the third the layout of the first is known, by the sixth that of the fourth.
      const lines = [line, line, line, mutated, mutated, mutated, line].filter((one) => outcome(one).length > 0)
      const right = Tally.fromOutcomes(lines.flatMap(outcome))
      const { fault, tally } = decoded(lines)
      assert.isUndefined(fault)
      assert.strictEqual(tally.tasks.size, right.tasks.size)
      for (const [id, task] of tally.tasks) assert.deepStrictEqual(told(task), told(right.tasks.get(id)), id)
      assert.strictEqual(tally.tellsSuccess, right.tellsSuccess)
      if (lines.length === 7) taken++
    }),
    { numRuns: 2000 }
  )
  assert.isAbove(taken, 20)
})

it("reads numbers as the parser does", () => {
  const digits = FastCheck.tuple(FastCheck.bigInt(0n, 10n ** 23n), FastCheck.nat(24)).map(([all, decimals]) => {
    const text = all.toString().padStart(decimals + 1, "0")
    return decimals === 0 ? text : `${text.slice(0, -decimals)}.${text.slice(-decimals)}`
  })
  // Halfway between two doubles, or next to it.
  const close = FastCheck.tuple(FastCheck.bigInt(2n ** 52n, 2n ** 53n), FastCheck.integer({ min: -2, max: 2 })).map(
    ([mantissa, more]) => {
      const text = (((mantissa * 2n + 1n) * 10n ** 21n) / 2n ** 54n + BigInt(more)).toString().padStart(21, "0")
      return `0.${text}`
    }
  )
  const shortest = FastCheck.double({ noNaN: true, noDefaultInfinity: true }).map(String)
  const small = FastCheck.tuple(digits, FastCheck.integer({ min: -22, max: 22 })).map((parts) => parts.join("e"))
  const any = FastCheck.oneof(digits, close, shortest, small, number).map((text) => text.replace(/^-/, ""))
  let taken = 0
  FastCheck.assert(
    FastCheck.property(FastCheck.array(any, { minLength: 10, maxLength: 40 }), (texts) => {
      const numbers = texts.flatMap((text) => [text, `-${text}`]).filter((text) => Number.isFinite(Number(text)))
      const line = (text: string, id: number) =>
        Buffer.from(`{"task_id": "${id}", "reward": ${text}, "metadata": {"task_hash": "h"}}`)
      const { fault, tally } = decoded(numbers.map(line))
      assert.isUndefined(fault)
      for (const [id, text] of numbers.entries()) {
        assert.strictEqual(tally.tasks.get(String(id))?.highestReward, Number(text), text)
        if (takes([line(text, id)])) taken++
      }
    }),
    { numRuns: 500 }
  )
  assert.isAbove(taken, 5000)
})

it("leaves nothing usual to the parser", () => {
  const long = "x".repeat(200)
  for (const line of [
    '{"task_id":"t","reward":1,"metadata":{"task_hash":"h"}}',
    '{"metadata": {"harm": null, "task_hash": "h", "a": {"b": ["}"]}, "success": 0.5}, "reward": null, "task_id": "\\u00e9\\""} \r',
    `{ "a" : "${long}\\\\" , "b" : ["${long}\\"${long}", {}, [], -1.5e+7, true] , "é" : "é" , "task_id" : "" , "reward" : -1e-7 , "metadata" : { "task_hash" : "" } }`,
    `{"deep": ${'[{"a":'.repeat(500)}1${"}]".repeat(500)}, "task_id": "t", "reward": 0.1234567890123456789, "metadata": {"task_hash": "h"}}`
  ]) {
    const bytes = Buffer.from(line)
    assert.isTrue(takes([bytes]), line)
    // Nor the first time, when the memory is as small as can be.
    assert.isTrue(takes([bytes], new TraceScanners()), line)
    assert.isTrue(takes([bytes, bytes, bytes, bytes]), line)
    assert.property(parsed(bytes), "outcome", line)
  }
})

it("cuts the same lines wherever the blocks end", () => {
  const decode = (bytes: Buffer, blockSize: number, size: number) => {
    const seen: Array<string> = []
    const decoder: LineDecoder<string> = {
      scanner: undefined,
      notFinite: 0,
      decode: (memory, start, end, line, out) => {
        assert.strictEqual(memory.bytes[end], 0x0a)
        out.push(`${line} ${memory.bytes.toString("latin1", start, end)}`)
        return undefined
      }
    }
    const lines = new TraceLines(decoder, size)
    for (let at = 0; at < bytes.length; ) {
      const room = lines.room()
      const count = Math.min(blockSize, room.length, bytes.length - at)
      room.set(bytes.subarray(at, at + count))
      at += count
      lines.took(count)
      // What is read while lines are decoded must not touch them.
      lines.room().fill(0x0a)
      lines.decode(seen)
    }
    lines.decodeRest(seen)
    return seen
  }
  const content = FastCheck.array(
    FastCheck.constantFrom("\n", "\r\n", " \t\r\n", "a", "bb", "c".repeat(40), "\ufeff", "é", "\u2028", "\u0085", "\v"),
    { maxLength: 30 }
  ).map((parts) => parts.join(""))
  FastCheck.assert(
    FastCheck.property(
      content,
      FastCheck.integer({ min: 1, max: 50 }),
      FastCheck.integer({ min: 2, max: 64 }),
      (text, blockSize, size) => {
        const right = text
          .replace(/^\ufeff/, "")
          .split("\n")
          .map((line, index) => [index + 1, line.replace(/^[ \t\r]+/, "")] as const)
          .filter(([, line]) => line !== "")
          .map(([number, line]) => `${number} ${Buffer.from(line).toString("latin1")}`)
        assert.deepStrictEqual(decode(Buffer.from(text), blockSize, size), right)
      }
    ),
    { numRuns: 3000 }
  )
})

it("tallies the same wherever the blocks end", () => {
  const lines = FastCheck.sample(record, { numRuns: 300, seed: 7 }).filter((line) => "outcome" in scanned(line))
  const bytes = Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")]))
  const right = decoded(lines)
  for (const size of [16, 200, 1000, 4096, 65_536]) {
    // Without a scanner, as where there is no WebAssembly, all is parsed.
    for (const [count, scanner] of [
      ...[1, 7, 300, 5000].map((count) => [count, new TraceScanners().make(size, seed)] as const),
      [300, undefined] as const
    ]) {
      const decoder = new TallyDecoder(scanner)
      const whole = new TraceLines(decoder, size)
      for (let at = 0; at < bytes.length; ) {
        const room = whole.room()
        const read = Math.min(count, room.length, bytes.length - at)
        room.set(bytes.subarray(at, at + read))
        at += read
        whole.took(read)
        whole.room().fill('"'.charCodeAt(0))
        assert.isUndefined(whole.decode([]))
      }
      const { tasks } = decoder.result()
      assert.strictEqual(tasks.size, right.tally.tasks.size)
      for (const [id, task] of tasks) assert.deepStrictEqual(told(task), told(right.tally.tasks.get(id)), id)
    }
  }
})

it("tells two tasks from each other and one spelled in two ways not", () => {
  const ids = Array.from({ length: 5000 }, (_, index) => `task-${index * 7919}`)
  const spellings = [(id: string) => id, (id: string) => id.replace("t", "\\u0074"), (id: string) => id]
  const lines = spellings.flatMap((spell) =>
    ids.map((id) => Buffer.from(`{"task_id": "${spell(id)}", "reward": 1, "metadata": {"task_hash": "h-${id}"}}`))
  )
  assert.isTrue(takes(lines.slice(0, 500)))
  const { fault, tally } = decoded(lines)
  assert.isUndefined(fault)
  assert.deepStrictEqual(Array.from(tally.tasks.keys()).sort(), ids.slice().sort())
  for (const [id, task] of tally.tasks) assert.deepInclude(task, { graded: 3, taskHashes: [`h-${id}`] })
})

it("leaves a quote behind a backslash that is in no string to the parser", () => {
  assert.isFalse(takes([Buffer.from('{"a": [\\"], "task_id": "t", "reward": 1, "metadata": {"task_hash": "h"}}')]))
})

it("gives what is above 2 GiB of memory, and does not keep it", () => {
  const scanners = new TraceScanners()
  // Nothing of the blocks is touched but the line, so that they are addresses only.
  const scanner = scanners.make(2 ** 30, seed) ?? assert.fail("no scanner")
  const line = Buffer.from('{"task_id": "t", "reward": 1, "metadata": {"task_hash": "h"}}\n')
  line.copy(scanner.blocks[0].bytes)
  assert.strictEqual(scanner.scan(scanner.blocks[0], 0, line.length), line.length)
  assert.deepInclude(scanner.columns(), { ids: ["t"], hashes: ["h"] })
  scanners.release(scanner)
  assert.strictEqual(scanners.make(size, seed)?.size, size)
})

it("asks for memory that there is not only once, since to be refused takes long", () => {
  let asked = 0
  class Memory {
    constructor() {
      asked++
      throw new RangeError("there is no memory")
    }
  }
  vi.stubGlobal("WebAssembly", { Memory, Module: class {} })
  const scanners = new TraceScanners()
  const made = [scanners.make(size, seed), scanners.make(size, seed)]
  vi.unstubAllGlobals()
  assert.deepStrictEqual(made, [undefined, undefined])
  assert.strictEqual(asked, 1)
})

it("keeps both versions of a task, whichever way it is spelled", () => {
  const line = (id: string, hash: string) =>
    Buffer.from(`{"task_id": "${id}", "reward": 1, "metadata": {"task_hash": "${hash}"}}`)
  for (const lines of [
    [line("a", "2"), line("b", "1"), line("a", "1")],
    [line("a", "2"), line("b", "1"), line("\\u0061", "1")],
    // The third is for the parser.
    [line("a", "2"), line("b", "1"), Buffer.from('{"task_id": "a", "reward": NaN, "metadata": {"task_hash": "1"}}')]
  ]) {
    const { tasks } = decoded(lines).tally
    assert.deepStrictEqual(tasks.get("a")?.taskHashes, ["1", "2"])
    assert.deepStrictEqual(tasks.get("b")?.taskHashes, ["1"])
    assert.strictEqual(tasks.size, 2)
  }
})

it("gives the tasks in code point order, however long their ids are", () => {
  const id = FastCheck.oneof(
    FastCheck.stringMatching(/^[a-c]{0,12}$/),
    FastCheck.stringMatching(/^task-[0-9]{1,20}$/),
    FastCheck.stringMatching(/^[a-b]{60,90}$/),
    FastCheck.constantFrom("\u007f", "é", "\uff5e", "🙂")
  )
  FastCheck.assert(
    FastCheck.property(FastCheck.uniqueArray(id, { minLength: 1, maxLength: 60 }), (ids) => {
      const lines = ids.map((id) => Buffer.from(`{"task_id": "${id}", "reward": 1, "metadata": {"task_hash": "h"}}`))
      const { tally } = decoded([...lines, ...lines])
      const order = ids.slice().sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
      const calibrated = Either.getOrThrow(Calibration.fromTally(tally, { model: "m" }))
      assert.deepStrictEqual(Array.from(calibrated.tasks.keys()), order)
    }),
    { numRuns: 300 }
  )
})

it("gives the first fault of a file, whichever way the lines before it were taken", () => {
  const good = (id: string) => `{"task_id": "${id}", "reward": 1, "metadata": {"task_hash": "h"}}`
  const unsound = good("\\x")
  for (const [content, line, records] of [
    [[good("a"), unsound, "{", good("b")], 2, 1],
    [[good("a"), good("b"), "", "{", unsound], 4, 2],
    [[...Array.from({ length: 1000 }, (_, index) => good(`t${index % 300}`)), unsound], 1001, 1000]
  ] as const) {
    const { fault, tally } = decoded(content.map((line) => Buffer.from(line)))
    assert.deepInclude(fault, { line, isJson: false })
    const seen = Array.from(tally.tasks.values(), ({ graded }) => graded)
    assert.strictEqual(
      seen.reduce((sum, graded) => sum + graded, 0),
      records
    )
  }
})

it("leaves the text of records as it is", () => {
  const line = Buffer.from('{"reward": 1.0, "metadata": {}, "big": 12345678901234567890}')
  const out: Array<EpisodeRecord.EpisodeRecord> = []
  assert.isUndefined(new RecordDecoder().decode({ bytes: line }, 0, line.length, 1, out))
  assert.strictEqual(out[0]?.line, line.toString())
  assert.strictEqual(out[0]?.value.big, 12345678901234567890n)
})
