/** The demo as a user runs it: the built program in a process of its own. */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"

const bin = fileURLToPath(new URL("../dist/bin.js", import.meta.url))

describe("miroir-effect demo", () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "miroir-demo-"))
  })
  afterAll(() => rm(folder, { recursive: true }))

  const run = async (out: string) => {
    const { stderr, stdout } = await promisify(execFile)(process.execPath, [bin, "demo", "--out", out], { cwd: folder })
    const [made] = await readdir(join(folder, out))
    assert.isDefined(made)
    const at = join(folder, out, `${made}`)
    const [traces] = await readdir(join(at, "traces"))
    return {
      stderr,
      stdout,
      calibration: await readFile(join(at, "calibration.json"), "utf8"),
      lines: (await readFile(join(at, "traces", `${traces}`), "utf8")).trimEnd().split("\n"),
      where: join(out, `${made}`)
    }
  }

  it("plays each train task eight times: all classes, a void, a harm; the same seed gives the same calibration", async () => {
    const [one, other] = await Promise.all([run("one"), run("other")])
    assert.strictEqual(one.calibration, other.calibration)

    const tasks: ReadonlyArray<Record<string, number | string>> = Object.values(JSON.parse(one.calibration).tasks)
    assert.includeMembers(
      tasks.map((task) => task.class),
      ["solved", "learnable", "out_of_reach"]
    )
    assert.isTrue(tasks.some((task) => Number(task.void) > 0))
    assert.isTrue(tasks.some((task) => Number(task.harm_rate) > 0))

    const records: ReadonlyArray<{ task_id: string }> = one.lines.map((line) => JSON.parse(line))
    assert.strictEqual(records.length, 8 * tasks.length)
    for (const id of new Set(records.map(({ task_id }) => task_id))) {
      assert.lengthOf(
        records.filter(({ task_id }) => task_id === id),
        8
      )
    }
    // A coworker was asked, and a model answered: without that nobody knows the figure.
    assert.isTrue(JSON.parse(one.calibration).tasks["travel-budget"]["pass@1"] > 0)

    assert.match(one.stdout, /^task +class/m)
    assert.include(one.stdout, join(one.where, "calibration.json"))
    assert.include(one.stderr, `${records.length} of ${records.length} rollouts`)
    assert.include(one.stderr, join(one.where, "traces"))
    assert.notMatch(one.stderr, /\u001b|\r/)
  })

  it("has a folder of its own in each run, or says why there is none", async () => {
    const outs = await Promise.all(
      Array.from({ length: 3 }, () =>
        promisify(execFile)(process.execPath, [bin, "demo", "--out", "a b"], { cwd: folder })
      )
    )
    assert.strictEqual(new Set(outs.map(({ stdout }) => /written to (.*)$/m.exec(stdout)?.[1])).size, 3)
    for (const { stderr, stdout } of outs) {
      assert.include(stdout, " of 96 rollouts")
      assert.match(stderr, /calibrate 'a b\/[^']+\/traces' --model/)
    }
    const file = promisify(execFile)(process.execPath, [bin, "demo", "--out", bin], { cwd: folder })
    const failure = await file.then(
      () => undefined,
      (error: { readonly code: number; readonly stderr: string }) => error
    )
    assert.strictEqual(failure?.code, 1)
    assert.match(failure?.stderr ?? "", /^error: [^\n]+: no folder can be made there: [^\n]+\n$/)
  })

  it.skipIf(!existsSync("/proc/self")).each([
    ["demo", "--out", "no folder can be made there"],
    ["calibrate r.jsonl --model m", "--out", "there is no such file or folder"],
    ["serve", "--url-file", "there is no such file or folder"]
  ])("ends where %s %s is below /proc, which has no room for folders", async (command, option, reason) => {
    const graded = { task_id: "t", reward: 1, metadata: { task_hash: "t-1", success: true } }
    await writeFile(join(folder, "r.jsonl"), `${JSON.stringify(graded)}\n`.repeat(2))
    const args = [bin, ...command.split(" "), option, "/proc/no-such/a/b"]
    // One that hangs is killed, and has no exit code.
    const run = promisify(execFile)(process.execPath, args, { cwd: folder, timeout: 20_000, killSignal: "SIGKILL" })
    const failure = await run.then(
      () => undefined,
      (error: { readonly code: number; readonly stderr: string }) => error
    )
    assert.strictEqual(failure?.code, 1)
    assert.match(failure?.stderr ?? "", new RegExp(`^error: .*/proc/no-such/a/b: ${reason}[^\\n]*\\n$`))
  })

  it("ends at a signal, with the shell's exit code and without a stack", async () => {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143]
    ] as const) {
      const child = spawn(process.execPath, [bin, "demo", "--out", signal], { cwd: folder })
      let said = ""
      child.stderr.on("data", (data) => {
        said += data
        if (said.includes("plays")) child.kill(signal)
      })
      assert.deepStrictEqual(await once(child, "exit"), [code, null])
      assert.notInclude(said, "    at ")
    }
  })
})
