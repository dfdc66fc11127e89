// Package core is the idempotency contract (AUTH-19) without a framework and without a database.
//
// An adapter calls [Module.Idempotent] for each request, and shows it the request as an [Exchange]. Idempotent is three
// guards, each of which may answer instead of the handler. An adapter offers each by itself, too:
//
//	Module.RolesGuard    may this principal call this route?
//	Module.KeyGuard      is there one valid key, and a whole body?
//	Module.Interceptor   claims the record, or replays it
//
// The interceptor runs the handler in an [Attempt]: in its context, and into its [Capture]. It records the answer, and then
// sends it. The adapters (ginidem, echoidem, httpidem) translate the routes, the writer and the errors of a framework, and
// decide nothing.
//
// A [Store] keeps the records: gormstore for PostgreSQL and SQLite, memstore for tests. Package store says what a store has
// to do. Only the author of a store needs it.
//
// [Module.AuditRoutes] returns an error for a router with routes that lack guards or are not declared. A route that is not
// guarded yet is declared as such, with its reason (Policy.Unguarded), and stays in sight: [Module.Table].
//
// The calls for handlers are [Call], [Checkpoint], [DeriveCall], [DeriveEvent], [Operation], [Reference], [CommandHashOf],
// [NotApplied], [Failed], [KeepRows] and [InShadow].
//
// Comments name rules of the contract, such as X-3. docs/contributors/invariants.md lists each rule with its tests.
package core
