/** What is made of a trace file's lines: records, or only their tally, which is much faster. */

import * as Either from "effect/Either"
import type { EpisodeRecord } from "../EpisodeRecord.js"
import * as Outcome from "../Outcome.js"
import type { MutableTally } from "./mutableTally.js"
import { hashOf, Spellings, spelled } from "./spellings.js"
import { type LineDecoder, LineFault, parseRecord } from "./traceLines.js"
import { type Memory, Scanned, Scanner } from "./traceScan.js"

const isNotFinite = (record: EpisodeRecord): boolean => record.reward === null && record.value.reward !== null

export class RecordDecoder implements LineDecoder<EpisodeRecord> {
  notFinite = 0

  decode(memory: Memory, start: number, end: number, line: number, out: Array<EpisodeRecord>): LineFault | undefined {
    const record = parseRecord(memory, start, end, line)
    if (record instanceof LineFault) return record
    if (isNotFinite(record)) this.notFinite++
    out.push(record)
    return undefined
  }

  finish(): undefined {}
}

/** Where a record is, and where its task may be. */
class Waiting extends Scanned {
  start = 0
  end = 0
  line = 0
  hash = 0
  /** Whether the reward is a finite number. */
  isGraded = false
  candidate = -1
  likely = false
  task = -1
}

/** Gives out nothing: what it reads goes to the tally. */
export class TallyDecoder implements LineDecoder<never> {
  notFinite = 0
  private readonly scanner = new Scanner()
  /** To the tasks' numbers in the tally. */
  private readonly spellings = new Spellings()
  /**
   * Records that are scanned and not tallied yet. Where there are many tasks, each step of that has to wait for memory, and
   * the processor waits for those of several records at once if they follow one another.
   */
  private readonly waiting = Array.from({ length: 64 }, () => new Waiting())
  private count = 0

  constructor(private readonly tally: MutableTally) {}

  decode(memory: Memory, start: number, end: number, line: number): LineFault | undefined {
    const record = this.waiting[this.count]
    if (record === undefined || !this.scanner.scan(memory, start, end, record)) {
      return this.finish(memory) ?? this.parse(memory, start, end, line)
    }
    record.start = start
    record.end = end
    record.line = line
    record.isGraded = !record.isVoid && Number.isFinite(record.reward)
    record.hash = hashOf(memory, record.idStart, record.idEnd)
    return ++this.count === this.waiting.length ? this.finish(memory) : undefined
  }

  finish(memory: Memory): LineFault | undefined {
    const { spellings, tally } = this
    const waiting = this.count === this.waiting.length ? this.waiting : this.waiting.slice(0, this.count)
    this.count = 0
    for (const record of waiting) record.candidate = spellings.candidate(record.hash)
    for (const record of waiting) record.likely = spellings.looksRight(memory, record)
    for (const record of waiting) {
      const known = spellings.find(memory, record)
      record.task = known >= 0 ? known : this.learn(memory, record)
    }
    for (const record of waiting) {
      if (record.task >= 0) tally.count(record.task, record.isGraded, record.success === true, record.harm === true)
    }
    for (const record of waiting) {
      if (record.task >= 0) {
        if (record.success !== null) tally.tellsSuccess = true
        if (record.isGraded) tally.addReward(record.task, record.reward)
        else if (!record.isVoid) this.notFinite++
        continue
      }
      const fault = this.parse(memory, record.start, record.end, record.line)
      if (fault !== undefined) return fault
    }
    return undefined
  }

  private parse(memory: Memory, start: number, end: number, line: number): LineFault | undefined {
    const record = parseRecord(memory, start, end, line)
    if (record instanceof LineFault) return record
    const outcome = Outcome.fromRecord(record)
    if (Either.isLeft(outcome)) return new LineFault(line, outcome.left, true)
    if (isNotFinite(record)) this.notFinite++
    this.tally.addOutcome(outcome.right)
    return undefined
  }

  /** The number of the task of a record that the scanner took; -1 where its strings are unsound. */
  private learn(memory: Memory, record: Waiting): number {
    const taskId = spelled(memory, record.idStart, record.idEnd)
    const taskHash = spelled(memory, record.hashStart, record.hashEnd)
    if (taskId === undefined || taskHash === undefined) return -1
    const task = this.tally.task(taskId, taskHash)
    this.spellings.learn(memory, record, task)
    return task
  }
}
