/**
 * What there is to watch: the metrics, by name. Spans are `miroir.lease`,
 * `miroir.episode`, `miroir.exchange`, `miroir.completion` and `miroir.catalog`;
 * logs carry the same annotations (`container`, `task_id`, `episode_id`). All of it
 * is Effect's own, so that @effect/opentelemetry exports it as it stands.
 *
 * @since 0.1.0
 */

import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import * as MetricKey from "effect/MetricKey"
import type { RequestType } from "./Protocol.js"

/** 1 ms to about 9 minutes, each bucket twice the one before. */
const seconds = MetricBoundaries.exponential({ start: 0.001, factor: 2, count: 20 })

/**
 * Leases held now.
 *
 * @since 0.1.0
 * @category metrics
 */
export const leasesHeld = Metric.gauge("miroir_leases_held", { description: "Leases held now" })

/**
 * Callers that wait for a lease now.
 *
 * @since 0.1.0
 * @category metrics
 */
export const leaseWaiters = Metric.gauge("miroir_lease_waiters", { description: "Callers that wait for a lease now" })

/**
 * How long a lease took to get, in seconds.
 *
 * @since 0.1.0
 * @category metrics
 */
export const leaseWait = Metric.histogram("miroir_lease_wait_seconds", seconds, "How long a lease took to get")

/**
 * Health probes sent.
 *
 * @since 0.1.0
 * @category metrics
 */
export const probes = Metric.counter("miroir_probes_total", { description: "Health probes sent", incremental: true })

/**
 * Sessions that broke: their connection was lost, or had to be given up since a call was interrupted or a reply could not be
 * paired. A scope's end is no break.
 *
 * @since 0.1.0
 * @category metrics
 */
export const connectionsLost = Metric.counter("miroir_connections_lost_total", {
  description: "Sessions that broke",
  incremental: true
})

/**
 * Completions that were asked for again after a failure that a repeat may mend.
 *
 * @since 0.1.0
 * @category metrics
 */
export const completionRetries = Metric.counter("miroir_completion_retries_total", {
  description: "Completions asked for again",
  incremental: true
})

/**
 * What calls to chat models do now, by whom they speak for: requests that are under way, calls that wait for a place among
 * them, and calls that pause before a repeat. A call does one of these at a time.
 *
 * @since 0.1.0
 * @category metrics
 */
export const modelCalls: Readonly<Record<"policy" | "coworker", ModelCalls>> = {
  policy: modelCallsOf("policy"),
  coworker: modelCallsOf("coworker")
}

/**
 * The gauges of calls to one kind of chat model.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelCalls {
  readonly underWay: Metric.Metric.Gauge<number>
  readonly waiting: Metric.Metric.Gauge<number>
  readonly backingOff: Metric.Metric.Gauge<number>
}

function modelCallsOf(kind: string): ModelCalls {
  const gauge = (state: string, description: string) =>
    MetricKey.gauge(`miroir_model_calls_${state}`, { description }).pipe(
      MetricKey.tagged("kind", kind),
      Metric.fromMetricKey
    )
  return {
    underWay: gauge("under_way", "Requests to a chat model that are under way"),
    waiting: gauge("waiting", "Calls to a chat model that wait for a place"),
    backingOff: gauge("backing_off", "Calls to a chat model that pause before a repeat")
  }
}

/**
 * How long an exchange took from its frame to its reply, in seconds, tagged with the frame's type.
 *
 * @since 0.1.0
 * @category metrics
 */
export const exchange: Readonly<Record<RequestType, Metric.Metric.Histogram<number>>> = {
  state: exchangeOf("state"),
  reset: exchangeOf("reset"),
  step: exchangeOf("step"),
  coworkers: exchangeOf("coworkers"),
  coworker_reply: exchangeOf("coworker_reply"),
  record: exchangeOf("record"),
  mcp: exchangeOf("mcp")
}

function exchangeOf(type: RequestType): Metric.Metric.Histogram<number> {
  // Tagged as a key: a tagged metric looks its histogram up anew with each update.
  return MetricKey.histogram("miroir_exchange_seconds", seconds, "How long an exchange took").pipe(
    MetricKey.tagged("type", type),
    Metric.fromMetricKey
  )
}
