/** Cutting a connection so that its peer is told of no orderly end. */

import type * as Net from "node:net"

/** By a reset (RST). Of a connection whose end is under way Node makes none: it would leave that open for good. */
export const reset = (socket: Net.Socket): void => {
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}
