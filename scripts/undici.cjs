/**
 * What the bundle has of undici: the parts that an HTTP client needs. The rest (fetch, caches, cookies, mocks) is some
 * 400 KB, which every start of the command line would read.
 */
const Dispatcher = require("../node_modules/undici/lib/dispatcher/dispatcher.js")

Object.assign(Dispatcher.prototype, require("../node_modules/undici/lib/api/index.js"))

module.exports = {
  Agent: require("../node_modules/undici/lib/dispatcher/agent.js"),
  Dispatcher,
  buildConnector: require("../node_modules/undici/lib/core/connect.js"),
  errors: require("../node_modules/undici/lib/core/errors.js")
}
