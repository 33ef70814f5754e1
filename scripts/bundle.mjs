/**
 * Bundles the command line into packages/miroir-effect/dist/bin.js. What only a
 * subcommand needs is behind its `import()`, which esbuild turns into files of
 * their own in dist/chunks/: a start reads only those of what was asked for.
 */
import { chmod, lstat, mkdir, readFile, rm, symlink } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const dist = at("packages/miroir-effect/dist")
const bin = `${dist}/bin.js`

/** Modules of Node's that take a start up to 3 ms, and that it mostly does not need: each name loads the module when it is used. */
const lazy = ["node:crypto", "node:net", "node:zlib"]
const lazily = (
  path
) => `for (const name of ${JSON.stringify(Object.keys(process.getBuiltinModule(path)).join())}.split(","))
  Object.defineProperty(exports, name, { enumerable: true, get: () => require(${JSON.stringify(path)})[name] })`

// Their names have a hash of what is in them, so those of before would stay.
await rm(`${dist}/chunks`, { recursive: true, force: true })
const { metafile } = await build({
  entryPoints: [at("packages/miroir-effect/src/bin.ts")],
  outdir: dist,
  chunkNames: "chunks/[name]-[hash]",
  splitting: true,
  metafile: true,
  bundle: true,
  platform: "node",
  target: "node20",
  format: "esm",
  legalComments: "none",
  // Less text to parse at each start; names stay readable in a stack.
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: "warning",
  plugins: [
    {
      name: "undici",
      setup: ({ onResolve }) => onResolve({ filter: /^undici$/ }, () => ({ path: at("scripts/undici.cjs") }))
    },
    {
      // An `import` of a module of Node's stays at the head of the file; a `require` runs with the module that asks for it.
      name: "lazy builtins",
      setup: ({ onLoad, onResolve }) => {
        onResolve({ filter: /^node:/ }, ({ kind, path }) =>
          kind === "import-statement" ? { path, namespace: "builtin" } : { path, external: true }
        )
        onLoad({ filter: /./, namespace: "builtin" }, ({ path }) => ({
          contents: lazy.includes(path) ? lazily(path) : `module.exports = require(${JSON.stringify(path)})`
        }))
      }
    },
    {
      // Making it takes 8 ms, and only a task's id beyond ASCII needs it.
      name: "lazy segmenter",
      setup: ({ onLoad }) =>
        onLoad({ filter: /[\\/]string-width[\\/]index\.js$/ }, async ({ path }) => {
          const source = await readFile(path, "utf8")
          const eager = "const segmenter = new Intl.Segmenter();"
          if (!source.includes(eager)) return { errors: [{ text: `"${eager}" is not there any more.` }] }
          const lazy = "{ segment: (text) => (made ??= new Intl.Segmenter()).segment(text) }"
          return { contents: source.replace(eager, `let made; const segmenter = ${lazy};`) }
        })
    }
  ],
  // CommonJS modules within (undici, ws) ask by `require`, which an ES module has not, for Node's, and for some that may not be
  // there. Making Node's own `require` takes a millisecond in each file.
  banner: {
    js: 'const require=(id)=>process.getBuiltinModule(id)??process.getBuiltinModule("module").createRequire(import.meta.url)(id);'
  }
})
// A single character more has Node read all of a file in two bytes a character, which each start would feel.
for (const file of Object.keys(metafile.outputs)) {
  const beyond = /.{0,40}[^\u0000-\u007f].{0,40}/.exec(await readFile(file, "utf8"))
  if (beyond !== null) throw new Error(`The bundle is not all ASCII; write it as \\u....: ${beyond[0]}`)
}
await chmod(bin, 0o755)
// The compiler's, of the file that the bundle has replaced.
await rm(`${bin}.map`, { force: true })

// `npm ci` links a bin only where its file exists by then, so on a clean clone the link is made here, as npm makes it.
const link = at("node_modules/.bin/miroir-effect")
const linked = await lstat(link).catch((error) => {
  if (error.code !== "ENOENT") throw error
})
if (linked === undefined && process.platform !== "win32") {
  await mkdir(at("node_modules/.bin"), { recursive: true })
  await symlink("../miroir-effect/dist/bin.js", link)
}
