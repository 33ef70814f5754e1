/** Policies: a chat model that is served somewhere, and one of one's own; README.md shows them. */
// #region policy
import * as MiroirError from "@miroir-effect/core/MiroirError"
import * as NodeHttp from "@miroir-effect/core/NodeHttp"
import * as Policy from "@miroir-effect/core/Policy"
import type { ChatMessage, Tool } from "@miroir-effect/core/Protocol"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** The chat model behind an endpoint of chat completions: vLLM, SGLang, llama.cpp, Ollama, a provider's. */
export const served = (baseUrl: string, model: string) =>
  Policy.layer({ baseUrl, model, temperature: 1, maxTokens: 4096, concurrency: 64 }).pipe(Layer.provide(NodeHttp.layer))

type Speak = (messages: ReadonlyArray<ChatMessage>, tools: ReadonlyArray<Tool>) => Promise<Policy.AssistantMessage>

/** Whatever gives the next message: a sampler in this process, an agent, a person. */
export const own = (model: string, speak: Speak) =>
  Layer.succeed(Policy.Policy, {
    model,
    settings: {}, // what else decides how it plays
    next: ({ messages, tools }) =>
      Effect.tryPromise({
        try: async () => ({ message: await speak(messages, tools) }),
        catch: (error) => new MiroirError.PolicyFailed({ model, reason: String(error) })
      })
  })
// #endregion
