// Package otelidem counts, measures and traces what becomes of commands, with OpenTelemetry. It is an observer:
//
//	telemetry, err := otelidem.Observer()
//	module, err := core.New(core.Config{Observer: core.Observers(core.LogObserver(log), telemetry), ...})
//	stop, err := telemetry.Watch(module)
//
// docs/observability/metrics.md lists the metrics and the spans. Metrics have the routes' patterns and nothing of a single
// request. Spans have the operation's id, and never a key, a token or a body (K-6).
package otelidem
