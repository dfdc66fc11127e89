// Package wire has the names of the headers that client and server exchange. An app needs them for its CORS settings, its
// proxies and its tests.
package wire

// The headers. All answers to a request with a valid key also echo the key's header.
const (
	// HeaderKey is the name of the key's header, unless core.Config has another one (K-7).
	HeaderKey = "Idempotency-Key"
	// HeaderReplayed is "true" on a replay (M-3).
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderResult is one of the four results below (M-3, R-2).
	HeaderResult = "Idempotency-Result"
	// HeaderProblem is the code of a problem. Only this library sends it: what a handler writes under this name, or under
	// the two above, is dropped. So a client can tell a problem of the guards from one that a handler passes on (C-7).
	HeaderProblem = "Idempotency-Problem"
)

// The results.
const (
	ResultCreated = "created" // this answer is the first, and it is recorded
	ResultReused  = "reused"  // this answer is a replay
	ResultUnknown = "unknown" // the command may have been applied; with a new key it could be applied again
	// ResultNotApplied is the result of a 4xx of a handler that has proven that nothing was applied: its key is free.
	ResultNotApplied = "not_applied"
)
