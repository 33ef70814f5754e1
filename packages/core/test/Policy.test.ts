/** Policies behind real HTTP: what is asked, what of the answers becomes a turn, and what each failure is. */
import { assert, describe, it } from "@effect/vitest"
import * as Json from "@miroir-effect/core/Json"
import type { PolicyError } from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Policy from "@miroir-effect/core/Policy"
import type { Tool } from "@miroir-effect/core/Protocol"
import * as Telemetry from "@miroir-effect/core/Telemetry"
import * as ChatEndpoint from "@miroir-effect/testing/ChatEndpoint"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { passPause, turn } from "./support/pauses.js"
import { watching } from "./support/watching.js"

type Answer = ChatEndpoint.ChatAnswer

const secret = "sk-0123456789abcdef"
const task = { id: "t", task_hash: "h", instruction: "Look." }
const messages = [{ role: "user", content: "Well?" }]
const moment: Policy.Moment = { task, rollout: 0, attempt: 1, messages, tools: [] }

const policyAt = (baseUrl: string, settings: Partial<Policy.Settings> = {}) =>
  Effect.flatMap(Layer.build(NodeHttp.layer), (http) =>
    Effect.provide(Policy.make({ baseUrl, model: "m", retry: Schedule.recurs(2), ...settings }), http)
  )

/** What the policy makes of one answer, and how often it had to ask. */
const turnOf = Effect.fn(function* (answer: Answer, settings?: Partial<Policy.Settings>, prefix?: string) {
  const endpoint = yield* ChatEndpoint.make({ answers: () => answer, ...(prefix === undefined ? {} : { prefix }) })
  const { next } = yield* policyAt(endpoint.url, settings)
  const turn = yield* Effect.either(next(moment))
  return { turn, asked: (yield* endpoint.requests).length, url: endpoint.url }
}, Effect.scoped)

const error = (message: string, rest: Json.JsonObject = {}): Json.Json => ({ error: { message, ...rest } })

const message = (rest: Json.JsonObject) => ({ role: "assistant", content: null, ...rest })

const look = { id: "c", type: "function", function: { name: "look", arguments: "{}" } }

