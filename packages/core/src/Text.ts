/**
 * Text for a terminal: what others chose made harmless, and tables that fit.
 *
 * @since 0.1.0
 */

import stringWidth from "string-width"
import * as text from "./internal/text.js"

/**
 * Escapes what could move the cursor, break the line or hide: control characters, bidirectional marks and others
 * without a width, as `\n` or `\u001b`. A JSON text stays JSON, and says the same.
 *
 * @since 0.1.0
 * @category printing
 */
export const visible: (text: string) => string = text.visible

/**
 * `1 container`, `3 containers`.
 *
 * @since 0.1.0
 * @category printing
 */
export const counted: (count: number, noun: string, plural?: string) => string = text.counted

/**
 * The text, or as much of its beginning as fits into so many columns of a terminal with an ellipsis behind it.
 *
 * @since 0.1.0
 * @category printing
 */
export const cut = (text: string, columns: number): string =>
  widthOf(text) <= columns ? text : `${headOf(text, columns - 1)}…`

/**
 * A column of a table.
 *
 * @since 0.1.0
 * @category tables
 */
export interface Column {
  readonly heading: string
  /** Left unless given. */
  readonly align?: "left" | "right"
  /** What is too long for the table is cut, or broken at blanks into several lines; such a column may be narrowed. */
  readonly fit?: "cut" | "wrap"
  /** Puts colour around a cell; the width is that of the text without it. */
  readonly paint?: (cell: string) => string
}

/** In a terminal's columns; a column is not narrowed below that. */
const leastWidth = 8

/**
 * A row for each list of cells below one of headings, the columns aligned by their width on a terminal. Cells go
 * through `visible`. Where `width` (in a terminal's columns) is given, the gaps are narrowed, and then the widest of
 * the columns that have a `fit`, so that rows fit.
 *
 * @since 0.1.0
 * @category tables
 */
export const table = (
  columns: ReadonlyArray<Column>,
  cells: ReadonlyArray<ReadonlyArray<string>>,
  options: { readonly width?: number | undefined } = {}
): string => {
  const rows = cells.map((row) => row.map(visible))
  const available = options.width ?? Number.POSITIVE_INFINITY
  const widths = columns.map(({ heading }, index) =>
    rows.reduce((most, row) => Math.max(most, widthOf(row[index] ?? "")), widthOf(heading))
  )
  const total = (gap: string): number => widths.reduce((sum, width) => sum + gap.length + width, -gap.length)
  const gap = total("  ") <= available ? "  " : " "
  for (let over = total(gap) - available; over > 0; over--) {
    const widest = columns.reduce<number | undefined>((most, { fit }, index) => {
      const width = widths[index] ?? 0
      return fit !== undefined && width > leastWidth && (most === undefined || width > (widths[most] ?? 0))
        ? index
        : most
    }, undefined)
    if (widest === undefined) break
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  const lines = (row: ReadonlyArray<string>, isPainted: boolean): ReadonlyArray<string> => {
    const broken = columns.map(({ fit }, index) => {
      const cell = row[index] ?? ""
      const width = widths[index] ?? 0
      return fit === "wrap" ? wrapped(cell, width) : [fit === "cut" ? cut(cell, width) : cell]
    })
    const height = Math.max(...broken.map(({ length }) => length))
    return Array.from({ length: height }, (_, at) =>
      columns
        .map(({ align, paint }, index) => {
          const cell = broken[index]?.[at] ?? ""
          const padding = " ".repeat(Math.max(0, (widths[index] ?? 0) - widthOf(cell)))
          const shown = isPainted && paint !== undefined && cell !== "" ? paint(cell) : cell
          return align === "right" ? padding + shown : shown + padding
        })
        .join(gap)
        .trimEnd()
    )
  }
  const headings = columns.map(({ heading }) => heading)
  return [...lines(headings, false), ...rows.flatMap((row) => lines(row, true))].join("\n")
}

/** In columns of a terminal. */
const widthOf = (text: string): number => (/^[ -~]*$/.test(text) ? text.length : stringWidth(text))

/** As many of a text's first characters, in the reader's sense of the word, as fit; none where not even one does. */
const headOf = (text: string, columns: number): string => {
  let head = ""
  let width = 0
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    width += widthOf(segment)
    if (width > columns) break
    head += segment
  }
  return head
}

/** Broken at blanks; a word that is longer than a line, where the line ends. */
const wrapped = (text: string, columns: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let line = ""
  for (const [index, word] of text.split(" ").entries()) {
    const longer = index === 0 ? word : `${line} ${word}`
    if (widthOf(longer) <= columns) {
      line = longer
      continue
    }
    if (line !== "") lines.push(line)
    line = word
    while (widthOf(line) > columns) {
      const head = headOf(line, columns)
      lines.push(head)
      line = line.slice(head.length)
    }
  }
  return [...lines, line]
}
