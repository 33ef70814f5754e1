/**
 * Folders that are made on demand, wherever a path leads.
 *
 * @since 0.1.0
 */

import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import { makeFolder } from "./internal/folders.js"

/**
 * Makes a folder and those above it, where they are not there; links are followed. Unlike `mkdir` of Node with
 * `recursive`, it ends also below /proc, and tells apart why a folder cannot be made.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (folder: string): Effect.Effect<void, PlatformError, FileSystem.FileSystem | Path.Path> =>
  Effect.flatMap(Effect.all([FileSystem.FileSystem, Path.Path]), ([fs, path]) => makeFolder(fs, path, folder))
