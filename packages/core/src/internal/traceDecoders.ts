/** What is made of a trace file's lines: records, or only their tally, which is much faster. */

import * as Either from "effect/Either"
import type { EpisodeRecord } from "../EpisodeRecord.js"
import * as Outcome from "../Outcome.js"
import type { Tally } from "../Tally.js"
import { MutableTally } from "./mutableTally.js"
import { withOthers } from "./scannedTally.js"
import { type LineDecoder, LineFault, parseRecord } from "./traceLines.js"
import type { Memory, TraceScanner } from "./traceScanner.js"

const isNotFinite = (record: EpisodeRecord): boolean => record.reward === null && record.value.reward !== null

export class RecordDecoder implements LineDecoder<EpisodeRecord> {
  readonly scanner = undefined
  notFinite = 0

  decode(memory: Memory, start: number, end: number, line: number, out: Array<EpisodeRecord>): LineFault | undefined {
    const record = parseRecord(memory, start, end, line)
    if (record instanceof LineFault) return record
    if (isNotFinite(record)) this.notFinite++
    out.push(record)
    return undefined
  }
}

/** Gives out nothing: what it reads goes to the tally. */
export class TallyDecoder implements LineDecoder<never> {
  notFinite = 0
  private readonly tally = new MutableTally()

  constructor(readonly scanner: TraceScanner | undefined) {}

  decode(memory: Memory, start: number, end: number, line: number): LineFault | undefined {
    const record = parseRecord(memory, start, end, line)
    if (record instanceof LineFault) return record
    const outcome = Outcome.fromRecord(record)
    if (Either.isLeft(outcome)) return new LineFault(line, outcome.left, true)
    if (isNotFinite(record)) this.notFinite++
    this.tally.addOutcome(outcome.right)
    return undefined
  }

  /** The tally of all lines. */
  result(): Tally {
    const parsed = this.tally.result()
    return this.scanner === undefined ? parsed : withOthers(this.scanner.columns(), parsed)
  }
}
