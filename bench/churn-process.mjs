/** A process of `lease-processes`: says when it is ready, runs when it is told to, and says when it is done. */
import { churn } from "./churn.mjs"

process.on("message", async (options) => {
  await churn(options)
  process.send("done")
})
process.send("ready")
