/** Why a file could not be used, in words for a message. */
import type { PlatformError } from "@effect/platform/Error"

export const platformReason = (error: PlatformError): string => {
  if (error._tag === "BadArgument") return error.description ?? "it cannot be used"
  switch (error.reason) {
    case "NotFound":
      return "there is no such file or folder"
    case "PermissionDenied":
      return "permission denied"
    case "WriteZero":
      return "nothing could be written"
    default:
      return error.description ?? error.reason
  }
}