describe("a request", () => {
  it.scoped("has the conversation, the tools as functions, and the sampling that is set", () =>
    Effect.gen(function* () {
      const endpoint = yield* ChatEndpoint.make({ answers: () => ({ text: "Yes." }), apiKey: secret })
      const schema = { type: "object", properties: { n: { type: "integer", maximum: 2n ** 60n } } }
      const tools: ReadonlyArray<Tool> = [
        { name: "a", description: "A.", inputSchema: schema, annotations: {} },
        { name: "b", description: null, input_schema: schema },
        { name: "c", parameters: schema },
        { name: "d", inputSchema: null }
      ]
      const named = (name: string, rest: Json.JsonObject) => ({ type: "function", function: { name, ...rest } })
      const odd = [
        ...messages,
        message({ tool_calls: [look], reasoning_content: "hm" }),
        { role: "tool", content: "é" }
      ]
      const settings = {
        apiKey: Redacted.make(secret),
        temperature: 0.5,
        topP: 0.9,
        maxTokens: 100,
        seed: 7,
        extraBody: { top_k: 20, chat_template_kwargs: { enable_thinking: false } }
      }
      const policy = yield* policyAt(endpoint.url, settings)
      const { apiKey: _, extraBody, maxTokens, topP, ...sampling } = settings
      const sent = { ...sampling, top_p: topP, max_tokens: maxTokens }
      assert.deepStrictEqual(policy.settings, { ...sent, extra_body: extraBody })
      yield* policy.next({ ...moment, rollout: 3, attempt: 2, messages: odd, tools })
      const bare = yield* policyAt(endpoint.url, { apiKey: Redacted.make(secret) })
      assert.deepStrictEqual([bare.model, bare.settings], ["m", {}])
      yield* bare.next(moment)
      const [all, least] = (yield* endpoint.requests).map(({ body }) => body)
      assert.deepStrictEqual(all, {
        model: "m",
        messages: odd,
        tools: [
          named("a", { description: "A.", parameters: schema }),
          named("b", { parameters: schema }),
          named("c", { parameters: schema }),
          named("d", { parameters: { type: "object", properties: {} } })
        ],
        ...sent,
        ...extraBody,
        // Each rollout of a task has a seed of its own.
        seed: 10
      })
      assert.deepStrictEqual(least, { model: "m", messages })
    })
  )

  it.scoped(
    "names tools, and their arguments' schemas, as OpenAI's API takes them; the policy has their own names",
    () =>
      Effect.gen(function* () {
        const long = "a".repeat(80)
        const names = [
          "files.read",
          "files read",
          "files_read",
          "files_read_2",
          `${long}1`,
          `${long}2`,
          "\u043a\u043b",
          "\u{1f642}",
          ""
        ]
        const tools = names.map((name, index) => ({
          name,
          inputSchema: index === 0 ? { $defs: {} } : { type: "object" }
        }))
        const call = (name: Json.Json): Json.JsonObject => ({
          id: "c",
          type: "function",
          function: { name, arguments: "{}" }
        })
        const offered = (body: Json.Json): ReadonlyArray<string> =>
          JSON.parse(JSON.stringify(body)).tools.map(
            (tool: { readonly function: { readonly name: string } }) => tool.function.name
          )
        const endpoint = yield* ChatEndpoint.make({
          answers: ({ body }) => ({
            message: {
              ...message({ tool_calls: [...offered(body), "nobody's"].map(call) }),
              function_call: { name: offered(body)[0] ?? "" }
            }
          })
        })
        const policy = yield* policyAt(endpoint.url)
        const turn = yield* policy.next({ ...moment, tools })
        assert.deepStrictEqual(turn.message, {
          role: "assistant",
          content: null,
          tool_calls: [...names, "nobody's"].map(call),
          function_call: { name: "files.read" }
        })
        yield* policy.next({ ...moment, messages: [...messages, turn.message], tools })
        const [first, second] = (yield* endpoint.requests).map(({ body }) => (Json.isObject(body) ? body : {}))
        const sent = offered(first ?? null)
        assert.isTrue(
          sent.every((name) => /^[a-zA-Z0-9_-]{1,64}$/.test(name)),
          `${sent}`
        )
        assert.lengthOf(new Set(sent), names.length)
        assert.deepStrictEqual(sent.slice(2, 4), names.slice(2, 4))
        assert.deepStrictEqual(Json.isArray(second?.messages) && second.messages[1], turn.choice?.message)
        const [bare, typed] = Json.isArray(first?.tools) ? first.tools : []
        assert.deepNestedInclude(bare, { "function.parameters": { type: "object", properties: {}, $defs: {} } })
        assert.deepNestedInclude(typed, { "function.parameters": { properties: {}, type: "object" } })
      })
  )

  const invalid: ReadonlyArray<[Partial<Policy.Settings>, string]> = [
    [{ model: "" }, "model"],
    [{ temperature: Number.NaN }, "temperature"],
    [{ temperature: -1 }, "temperature"],
    [{ topP: 1.1 }, "topP"],
    [{ topP: Number.POSITIVE_INFINITY }, "topP"],
    [{ maxTokens: 0 }, "maxTokens"],
    [{ maxTokens: 1.5 }, "maxTokens"],
    [{ seed: 2 ** 60 }, "seed"],
    [{ concurrency: 0 }, "concurrency"],
    ...["model", "messages", "tools", "stream"].map((key): [Partial<Policy.Settings>, string] => [
      { extraBody: { [key]: null } },
      key
    ]),
    [{ temperature: 1, extraBody: { temperature: 1 } }, "temperature"],
    [{ maxTokens: 1, extraBody: { max_tokens: 1 } }, "max_tokens"],
    [{ apiKey: Redacted.make("sk-0\n") }, "apiKey"],
    [{ apiKey: Redacted.make("sk-\u043a") }, "apiKey"]
  ]
  it.scoped("is made of settings that a model can have, from the environment too", () =>
    Effect.gen(function* () {
      for (const [settings, name] of invalid) {
        const failure = yield* Effect.flip(policyAt("http://h/v1", settings))
        assert.strictEqual(failure._tag, "InvalidSetting", name)
        assert.match(failure.message, new RegExp(`^The setting .*\\b${name}\\b`))
        assert.match(failure.message, /has to be|cannot have|cannot hold/)
      }
      yield* policyAt("http://h/v1", { temperature: 2, topP: 0, seed: -1, extraBody: { top_k: 1 } })
      assert.strictEqual((yield* Effect.flip(policyAt("ftp://h")))._tag, "InvalidUrls")
      const environment = { BASE_URL: "http://h/v1", MODEL: "m", API_KEY: secret }
      const read = Effect.withConfigProvider(
        Policy.config,
        ConfigProvider.fromMap(
          new Map(Object.entries(environment).map(([key, value]) => [`MIROIR_POLICY_${key}`, value]))
        )
      )
      const { apiKey, ...rest } = yield* read
      assert.deepStrictEqual(rest, { baseUrl: "http://h/v1", model: "m" })
      assert.strictEqual(apiKey === undefined ? "" : Redacted.value(apiKey), secret)
      const layered = yield* Effect.exit(
        Effect.provide(Policy.Policy, Layer.provide(Policy.layerConfig, NodeHttp.layer))
      )
      assert.isTrue(Exit.isFailure(layered))
    })
  )
})

