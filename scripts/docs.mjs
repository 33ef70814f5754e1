/**
 * The API docs of all that the packages export, as HTML in docs/api. Fails where something has none: each export wants
 * a line on what it is, `@since` and `@category`, each module a line and `@since`. With `--check` nothing is written.
 */
import { readdir, readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { Application, Comment, CommentTag, Converter, LogLevel, MinimalSourceFile, ReflectionKind } from "typedoc"
import ts from "typescript"

// TypeDoc colours what goes into a pipe too.
if (!process.stdout.isTTY) process.env.NO_COLOR = "1"

const root = fileURLToPath(new URL("..", import.meta.url))
const packages = ["core", "env", "testing", "miroir-effect"]

/** The modules that a package's `exports` let through, but for the index, which only names the others. */
const modulesOf = async (folder) => {
  const { exports, name } = JSON.parse(await readFile(`${root}packages/${folder}/package.json`, "utf8"))
  const files = (await readdir(`${root}packages/${folder}/src`)).filter((file) => file.endsWith(".ts"))
  return files
    .map((file) => ({ module: file.replace(/\.ts$/, ""), file: `${root}packages/${folder}/src/${file}` }))
    .filter(({ module }) => module !== "index" && exports[`./${module}`] !== null)
    .map(({ file, module }) => ({ file, name: `${name}/${module}` }))
}

/** All packages as one program, on their sources. */
const programOf = (files) => {
  const { config } = ts.readConfigFile(`${root}tsconfig.effects.json`, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const paths = Object.fromEntries(
    packages.map((name) => [`@miroir-effect/${name}/*`, [`${root}packages/${name}/src/*.ts`]])
  )
  return ts.createProgram(files, { ...options, paths })
}

/** A file's first comment, which TypeDoc by itself takes for its module's only where a tag says so. */
const headerOf = (text) => {
  const lines = /^\/\*\*([\s\S]*?)\*\//.exec(text)?.[1].replace(/^ \* ?/gm, "") ?? ""
  const [summary, ...since] = lines.split("@since").map((part) => part.trim())
  return { summary, since }
}

/** What an export, or a module, has no docs of. */
const lacks = (reflection) => {
  const comment = reflection.comment ?? reflection.signatures?.[0]?.comment ?? new Comment()
  const line = Comment.combineDisplayParts(comment.summary).trim() === "" ? ["a line on what it is"] : []
  const wanted = reflection.kind === ReflectionKind.Module ? ["@since"] : ["@since", "@category"]
  return [...line, ...wanted.filter((tag) => comment.getTag(tag) === undefined)]
}

const modules = (await Promise.all(packages.map(modulesOf))).flat()
const program = programOf(modules.map(({ file }) => file))
const headers = new Map(modules.map(({ file, name }) => [name, headerOf(program.getSourceFile(file).text)]))

const app = await Application.bootstrap({
  name: "miroir-effect",
  out: `${root}docs/api`,
  readme: "none",
  logLevel: LogLevel.Warn,
  disableSources: true,
  excludeExternals: true
})
app.converter.on(Converter.EVENT_CREATE_DECLARATION, ({ project }, reflection) => {
  if (reflection.kind !== ReflectionKind.Module) return
  const { since, summary } = headers.get(reflection.name)
  const { content } = app.converter.parseRawComment(new MinimalSourceFile(summary, reflection.name), project.files)
  reflection.comment = new Comment(
    content,
    since.map((text) => new CommentTag("@since", [{ kind: "text", text }]))
  )
})
const project = app.converter.convert(
  modules.map(({ file, name }) => ({ displayName: name, program, sourceFile: program.getSourceFile(file) }))
)
app.validate(project)
for (const module of project.children) {
  for (const reflection of [module, ...module.children]) {
    const lacking = lacks(reflection)
    if (lacking.length > 0) app.logger.error(`${reflection.getFullName()} lacks ${lacking.join(", ")}`)
  }
}
if (!process.argv.includes("--check")) {
  await app.generateOutputs(project)
  console.log("The API docs begin at docs/api/index.html.")
}
process.exitCode = app.logger.hasErrors() || app.logger.hasWarnings() ? 1 : 0
