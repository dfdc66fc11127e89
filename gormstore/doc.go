// Package gormstore keeps idempotency records in PostgreSQL (13 or later), or in SQLite as an embedded default, over
// GORM. The driver is the app's own.
//
// A Rollback handler writes through the attempt's transaction:
//
//	tx := gormstore.Tx(c.Request.Context())
//	tx.Create(&payment)
//
// Record and rows commit together or not at all. A write that carries the attempt's context but goes over another
// connection is refused by the write guard, which New installs.
//
// A Resume handler writes rows in steps; each step commits together with its record: see [Step]. A consumer of a queue
// writes rows together with the marker of the message that it processes: see [Inbox].
//
// The store runs its own statements on the pool below GORM: past the app's callbacks, plugins, replicas and loggers. They
// are in the folder statements, whole, in one file per subject for each of the two databases.
//
// Comments name rules by their id, X-6 for instance. The rules are listed in docs/invariants.md, each with its tests.
package gormstore