describe("a turn", () => {
  const asItCame: ReadonlyArray<[string, Json.JsonObject, Json.JsonObject?]> = [
    ["a text", { content: "Yes." }],
    ["a call", { content: null, tool_calls: [look] }],
    ["calls that are broken", { content: "", tool_calls: [{ function: { name: "look", arguments: "{" } }, null, 7] }],
    ["no content, no calls", { tool_calls: null, function_call: null, refusal: null, annotations: [] }],
    ["reasoning of all sorts", { content: "A", reasoning_content: "hm", reasoning: "hm", reasoning_details: [{}] }],
    ["reasoning only", { content: null, reasoning_content: "hm" }],
    [
      "parts",
      {
        content: [
          { type: "thinking", thinking: "hm" },
          { type: "text", text: "A" }
        ],
        tool_calls: []
      }
    ],
    ["the older API's call", { content: null, function_call: { name: "look", arguments: "{}" } }],
    ["a call beside a refusal", { content: null, refusal: "no", tool_calls: [look] }],
    ["a call cut by its length", { tool_calls: [look] }, { finish_reason: "length" }],
    ["a text cut by its length", { content: "A" }, { finish_reason: "length" }],
    ["what Gemini says of a broken call", {}, { finish_reason: "function_call_filter: MALFORMED_FUNCTION_CALL" }],
    ["another reason to stop", { content: "A" }, { finish_reason: "eos_token", stop_reason: 128009 }],
    ["no reason to stop", { content: "A" }, { finish_reason: null }]
  ]
  it.effect("is the message as it came, with its choice, the usage and the rest", () =>
    Effect.gen(function* () {
      for (const [name, said, more] of asItCame) {
        const came = { role: "assistant", ...said }
        const choice = { index: 0, message: came, finish_reason: "stop", ...more }
        const usage = { prompt_tokens: 5, completion_tokens: 2, prompt_tokens_details: null }
        const { asked, turn } = yield* turnOf({ choice, usage })
        const rest = { id: "chatcmpl-0", object: "chat.completion", created: 0, model: "m" }
        assert.deepStrictEqual<unknown>(Either.merge(turn), { message: came, choice, usage, rest }, name)
        assert.strictEqual(asked, 1)
      }
    })
  )

  it.effect("is read however its server writes it", () =>
    Effect.gen(function* () {
      const long = `${2n ** 64n}`
      const logprobs = '{"content":[{"token":"A","logprob":-Infinity,"top_logprobs":[{"logprob":NaN}]}]}'
      const call = `{"id":"c","function":{"name":"look","arguments":{"n":${long}}}}`
      const raw = `{"choices":[{"message":{"tool_calls":[${call}]},"logprobs":${logprobs},"token_ids":[1,${long}]}],"usage":null}`
      const whole = {
        message: {
          role: "assistant",
          tool_calls: [{ id: "c", function: { name: "look", arguments: { n: 2n ** 64n } } }]
        },
        choice: {
          message: { tool_calls: [{ id: "c", function: { name: "look", arguments: { n: 2n ** 64n } } }] },
          logprobs: {
            content: [{ token: "A", logprob: Number.NEGATIVE_INFINITY, top_logprobs: [{ logprob: Number.NaN }] }]
          },
          token_ids: [1, 2n ** 64n]
        },
        rest: {}
      }
      for (const answer of [{ raw }, { raw: `\n\n\ufeff ${raw}\n` }, { raw, blanks: 9, drip: "1 millis" } as const]) {
        assert.deepStrictEqual<unknown>(Either.merge((yield* turnOf(answer)).turn), whole)
      }
      const messageOf = Effect.fn(function* (answer: Answer) {
        const { turn } = yield* turnOf(answer)
        return Either.isRight(turn) ? turn.right.message : turn.left
      })
      const older = yield* messageOf({ choice: { text: " A", finish_reason: "stop" } })
      assert.deepStrictEqual<unknown>(older, { role: "assistant", content: " A" })
      const calls = [
        { tool: "look", args: "{" },
        { tool: "look", id: null }
      ]
      assert.deepStrictEqual<unknown>(yield* messageOf({ text: "A", calls }), {
        role: "assistant",
        content: "A",
        tool_calls: [
          { id: "call_0_0", type: "function", function: { name: "look", arguments: "{" } },
          { type: "function", function: { name: "look", arguments: "{}" } }
        ]
      })
    })
  )

  it.effect("that stopped short of what it may have, with nothing said, met the end of the context", () =>
    Effect.gen(function* () {
      const answer = (completion_tokens?: number): Answer => ({
        message: message({ reasoning_content: "hm" }),
        finishReason: "length",
        usage: completion_tokens === undefined ? null : { completion_tokens }
      })
      const cases: ReadonlyArray<[Answer, Partial<Policy.Settings>, string]> = [
        [answer(10), {}, "ContextFull"],
        [answer(), {}, "ContextFull"],
        [answer(10), { maxTokens: 11 }, "ContextFull"],
        [answer(10), { extraBody: { max_completion_tokens: 11 } }, "ContextFull"],
        [answer(10), { maxTokens: 10 }, "turn"],
        [answer(10), { extraBody: { max_completion_tokens: 10 } }, "turn"],
        [answer(), { maxTokens: 10 }, "turn"]
      ]
      for (const [sent, settings, expected] of cases) {
        const { turn } = yield* turnOf(sent, settings)
        assert.strictEqual(Either.isLeft(turn) ? turn.left._tag : "turn", expected, JSON.stringify([sent, settings]))
      }
    })
  )
})

