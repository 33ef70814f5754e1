/**
 * A calibration as people read it: a table, a summary, and what they should be
 * warned of.
 *
 * @since 0.1.0
 */

import type { CalibrationResult, Class, TaskCalibration } from "./Calibration.js"
import { twoDecimals } from "./internal/pythonFormat.js"
import { counted, listed, visible } from "./internal/text.js"
import * as Text from "./Text.js"

/**
 * A row for each task below a row of headings, the columns aligned by their width on a terminal. Rates have two
 * decimals, rounded half to even as Python prints them; `-` stands for null. In ids control characters are escaped,
 * and where `width` (in columns) is given, the gaps are narrowed and long ids cut so that rows fit.
 *
 * @since 0.1.0
 * @category printing
 */
export const table = (calibration: CalibrationResult, options: { readonly width?: number | undefined } = {}): string =>
  Text.table(
    columns,
    Array.from(calibration.tasks, ([id, task]) => cells(id, task)),
    options
  )

/**
 * A few lines: how many tasks of each class and without one, the void share, and where the file went.
 *
 * @since 0.1.0
 * @category printing
 */
export const summary = (
  { k, model, tasks }: CalibrationResult,
  options: { readonly file?: string | undefined } = {}
): string => {
  const all = Array.from(tasks.values())
  const count = (name: Class | null): number => all.filter((task) => task.class === name).length
  const voids = all.reduce((sum, task) => sum + task.void, 0)
  const total = all.reduce((sum, task) => sum + task.void + task.rollouts, 0)
  return [
    `${visible(model)}, k = ${k}: ${counted(all.length, "task")}: ${count("solved")} solved, ${count("learnable")} learnable, ${count("out_of_reach")} out_of_reach, ${count(null)} without a class`,
    `void: ${voids} of ${counted(total, "rollout")} (${twoDecimals(total === 0 ? 0 : (100 * voids) / total)}%)`,
    ...(options.file === undefined ? [] : [`written to ${visible(options.file)}`])
  ].join("\n")
}

/**
 * What is odd about a calibration, in a line each.
 *
 * @since 0.1.0
 * @category printing
 */
export const warnings = ({ k, tasks, tellsSuccess }: CalibrationResult): ReadonlyArray<string> => {
  const all = Array.from(tasks)
  const lucky = all.filter(([, task]) => task.class === "out_of_reach" && (task["pass@1"] ?? 0) > 0)
  // Nothing covers a task whose rollouts are all void.
  const graded = all.filter(([, task]) => task.rollouts > 0)
  const uncovered = graded.filter(([, task]) => task.rollouts < k)
  const largest = graded.reduce((least, [, task]) => Math.min(least, task.rollouts), k)
  const ids = (some: typeof all): string =>
    listed(
      some.map(([id]) => id),
      5
    )
  return [
    tellsSuccess ? [] : ["No record tells metadata.success, so every rollout counts as failed."],
    lucky.length === 0
      ? []
      : [
          `${counted(lucky.length, "task is", "tasks are")} out_of_reach with successes (${ids(lucky)}): all rewards are equal, but not all rollouts succeeded.`
        ],
    uncovered.length === 0
      ? []
      : [
          `k = ${k} leaves ${counted(uncovered.length, "task")} without pass@k and pass^k (${ids(uncovered)}): the largest k that covers all is ${largest}.`
        ]
  ].flat()
}

const columns: ReadonlyArray<Text.Column> = [
  { heading: "task", fit: "cut" },
  { heading: "class" },
  ...["rollouts", "void", "pass@1", "pass@k", "pass^k", "reward", "var", "harm"].map(
    (heading) => ({ heading, align: "right" }) as const
  )
]

const cells = (id: string, task: TaskCalibration): ReadonlyArray<string> => [
  id,
  task.class ?? "-",
  String(task.rollouts),
  String(task.void),
  ...[task["pass@1"], task["pass@k"], task["pass^k"], task.reward_mean, task.reward_variance, task.harm_rate].map(
    (rate) => (rate === null ? "-" : twoDecimals(rate))
  )
]
