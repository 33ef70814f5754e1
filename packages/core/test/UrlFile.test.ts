/** URL files, against what the Python client read in the same texts. */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, it } from "@effect/vitest"
import * as UrlFile from "@miroir-effect/core/UrlFile"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"

const vectors: ReadonlyArray<{
  readonly text: string
  readonly urls?: ReadonlyArray<string>
  readonly error?: string
}> = JSON.parse(readFileSync(new URL("./vectors/url-files.json", import.meta.url), "utf8"))

it.scoped("lists what the Python client finds in it, or fails with its code", () =>
  Effect.gen(function* () {
    assert.isAbove(vectors.length, 10)
    const fs = yield* FileSystem.FileSystem
    const file = yield* fs.makeTempFileScoped()
    for (const { error, text, urls } of vectors) {
      yield* fs.writeFileString(file, text)
      const read = yield* Effect.either(UrlFile.read(file))
      assert.deepStrictEqual(
        Either.mapLeft(read, ({ code }) => code),
        urls === undefined ? Either.left(error ?? "") : Either.right(urls)
      )
    }
  }).pipe(Effect.provide(NodeFileSystem.layer))
)

it.scoped("says why it cannot be read, and where, but no userinfo", () =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const file = yield* fs.makeTempFileScoped()
    const failing = (bytes: Uint8Array) => Effect.zipRight(fs.writeFile(file, bytes), Effect.flip(UrlFile.read(file)))
    const missing = yield* Effect.flip(UrlFile.read(`${file}.missing`))
    assert.strictEqual(missing.message, `URL file ${file}.missing: there is no such file.`)
    const folder = yield* Effect.flip(UrlFile.read(fileURLToPath(new URL(".", import.meta.url))))
    assert.match(folder.message, /it cannot be read/)
    assert.match((yield* failing(Uint8Array.of(0x68, 0xff))).message, /it is no UTF-8 text/)
    const wrong = yield* failing(Buffer.from("# pool\nhttp://ok.example\n\nftp://me:hidden@\u001b[2Jhost # x\n"))
    assert.deepInclude(wrong, { _tag: "UrlFileError", file, line: 4 })
    assert.match(wrong.message, /, line 4: "ftp:\/\/\\u001b\[2Jhost" is not http/)
  }).pipe(Effect.provide(NodeFileSystem.layer))
)

it("ignores blank lines, spaces around a URL, and comments", () => {
  const url = FastCheck.nat(9999).map((number) => `http://host-${number}.example:${number + 1}/p`)
  const space = FastCheck.stringMatching(/^[ \t\r]{0,3}$/)
  const comment = FastCheck.stringMatching(/^(#[^\n]{0,10})?$/)
  const line = FastCheck.tuple(space, FastCheck.option(url), space, comment)
  FastCheck.assert(
    FastCheck.property(FastCheck.array(line), (lines) => {
      const urls = lines.flatMap(([, url]) => (url === null ? [] : [url]))
      const text = lines.map(([before, url, after, comment]) => `${before}${url ?? ""}${after}${comment}`).join("\n")
      const parsed = UrlFile.parse("pool", text)
      if (urls.length === 0) assert.isTrue(Either.isLeft(parsed))
      else assert.deepStrictEqual(parsed, Either.right(urls))
    })
  )
})

it.scoped("is written whole, over an earlier one, into a folder made on demand, and reads as it was given", () =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const folder = yield* fs.makeTempDirectoryScoped()
    const file = `${folder}/new/hosts.txt`
    for (const urls of [["http://a:1", "https://b/c"], ["http://d"]]) {
      yield* UrlFile.write(file, urls)
      assert.deepStrictEqual(yield* UrlFile.read(file), urls)
    }
    assert.deepStrictEqual(yield* fs.readDirectory(`${folder}/new`), ["hosts.txt"])
    const error = yield* Effect.flip(UrlFile.write(`${file}/below`, ["http://a"]))
    assert.deepInclude(error, { _tag: "UrlFileError", file: `${file}/below` })
  }).pipe(Effect.provide([NodeFileSystem.layer, NodePath.layer]))
)