/** What servers say of a conversation that is too long: whose words, the status, the body. */
const tooLong: ReadonlyArray<[string, number, Json.Json]> = [
  [
    "OpenAI",
    400,
    error(
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.",
      { type: "invalid_request_error", param: "messages", code: "context_length_exceeded" }
    )
  ],
  ["OpenAI, a newer model", 400, error("Input tokens exceed the configured limit of 272000 tokens.")],
  [
    "OpenAI, responses",
    400,
    error("Your input exceeds the context window of this model. Please adjust your input and try again.")
  ],
  [
    "OpenAI, one message",
    400,
    error("Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576.", {
      code: "string_above_max_length"
    })
  ],
  [
    "vLLM",
    400,
    {
      object: "error",
      message: "This model's maximum context length is 16384 tokens. However, your request has 19427 input tokens.",
      type: "BadRequestError",
      param: null,
      code: 400
    }
  ],
  [
    "vLLM, the engine",
    400,
    error("The decoder prompt (length 2136) is longer than the maximum model length of 2048. Make sure")
  ],
  ["vLLM, what is left", 400, error("max_tokens must be at least 1, got -46771. (parameter=max_tokens, value=-46771)")],
  [
    "vLLM, both",
    400,
    error(
      "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens"
    )
  ],
  [
    "vLLM through Xinference",
    500,
    {
      detail:
        "[address=0.0.0.0:43769, pid=1065] The decoder prompt (length 66501) is longer than the maximum model length of 65536."
    }
  ],
  [
    "SGLang",
    400,
    {
      object: "error",
      message: "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
      type: "BadRequestError",
      code: 400
    }
  ],
  [
    "SGLang, both",
    400,
    error(
      "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of 202941 tokens"
    )
  ],
  ["SGLang, its memory", 400, error("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).")],
  [
    "llama.cpp",
    400,
    error("request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it", {
      code: 400,
      type: "exceed_context_size_error",
      n_prompt_tokens: 4390,
      n_ctx: 4096
    })
  ],
  [
    "llama.cpp, in a 200",
    200,
    error("the request exceeds the available context size. try increasing the context size or enable context shift", {
      code: 400,
      type: "exceed_context_size_error"
    })
  ],
  ["llama.cpp, half-way", 500, error("Context size has been exceeded.", { code: 500, type: "server_error" })],
  [
    "llama-cpp-python",
    500,
    error("Requested tokens (2285) exceed context window of 2048", { code: null, type: "internal_server_error" })
  ],
  ["Ollama", 400, error("prompt too long; exceeded max context length by 4096 tokens")],
  ["Ollama, its embeddings", 400, error("the input length exceeds the context length")],
  [
    "TGI",
    422,
    {
      error:
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1887 `inputs` tokens and 1024 `max_new_tokens`",
      error_type: "validation"
    }
  ],
  [
    "TGI, the input",
    422,
    { error: "Input validation error: `inputs` must have less than 1024 tokens. Given: 1087", error_type: "validation" }
  ],
  [
    "LM Studio",
    400,
    {
      error:
        "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."
    }
  ],
  [
    "LM Studio, newer",
    400,
    {
      error:
        "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"
    }
  ],
  ["LM Studio, newest", 400, { error: "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)" }],
  [
    "OpenRouter",
    400,
    error(
      'This endpoint\'s maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the "middle-out" transform',
      { code: 400 }
    )
  ],
  [
    "OpenRouter, what its provider said",
    400,
    error("Provider returned error", {
      code: 400,
      metadata: {
        provider_name: "P",
        raw: '{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}'
      }
    })
  ],
  ["Poolside", 400, error("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.")],
  [
    "Anthropic",
    400,
    {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 209353 tokens > 199999 maximum" }
    }
  ],
  [
    "Anthropic, both",
    400,
    error(
      "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again"
    )
  ],
  ["Anthropic, its bytes", 413, error("Request exceeds the maximum size", { type: "request_too_large" })],
  [
    "Gemini",
    400,
    [
      {
        error: {
          code: 400,
          message: "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
          status: "INVALID_ARGUMENT"
        }
      }
    ]
  ],
  [
    "Mistral",
    400,
    {
      object: "error",
      message: "Prompt contains 300000 tokens, too large for model with 131072 maximum context length",
      type: "invalid_request_error",
      code: "3051"
    }
  ],
  [
    "DeepSeek",
    400,
    error(
      "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
      { code: "invalid_request_error" }
    )
  ],
  [
    "Groq",
    400,
    error("Please reduce the length of the messages or completion.", {
      type: "invalid_request_error",
      code: "context_length_exceeded"
    })
  ],
  [
    "Together",
    400,
    error(
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 80125 `inputs` tokens and 4096 `max_new_tokens`",
      { param: "max_tokens" }
    )
  ],
  [
    "Cohere",
    400,
    { message: "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000." }
  ],
  ["Bedrock", 400, { message: "Input is too long for requested model." }],
  [
    "xAI",
    400,
    {
      code: "invalid-argument",
      error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
    }
  ],
  ["Copilot", 400, error("prompt token count of 93854 exceeds the limit of 90000", { code: "" })],
  ["Moonshot", 400, error("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)")],
  ["MiniMax", 400, error("invalid params, context window exceeds limit")],
  ["Alibaba", 400, error("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]")],
  ["z.ai", 400, error("model_context_window_exceeded")],
  ["DS4", 400, error("Prompt has 300,000 tokens, but the configured context size is 131,072 tokens")],
  [
    "LiteLLM",
    400,
    error("litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicError", { code: "400" })
  ],
  [
    "Groq by way of LiteLLM",
    400,
    error("litellm.BadRequestError: GroqException - Please reduce the length of the messages or completion.", {
      code: "400"
    })
  ],
  [
    "Cloudflare",
    413,
    error(
      "The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8000)"
    )
  ],
  ["nginx, or Cerebras", 413, ""]
]

