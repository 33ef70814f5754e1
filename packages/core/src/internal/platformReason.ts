/** Why a file could not be used, in words for a message. */

import type { PlatformError } from "@effect/platform/Error"

/** Node begins a description with the error's code. */
const words: Readonly<Record<string, string>> = {
  EISDIR: "it is a folder",
  EEXIST: "it is there already, and no folder",
  ENOTDIR: "a part of its path is a file, not a folder",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EFBIG: "the file is larger than it may be",
  EIO: "the disk failed",
  EPERM: "permission denied",
  EROFS: "the file system is read-only",
  EMFILE: "too many files are open",
  ENAMETOOLONG: "its name is too long",
  ELOOP: "its links lead in a circle"
}

export const platformReason = (error: PlatformError): string => {
  const description = error.description ?? ""
  const known = words[/^[A-Z]+(?=:)/.exec(description)?.[0] ?? ""]
  if (known !== undefined) return known
  if (error._tag === "BadArgument") return description || "it cannot be used"
  switch (error.reason) {
    case "NotFound":
      return "there is no such file or folder"
    case "PermissionDenied":
      return "permission denied"
    case "WriteZero":
      return "nothing could be written"
    default:
      return description || error.reason
  }
}
