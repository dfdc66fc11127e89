// Package core is the idempotency contract (AUTH-19) without a framework and without a database.
//
// A request passes three steps, each of which may answer in the handler's place:
//
//	Module.CheckRoles   may this principal call this route?      (roles guard)
//	Module.Admit        is there one valid key, and a whole body? (key guard)
//	Module.Begin        claim the record, or replay it           (interceptor)
//
// Begin hands out an [Attempt]; the handler runs in its context and writes into its [Capture]; Attempt.Finish
// records the answer and returns what the client gets. The adapters (ginidem, echoidem) do nothing but translate
// their framework's routing, writer and errors to these calls.
//
// A [Store] keeps the records: gormstore for PostgreSQL and SQLite, memstore for tests and single processes.
package core
