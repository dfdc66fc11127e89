// Package core is the idempotency contract (AUTH-19) without a framework and without a database.
//
// A request passes three steps. Each of them may answer instead of the handler:
//
//	Module.CheckRoles   may this principal call this route?      (roles guard)
//	Module.Admit        is there one valid key, and a whole body? (key guard)
//	Module.Begin        claim the record, or replay it           (interceptor)
//
// [Module.Idempotent] does all three for an adapter, which shows it the request as an [Exchange]. Begin returns an
// [Attempt]. The handler runs in the attempt's context and writes into its [Capture]; Attempt.Finish records the answer and
// returns what the client gets. The adapters (ginidem, echoidem, httpidem) only translate the routing, writer and errors
// of a framework.
//
// A [Store] keeps the records: gormstore for PostgreSQL and SQLite, memstore for tests. What a store has to do is in
// package store, which is also the package for its author.
//
// [Module.AuditRoutes] refuses a router whose routes lack guards or are not declared. A module that owns groups
// ([Config].Owns) asks for their routes only, and lists the others: [Module.Undeclared].
//
// The calls for handlers are [Call], [Checkpoint], [DeriveCall], [DeriveEvent], [Operation], [Reference], [CommandHashOf],
// [NotApplied], [Failed], [KeepRows] and [InShadow].
//
// Comments name rules of the contract, such as X-3. docs/contributors/invariants.md lists each rule with its tests.
package core
