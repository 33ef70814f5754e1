import { fileURLToPath } from "node:url"
import { defineWorkspace } from "vitest/config"

const source = (path: string) => fileURLToPath(new URL(`./packages/${path}`, import.meta.url))

/** Tests run on the sources, not on what was built of them. */
const alias = [
  { find: /^@miroir-effect\/(core|env|testing)$/, replacement: source("$1/src/index.ts") },
  { find: /^@miroir-effect\/(core|env|testing)\/(.+)$/, replacement: source("$1/src/$2.ts") },
  { find: /^miroir-effect$/, replacement: source("miroir-effect/src/index.ts") }
]

export default defineWorkspace(
  ["core", "env", "testing", "miroir-effect"].map((name) => ({
    resolve: { alias },
    test: {
      name,
      root: source(name),
      include: ["test/**/*.test.ts"],
      testTimeout: 30_000,
      // The tests' servers are on loopback, where the proxies of whoever runs the tests do not lead.
      env: { NO_PROXY: "*", no_proxy: "*" }
    }
  }))
)
