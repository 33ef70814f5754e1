/** What calibration needs of a record, and what the values are to it. */

export enum Role {
  skipped,
  taskId,
  reward,
  metadata,
  taskHash,
  success,
  harm
}

/** The addresses are those of strings' contents, quotes excluded; 0 where there is none. */
@unmanaged
export class Found {
  reward: f64
  idStart: u32
  idLength: u32
  hashStart: u32
  hashLength: u32
  /** As `truth` has them: 0 where nothing is told. */
  success: u32
  harm: u32
  hasReward: bool
  /** Whether the reward is null. */
  isVoid: bool
  /** Whether they stand for themselves: ASCII without escapes. */
  isPlainId: bool
  isPlainHash: bool
  /** Of the id's bytes. */
  key: u32
  /** Where its pair may be, then where it is; 0 for nowhere. */
  pair: u32
  /** Where the pair's text may be, 0 for nowhere, and whether it looks right. */
  text: u32
  isLikely: bool
}
