/** A chat model as the policy; README.md shows it. */
// #region policy
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Json from "@miroir-effect/core/Json"
import * as MiroirError from "@miroir-effect/core/MiroirError"
import * as Policy from "@miroir-effect/core/Policy"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

const ToolCall = Schema.Struct({
  id: Schema.String,
  type: Schema.Literal("function"),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
})

const Message = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.NullOr(Schema.String),
  tool_calls: Schema.optionalWith(Schema.Array(ToolCall), { exact: true, nullable: true })
})

const Completion = Schema.Struct({ choices: Schema.NonEmptyArray(Schema.Struct({ message: Message })) })

/** The policy that a model is, behind an endpoint of chat completions. */
export const chat = (baseUrl: string, model: string) =>
  Layer.effect(
    Policy.Policy,
    Effect.map(HttpClient.HttpClient, (client) => ({
      model,
      next: ({ messages, tools }: Policy.Moment) =>
        HttpClientRequest.post(`${baseUrl}/chat/completions`).pipe(
          HttpClientRequest.bodyText(
            Json.stringify({
              model,
              messages,
              tools: tools.map(({ description = "", inputSchema = {}, name }) => ({
                type: "function",
                function: { name, description, parameters: inputSchema }
              }))
            }),
            "application/json"
          ),
          HttpClient.filterStatusOk(client).execute,
          Effect.flatMap(HttpClientResponse.schemaBodyJson(Completion)),
          Effect.map(({ choices }) => choices[0].message),
          Effect.mapError(({ message }) => new MiroirError.PolicyFailed({ model, reason: message }))
        )
    }))
  )
// #endregion
