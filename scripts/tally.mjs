/**
 * Says in one line, `N passed, N failed`, what vitest's JSON report (its path is the argument) tells of the tests, and
 * `, N skipped` where there are such. What failed without being a test counts as one: a file that does not load, a run
 * without a report, an error outside of tests.
 */
import { readFile } from "node:fs/promises"

const read = async (path) => {
  try {
    return JSON.parse(await readFile(path, "utf8"))
  } catch {
    return { success: false, numPassedTests: 0, numFailedTests: 0, numPendingTests: 0, testResults: [] }
  }
}

const report = await read(process.argv[2])
const unloaded = report.testResults.filter(
  ({ assertionResults, status }) => status === "failed" && !assertionResults.some((test) => test.status === "failed")
)
const failed = Math.max(report.numFailedTests + unloaded.length, report.success ? 0 : 1)
const skipped = report.numPendingTests === 0 ? "" : `, ${report.numPendingTests} skipped`
console.log(`${report.numPassedTests} passed, ${failed} failed${skipped}`)
