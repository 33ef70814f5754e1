/**
 * The help that @effect/cli makes of the declarations, set to fit a terminal: two columns, lines broken at blanks, and
 * without the stock sentences that say again what the usage shows. (It would print it in lines of any length, with
 * blank ones between them, and coloured wherever it goes.)
 */

import * as CliConfig from "@effect/cli/CliConfig"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import type * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Span from "@effect/cli/HelpDoc/Span"
import * as Usage from "@effect/cli/Usage"

export interface Layout {
  readonly columns: number
  /** Whether titles are bold. */
  readonly styled: boolean
}

/** The help of a program with subcommands. */
export const ofProgram = <A>(name: string, root: CommandDescriptor.Command<A>, layout: Layout): string =>
  render(
    [`${name} COMMAND ...`],
    CommandDescriptor.getHelp(root, CliConfig.defaultConfig),
    `${name} COMMAND --help tells more of a command.`,
    layout
  )

/** The help of one of its subcommands. */
export const ofCommand = <A>(name: string, command: CommandDescriptor.Command<A>, layout: Layout): string => {
  const config = CliConfig.make({ showBuiltIns: false })
  return render(
    Usage.enumerate(CommandDescriptor.getUsage(command), config).map((usage) => `${name} ${textOf(usage)}`),
    CommandDescriptor.getHelp(command, config),
    `${name} --help tells of the options that every command has.`,
    layout
  )
}

/** Terminal sequences for colour and weight. */
const styling = /\u001b\[[\d;]*m/g

export const plain = (text: string): string => text.replace(styling, "")

/** The text of a document, in one line. */
export const lineOf = (document: HelpDoc.HelpDoc): string =>
  blocksOf(document)
    .flatMap((block) => (block._tag === "Paragraph" ? [textOf(block.value)] : []))
    .join("; ")

/** Breaks a line at blanks so that it fits; what is broken off is indented. */
const wrap = (line: string, columns: number, indent: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let current = ""
  // Not within brackets: an option stays with its value.
  for (const word of line.split(/ (?![^[]*\])/)) {
    const longer = current === "" ? word : `${current} ${word}`
    if (current !== "" && plain(longer).length > columns) {
      lines.push(current)
      current = " ".repeat(indent) + word
    } else {
      current = longer
    }
  }
  return [...lines, current]
}

const render = (
  usages: ReadonlyArray<string>,
  help: HelpDoc.HelpDoc,
  more: string,
  { columns, styled }: Layout
): string => {
  const lines = usages.flatMap((usage) => wrap(`Usage: ${usage}`, columns, "Usage: ".length))
  for (const block of blocksOf(help)) {
    switch (block._tag) {
      case "Header": {
        // The description needs no title.
        const title = textOf(block.value)
        lines.push("")
        if (title !== "DESCRIPTION") lines.push(styled ? `\u001b[1m${title}\u001b[0m` : title)
        break
      }
      case "Paragraph":
        lines.push(...wrap(textOf(block.value), columns, 0))
        break
      case "DescriptionList":
        for (const [term, description] of block.definitions) {
          const [type = "", told = type] = blocksOf(description).map((part) =>
            part._tag === "Paragraph" ? textOf(part.value) : ""
          )
          const name = textOf(term)
            .replace(/^\((.*)\)$/, "$1")
            .replace(/ 1\+$/, "...")
          lines.push(...row(name, told, columns))
        }
        break
      case "Enumeration":
        // Each a subcommand's usage and, after two blanks or more, what it does.
        for (const element of block.elements) {
          const [, name = "", told = ""] =
            element._tag === "Paragraph" ? (/^(\S+).*? {2,}(.*)$/.exec(textOf(element.value)) ?? []) : []
          lines.push(...row(name, told, columns))
        }
        break
    }
  }
  return [...lines, "", ...wrap(more, columns, 0)].join("\n")
}

/** Where the second column begins. */
const second = 20

const row = (term: string, description: string, columns: number): ReadonlyArray<string> => {
  const [head = "", ...rest] = wrap(description, Math.max(columns - second, second), 0)
  const below = rest.map((line) => " ".repeat(second) + line)
  return term.length < second - 3
    ? [`  ${term}`.padEnd(second) + head, ...below]
    : [...wrap(term, columns - 4, 2).map((line) => `  ${line}`), " ".repeat(second) + head, ...below]
}

const blocksOf = (help: HelpDoc.HelpDoc): ReadonlyArray<Exclude<HelpDoc.HelpDoc, HelpDoc.Sequence | HelpDoc.Empty>> => {
  switch (help._tag) {
    case "Empty":
      return []
    case "Sequence":
      return [...blocksOf(help.left), ...blocksOf(help.right)]
    default:
      return [help]
  }
}

const textOf = (span: Span.Span): string => {
  switch (span._tag) {
    case "Text":
    case "URI":
      return span.value
    case "Sequence":
      return textOf(span.left) + textOf(span.right)
    default:
      return textOf(span.value)
  }
}
