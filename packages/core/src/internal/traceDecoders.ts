/** What is made of a trace file's lines: records, or only their tally, which is much faster. */

import * as Either from "effect/Either"
import type { EpisodeRecord } from "../EpisodeRecord.js"
import * as Outcome from "../Outcome.js"
import type { MutableTally } from "./mutableTally.js"
import { Spellings, spelled } from "./spellings.js"
import { type LineDecoder, LineFault, parseRecord } from "./traceLines.js"
import { type Memory, Scanner } from "./traceScan.js"

const isNotFinite = (record: EpisodeRecord): boolean => record.reward === null && record.value.reward !== null

export class RecordDecoder implements LineDecoder<EpisodeRecord> {
  notFinite = 0

  decode(memory: Memory, start: number, end: number, out: Array<EpisodeRecord>): LineFault | undefined {
    const record = parseRecord(memory, start, end)
    if (record instanceof LineFault) return record
    if (isNotFinite(record)) this.notFinite++
    out.push(record)
    return undefined
  }
}

/** Gives out nothing: what it reads goes to the tally. */
export class TallyDecoder implements LineDecoder<never> {
  notFinite = 0
  private readonly scanner = new Scanner()
  /** To the tasks' numbers in the tally. */
  private readonly spellings = new Spellings()

  constructor(private readonly tally: MutableTally) {}

  decode(memory: Memory, start: number, end: number): LineFault | undefined {
    const { scanner, tally } = this
    if (scanner.scan(memory, start, end)) {
      const known = this.spellings.find(memory, scanner)
      const task = known >= 0 ? known : this.learn(memory)
      if (task >= 0) {
        const { harm, isVoid, reward, success } = scanner
        const isFinite = Number.isFinite(reward)
        if (!isVoid && !isFinite) this.notFinite++
        if (success !== null) tally.tellsSuccess = true
        tally.add(task, isVoid || !isFinite ? null : reward, success === true, harm === true)
        return undefined
      }
    }
    const record = parseRecord(memory, start, end)
    if (record instanceof LineFault) return record
    const outcome = Outcome.fromRecord(record)
    if (Either.isLeft(outcome)) return new LineFault(outcome.left, true)
    if (isNotFinite(record)) this.notFinite++
    tally.addOutcome(outcome.right)
    return undefined
  }

  /** The number of the task that the scanner found; -1 where its strings are unsound. */
  private learn(memory: Memory): number {
    const { scanner } = this
    const taskId = spelled(memory, scanner.idStart, scanner.idEnd)
    const taskHash = spelled(memory, scanner.hashStart, scanner.hashEnd)
    if (taskId === undefined || taskHash === undefined) return -1
    const task = this.tally.task(taskId, taskHash)
    this.spellings.learn(memory, scanner, task)
    return task
  }
}