describe("a failure", () => {
  const ends = (
    rows: ReadonlyArray<readonly [string, Answer, (Partial<Policy.Settings> | undefined)?]>,
    tag: PolicyError["_tag"],
    asks: number
  ) =>
    Effect.gen(function* () {
      for (const [name, answer, settings] of rows) {
        const { asked, turn, url } = yield* turnOf(answer, settings)
        if (Either.isRight(turn)) return assert.fail(`${name}: a turn`)
        const failure = turn.left
        assert.strictEqual(failure._tag, tag, `${name}: ${failure.message}`)
        assert.strictEqual(failure.model, "m")
        if ("url" in failure) assert.strictEqual(failure.url, url)
        assert.strictEqual(asked, asks, name)
      }
    })

  it.effect("is the context's where the server says so, in whatever words", () =>
    ends(
      tooLong.map(([name, status, body]) => [name, { status, body }]),
      "ContextFull",
      1
    )
  )

  it.effect("is a refusal's where the model or a filter refuses", () =>
    ends(
      [
        ["refusal", { message: message({ refusal: "I'd rather not." }) }],
        ["refusal in parts", { message: message({ content: [{ type: "refusal", refusal: "No." }] }) }],
        ["a filter", { text: "A", finishReason: "content_filter" }],
        ["Gemini's filter", { message: message({}), finishReason: "content_filter: PROHIBITED_CONTENT" }],
        ["Zhipu's filter", { text: "", finishReason: "sensitive" }],
        [
          "Azure",
          {
            status: 400,
            body: error(
              "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
              {
                param: "prompt",
                code: "content_filter",
                status: 400,
                innererror: { code: "ResponsibleAIPolicyViolation", content_filter_result: {} }
              }
            )
          }
        ],
        [
          "Azure by way of LiteLLM",
          { status: 400, body: error("litellm.ContentPolicyViolationError: AzureException", { code: "400" }) }
        ],
        ["DeepSeek", { status: 400, body: error("Content Exists Risk", { code: "invalid_request_error" }) }],
        [
          "Alibaba",
          {
            status: 400,
            body: error(
              "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content."
            )
          }
        ],
        [
          "OpenRouter",
          {
            status: 403,
            body: error("Your chosen model requires moderation and your input was flagged for violence", { code: 403 })
          }
        ],
        ["OpenAI", { status: 400, body: error("Invalid prompt", { code: "invalid_prompt" }) }]
      ],
      "PolicyRefused",
      1
    )
  )

  const rejected: ReadonlyArray<[string, Answer, string, Partial<Policy.Settings>?]> = [
    ["401", { status: 401, body: error("Incorrect API key", { code: "invalid_api_key" }) }, "MIROIR_POLICY_API_KEY"],
    ["403", { status: 403, raw: "no" }, "MIROIR_POLICY_API_KEY"],
    ["a wrong key in a 200", { body: error("no", { code: "invalid_api_key" }) }, "MIROIR_POLICY_API_KEY"],
    ["OpenAI's unknown model", { status: 404, body: error("no", { code: "model_not_found" }) }, "--model"],
    ["another path", { status: 404, raw: "404 page not found" }, "--base-url"],
    [
      "LM Studio's other path",
      { body: { error: "Unexpected endpoint or method. (POST /chat/completions)" } },
      "--base-url"
    ],
    ["a stream", { raw: 'data: {"choices": []}\n\ndata: [DONE]\n' }, "--base-url"],
    ["elsewhere", { status: 302, headers: { location: "http://127.0.0.1:1/" } }, "--base-url"],
    ["402", { status: 402, body: error("Insufficient Balance") }, "account"],
    ["a spent quota", { status: 429, body: error("no", { code: "insufficient_quota" }) }, "account"],
    [
      "Anthropic's spent credit",
      { status: 400, body: error("Your credit balance is too low to access the API.") },
      "account"
    ],
    [
      "Groq's minute",
      {
        status: 413,
        body: error(
          "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size",
          { code: "rate_limit_exceeded" }
        )
      },
      "account"
    ],
    [
      "OpenAI's minute",
      {
        status: 429,
        body: error("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389.", {
          code: "rate_limit_exceeded"
        })
      },
      "account"
    ],
    [
      "vLLM without a parser",
      {
        status: 400,
        body: error('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
      },
      "call tools"
    ],
    [
      "Ollama's model without tools",
      { status: 400, body: error("registry.ollama.ai/library/m does not support tools") },
      "call tools"
    ],
    [
      "OpenRouter's model without tools",
      { status: 404, body: error("No endpoints found that support tool use.", { code: 404 }) },
      "call tools"
    ],
    ["400", { status: 400, body: error("Unsupported parameter: 'max_tokens'") }, "--max-tokens"],
    [
      "what an upstream objects to",
      { status: 400, body: error("Provider returned error", { metadata: { raw: "top_k: no" } }) },
      "--extra-body"
    ],
    [
      "max_tokens beyond the model's",
      { status: 400, body: error("max_tokens (200000) exceeds the maximum limit of 8192") },
      "--max-tokens"
    ],
    [
      "422",
      { status: 422, body: { detail: [{ type: "missing", loc: ["body"], msg: "Field required" }] } },
      "--extra-body"
    ],
    ["400 in a 200", { body: error("no", { code: 400 }) }, "--extra-body"],
    ["a name in a 200", { body: error("no", { type: "invalid_request_error" }) }, "--extra-body"],
    [
      "max_tokens that leave no room",
      {
        status: 400,
        body: error("This model's maximum context length is 2,048 tokens. However, you requested 4,000 output tokens")
      },
      "--max-tokens",
      { maxTokens: 4000 }
    ],
    [
      "max_completion_tokens that leave no room",
      { status: 422, body: { error: "`inputs` tokens + `max_new_tokens` must be <= 2048." } },
      "--max-tokens",
      { extraBody: { max_completion_tokens: 2048 } }
    ]
  ]
  it.effect("is a rejection where no repeat mends it, and its message says what to change", () =>
    Effect.gen(function* () {
      yield* ends(
        rejected.map(([name, answer, , settings]) => [name, answer, settings]),
        "PolicyRejected",
        1
      )
      for (const [name, answer, advice, settings] of rejected) {
        const { turn } = yield* turnOf(answer, settings)
        if (Either.isRight(turn) || turn.left._tag !== "PolicyRejected") return assert.fail(name)
        assert.include(turn.left.advice, advice, name)
        assert.include(turn.left.message, advice, name)
        if (name.includes("upstream")) assert.include(turn.left.message, "400: Provider returned error: top_k: no.")
        if (answer.status !== undefined) assert.strictEqual(turn.left.status, answer.status)
      }
    })
  )

  it.effect("is told as one of the base URL where that leads to no API, with what it most likely lacks", () =>
    Effect.gen(function* () {
      const notFound: Answer = { status: 404, raw: "<html>404</html>" }
      const page: Answer = { raw: "\n<!doctype html><title>Welcome</title>" }
      const titled: Answer = { headers: { "content-type": "text/html; charset=utf-8" }, raw: "Welcome" }
      const unknown: Answer = { status: 404, body: error("no", { code: "model_not_found" }) }
      const rows: ReadonlyArray<readonly [prefix: string, answer: Answer, hints: boolean, isPage: boolean]> = [
        ["", notFound, true, false],
        ["/api/v", unknown, true, false],
        ["/v1", notFound, false, false],
        ["/v1beta/openai", unknown, false, false],
        ["/dev1", page, true, true],
        ["/v1", page, false, true],
        ["", titled, true, true],
        ["", { status: 401, raw: "<html>" }, false, false]
      ]
      for (const [prefix, answer, hints, isPage] of rows) {
        const { asked, turn } = yield* turnOf(answer, {}, prefix)
        const { _tag, message } = Either.getOrThrow(Either.flip(turn))
        assert.deepStrictEqual([_tag, asked], ["PolicyRejected", 1], message)
        assert.strictEqual(message.includes("MIROIR_POLICY_BASE_URL): most end in /v1"), hints, message)
        assert.strictEqual(message.includes("a web page, and not an API's"), isPage, message)
      }
    })
  )

  it.effect("is met with two repeats where they may mend it, and then breaks the episode", () =>
    ends(
      [
        ["cut", { text: "A", cut: true }],
        ["cut while it dripped", { raw: "{{{{", drip: "1 millis", cut: true }],
        ["dropped", { drop: true }],
        ["blank", { raw: "\n \n" }],
        ...[408, 409, 429, 500, 502, 503, 529].map((status): [string, Answer] => [`${status}`, { status, raw: "no" }]),
        ["429 with a pause", { status: 429, headers: { "retry-after": "0" }, raw: "no" }],
        [
          "a limit for the minute",
          {
            status: 429,
            body: error(
              "Rate limit reached on tokens per min (TPM): Limit 6000, Used 5034, Requested 1443. Please try again",
              { code: "rate_limit_exceeded" }
            )
          }
        ],
        [
          "OpenAI's thought without an end",
          {
            status: 400,
            body: error("Could not finish the message because max_tokens or model output limit was reached.")
          }
        ],
        ["an upstream's throttle", { status: 503, body: error("Too many tokens: please wait before trying again.") }],
        ["Bedrock's throttle", { status: 429, body: { message: "Too many tokens, please wait before trying again." } }],
        ["no choice", { body: { choices: [] } }],
        ["null choices", { body: { choices: null } }],
        ["no choices", { body: { id: "x" } }],
        ["a choice without a message", { choice: { finish_reason: "stop" } }],
        ["a message of null", { choice: { message: null } }],
        ["an error in the choice", { choice: { message: { content: "A" }, error: { code: 502, message: "no" } } }],
        ["an abort", { text: "A", finishReason: "abort" }],
        ["DeepSeek's end of resources", { text: "A", finishReason: "insufficient_system_resource" }],
        [
          "Groq's broken call",
          {
            status: 400,
            body: error("Failed to call a function. Please adjust your prompt.", { code: "tool_use_failed" })
          }
        ],
        ["what the server wants repeated", { status: 400, headers: { "x-should-retry": "true" }, raw: "no" }]
      ],
      "PolicyFailed",
      3
    )
  )

  it.effect("breaks the episode at once where a repeat would not mend it and nobody knows what would", () =>
    ends(
      [
        ["no JSON", { raw: "Welcome" }],
        ["an unknown error in a 200", { body: { error: "broken" } }],
        ["what the server wants left alone", { status: 503, headers: { "x-should-retry": "false" } }],
        ["a pause that is too long", { status: 429, headers: { "retry-after": "61" } }]
      ],
      "PolicyFailed",
      1
    )
  )

  it.scoped("comes after ten minutes, or what is set, the body included", () =>
    Effect.gen(function* () {
      const endpoint = yield* ChatEndpoint.make({
        answers: [{ hang: true }, { raw: "x".repeat(10_000), drip: "1 hours" }]
      })
      const waits: ReadonlyArray<readonly [Partial<Policy.Settings>, number]> = [
        [{}, 600_000],
        [{ timeout: "20 minutes" }, 1_200_000]
      ]
      for (const [index, [settings, millis]] of waits.entries()) {
        const { next } = yield* policyAt(endpoint.url, { retry: Schedule.stop, ...settings })
        const fiber = yield* Effect.fork(Effect.flip(next(moment)))
        yield* endpoint.awaitRequests(index + 1)
        yield* passPause(millis, millis)
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "PolicyFailed")
        yield* endpoint.awaitIdle
      }
    })
  )

  it.scoped("has the key in no error, log or span", () =>
    Effect.gen(function* () {
      for (const status of [400, 401, 413, 503]) {
        const endpoint = yield* ChatEndpoint.make({
          answers: () => ({ status, body: error(`Not ${secret}: maximum context length`) })
        })
        const { next } = yield* policyAt(endpoint.url, { apiKey: Redacted.make(secret) })
        const { exit, seen } = yield* watching(next(moment))
        assert.isTrue(Exit.isFailure(exit))
        assert.notInclude(seen, secret.slice(0, 10))
      }
    })
  )
})

