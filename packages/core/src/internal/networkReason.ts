/** Why a connection failed, in words, from the errors that Node's sockets give. */

import * as Data from "effect/Data"

/** A failure of ours among those of Node's, on ways that carry those: its reason is in words already. */
export class Explained extends Data.TaggedError("Explained")<{ readonly reason: string }> {}

const headTooLong = "the head of its answer is too long"

const unknownCa = "its CA is not known; name it in NODE_EXTRA_CA_CERTS"

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  EPIPE: "connection reset",
  ENOTFOUND: "host not found",
  EAI_AGAIN: "host not found for now",
  ETIMEDOUT: "connection timed out",
  EHOSTUNREACH: "host unreachable",
  ENETUNREACH: "network unreachable",
  EMFILE: "too many open files here; raise `ulimit -n`",
  CERT_HAS_EXPIRED: "its certificate has expired",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed; name its CA in NODE_EXTRA_CA_CERTS",
  SELF_SIGNED_CERT_IN_CHAIN: unknownCa,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownCa,
  UNABLE_TO_GET_ISSUER_CERT: unknownCa,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownCa,
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another host",
  EPROTO: "it does not speak TLS, or not a version known here",
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not speak TLS, or not a version known here",
  HTTPParserError: "it does not speak HTTP",
  HPE_HEADER_OVERFLOW: headTooLong,
  UND_ERR_HEADERS_OVERFLOW: headTooLong,
  UND_ERR_RES_EXCEEDED_MAX_SIZE: "its answer is too long",
  UND_ERR_INVALID_ARG: "the token has characters that a header cannot hold",
  UND_ERR_SOCKET: "connection cut",
  UND_ERR_CONNECT_TIMEOUT: "connection timed out"
}

/**
 * The first error in the chain of causes whose code is known decides. An unknown code is named; a message is
 * not quoted, since it may hold headers or addresses.
 */
export const networkReason = (error: unknown): string => {
  let code: string | undefined
  for (let cause = error; isObject(cause); cause = "cause" in cause ? cause.cause : undefined) {
    if (cause instanceof Explained) return cause.reason
    const found = codeOf(cause)
    if (found === undefined) continue
    const known = words[found]
    if (known !== undefined) return known
    code ??= found
  }
  return code === undefined ? "the connection failed" : `the connection failed (${code})`
}

/**
 * The error's own code, or of several attempts, one an address, the first's. The parsers of
 * undici and Node have many codes, or none.
 */
const codeOf = (error: object): string | undefined => {
  if ("name" in error && error.name === "HTTPParserError") return error.name
  if ("code" in error && typeof error.code === "string") {
    return error.code.startsWith("HPE_INVALID") ? "HTTPParserError" : error.code
  }
  const attempts = "errors" in error && Array.isArray(error.errors) ? error.errors : []
  const first: unknown = attempts[0]
  return isObject(first) && "code" in first && typeof first.code === "string" ? first.code : undefined
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null
