#!/usr/bin/env node
/** The program: runs the command line on Node, and ends as outcome.ts says. */

import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import * as Effect from "effect/Effect"
import { constVoid } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { run } from "./Cli.js"
import { outcome, type Signal, signalCode } from "./internal/outcome.js"
import { logger, safe } from "./internal/terminal.js"

const main = (): void => {
  // Who writes learns of a failed write by the write; without a listener it would also end the process.
  process.stdout.on("error", constVoid)
  process.stderr.on("error", constVoid)

  // At the first signal runMain interrupts, which closes every scope. At the second one that is not waited for.
  let signal: Signal | undefined
  const onSignal = (received: Signal): void => {
    if (signal !== undefined) process.exit(signalCode(received))
    signal = received
  }
  process.on("SIGINT", onSignal)
  process.on("SIGTERM", onSignal)

  run(process.argv.slice(2)).pipe(
    Effect.provide(
      Layer.mergeAll(
        NodeFileSystem.layer,
        NodePath.layer,
        NodeTerminal.layer,
        Logger.replace(Logger.defaultLogger, logger)
      )
    ),
    NodeRuntime.runMain({
      disableErrorReporting: true,
      disablePrettyLogger: true,
      teardown: (exit, onExit) => {
        const { code, lines } = outcome(exit, signal)
        if (lines.length > 0) process.stderr.write(`${safe(lines.join("\n"))}\n`)
        // Node waits on exit for threads that are in a system call; a further signal ends even that.
        process.removeListener("SIGINT", onSignal)
        process.removeListener("SIGTERM", onSignal)
        onExit(code)
      }
    })
  )
}

main()