describe("with a bound on its requests", () => {
  const gauges = Effect.map(
    Effect.all([
      Metric.value(Telemetry.modelCalls.policy.underWay),
      Metric.value(Telemetry.modelCalls.policy.waiting),
      Metric.value(Telemetry.modelCalls.policy.backingOff)
    ]),
    (states) => states.map(({ value }) => value)
  )
  const awaitGauges = (...expected: ReadonlyArray<number>) =>
    turn.pipe(Effect.zipRight(gauges), Effect.repeat({ until: (now) => now.join() === expected.join() }))
  const nth = (next: Policy.Policy["Type"]["next"], rollout: number) => Effect.fork(next({ ...moment, rollout }))

  it.scoped("calls wait in the order they came, one that pauses holds no place, and all are counted", () =>
    Effect.gen(function* () {
      const held = yield* Effect.all([Deferred.make<Answer>(), Deferred.make<Answer>()])
      const endpoint = yield* ChatEndpoint.make({
        answers: ({ index }) => {
          const place = held[index]
          if (place !== undefined) return Deferred.await(place)
          return index === 6 ? { status: 503 } : { text: `${index}` }
        }
      })
      const { next } = yield* policyAt(endpoint.url, { concurrency: 2, seed: 0, retry: Schedule.spaced("1 seconds") })
      const fibers = []
      for (const rollout of [0, 1, 2, 3, 4, 5]) {
        fibers.push(yield* nth(next, rollout))
        yield* awaitGauges(Math.min(rollout + 1, 2), Math.max(rollout - 1, 0), 0)
      }
      const [first, second, third, ...others] = fibers
      if (first === undefined || second === undefined || third === undefined) return assert.fail("too few")
      // One that waits leaves, and those behind it move up.
      yield* Fiber.interrupt(third)
      yield* awaitGauges(2, 3, 0)
      yield* Deferred.succeed(held[0], { status: 503 })
      yield* Effect.all(others.map(Fiber.join))
      yield* awaitGauges(1, 0, 1)
      yield* passPause(1000, 1000)
      yield* Fiber.join(first)
      yield* awaitGauges(1, 0, 0)
      // One that is under way is given up, and one that pauses.
      const pausing = yield* nth(next, 6)
      yield* awaitGauges(1, 0, 1)
      yield* Fiber.interrupt(pausing)
      yield* awaitGauges(1, 0, 0)
      yield* Fiber.interrupt(second)
      yield* awaitGauges(0, 0, 0)
      const seeds = (yield* endpoint.requests).map(({ body }) => Object(body).seed)
      assert.deepStrictEqual(
        [seeds.slice(0, 2).toSorted(), seeds.slice(2)],
        [
          [0, 1],
          [3, 4, 5, 0, 6]
        ]
      )
      yield* endpoint.awaitIdle
    })
  )

  it.scoped("no place is lost, whenever calls are given up", () =>
    Effect.gen(function* () {
      let hang = false
      const endpoint = yield* ChatEndpoint.make({
        answers: ({ index }) => (hang ? { hang } : index % 3 === 0 ? { status: 500 } : { text: "A" })
      })
      const { next } = yield* policyAt(endpoint.url, { concurrency: 3 })
      const fibers = yield* Effect.forEach(Array.from({ length: 60 }).keys(), (rollout) => nth(next, rollout))
      for (let turns = 0; fibers.length > 0; turns++) {
        yield* turn
        const [fiber] = fibers.splice((turns * 7) % fibers.length, 1)
        if (fiber !== undefined && turns % 2 === 0) yield* Fiber.interrupt(fiber)
        else if (fiber !== undefined) yield* Fiber.await(fiber)
      }
      yield* awaitGauges(0, 0, 0)
      hang = true
      const last = yield* Effect.all(Array.from({ length: 5 }, (_, rollout) => nth(next, rollout)))
      yield* awaitGauges(3, 2, 0)
      yield* Fiber.interruptAll(last)
      yield* awaitGauges(0, 0, 0)
    })
  )
})
