/** Base URLs: what is one, and what of it may be shown. */
import { assert, describe, it } from "@effect/vitest"
import * as BaseUrl from "@miroir-effect/core/BaseUrl"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"

const parsed = (text: string) => Either.getOrThrowWith(BaseUrl.parse(text), (error) => error)

const host = FastCheck.oneof(
  FastCheck.domain(),
  FastCheck.ipV4(),
  FastCheck.ipV6().map((ip) => `[${ip}]`)
)
const port = FastCheck.oneof(
  FastCheck.constant(""),
  FastCheck.integer({ min: 1, max: 65535 }).map((number) => `:${number}`)
)
const segment = FastCheck.stringMatching(/^[a-z0-9_~-]{1,8}$/)
const scheme = FastCheck.constantFrom("http", "https", "HTTP", "hTTps")

describe("a base URL", () => {
  it("has a host, whatever the WHATWG parser makes of it", () => {
    const wrong = [
      ...["", " ", "localhost:8000", "ftp://x.example", "ws://x", "//x.example", "file:///x", "javascript:1"],
      ...["http:x.example", "http:/x.example", "http:///x.example", "http://", "http://?q", "http://#f", "http:\\\\x"],
      ...["http://x y", " http://x", "http://x\n", "http://[::1", "http://x:99999", "http://x:port", "http://user@"]
    ]
    for (const text of wrong) assert.isTrue(Either.isLeft(BaseUrl.parse(text)), text)
  })

  it("is normalised, so that two of one container are the same", () => {
    for (const [text, href] of [
      ["HTTP://Env.Example:80//", "http://env.example"],
      ["https://env.example:443/a/b///?q=1#f", "https://env.example/a/b"],
      ["http://[0:0::1]:9000/", "http://[::1]:9000"],
      ["http://user:pass@env.example/x/../y", "http://env.example/y"]
    ] as const) {
      assert.strictEqual(parsed(text).href, href)
    }
  })

  it("gives addresses under its path, and none of its userinfo", () => {
    FastCheck.assert(
      FastCheck.property(
        scheme,
        host,
        port,
        FastCheck.array(segment, { maxLength: 3 }),
        FastCheck.nat(3),
        FastCheck.uuid(),
        (scheme, host, port, path, slashes, hidden) => {
          const tail = path.map((part) => `/${part}`).join("") + "/".repeat(slashes)
          const base = parsed(`${scheme}://u:${hidden}@${host}${port}${tail}`)
          const bare = parsed(`${scheme}://${host}${port}${tail}`)
          assert.strictEqual(base.href, bare.href)
          assert.deepStrictEqual(parsed(base.href), bare)
          assert.notMatch(base.href, /\/$/)
          assert.strictEqual(BaseUrl.webSocket(base), `${base.href.replace(/^http/, "ws")}/ws`)
          assert.notInclude(JSON.stringify(base), hidden)
          assert.isTrue(Option.isNone(bare.userinfo))
        }
      )
    )
  })

  it("keeps a part that a server chose within its part", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.string({ unit: "binary", minLength: 1, maxLength: 12 }), (part) => {
        FastCheck.pre(!/^\.{1,2}$/.test(part))
        const url = new URL(BaseUrl.endpoint(parsed("http://env.example/base"), part, "tasks"))
        const [, base, encoded = "", last, ...more] = url.pathname.split("/")
        assert.deepStrictEqual([base, last, more, url.search, url.hash], ["base", "tasks", [], "", ""])
        assert.strictEqual(decodeURIComponent(encoded), part.toWellFormed())
      })
    )
  })

  it("authorizes by the token, else by the userinfo, else not", () => {
    const header = (url: string, token?: string) =>
      BaseUrl.authorization(parsed(url), Option.fromNullable(token).pipe(Option.map(Redacted.make))).pipe(
        Option.map(Redacted.value),
        Option.getOrUndefined
      )
    const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`
    assert.strictEqual(header("http://env.example"), undefined)
    assert.strictEqual(header("http://env.example", "t"), "Bearer t")
    assert.strictEqual(header("http://u:p@env.example", "t"), "Bearer t")
    assert.strictEqual(header("http://u:p@env.example"), basic("u:p"))
    assert.strictEqual(header("http://u@env.example"), basic("u:"))
    assert.strictEqual(header("http://u%40x:p%C3%A9%3A@env.example"), basic("u@x:pé:"))
    assert.strictEqual(header("http://100%:p@env.example"), basic("100%:p"))
  })

  it("is not shown with its userinfo where it is wrong", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.constantFrom("ftp://", "http:/", "http:", "ws://", "", "http:///", "http://@", "http://a b@"),
        FastCheck.stringMatching(/^[a-f]{16}$/),
        FastCheck.constantFrom("", "/x", ":1", "@y.example"),
        FastCheck.constantFrom("u:", ""),
        (start, hidden, end, user) => {
          const result = BaseUrl.parse(`${start}${user}${hidden}:@x y.example${end}`)
          assert.isTrue(Either.isLeft(result))
          assert.notInclude(`${Either.getOrThrow(Either.flip(result)).message}${JSON.stringify(result)}`, hidden)
        }
      )
    )
  })
})
