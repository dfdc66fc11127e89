// Package gormstore keeps idempotency records in the app's database, PostgreSQL 13 or later, MariaDB 10.11,
// or SQLite in a file. It uses
// the app's *gorm.DB and the app's own driver.
//
// A Rollback handler writes through the attempt's transaction:
//
//	tx := gormstore.Tx(c.Request.Context())
//	created, err := gormstore.CreateOnce(tx, &payment)
//
// Record and rows commit together or not at all. New installs the write guard. It refuses a write that carries the
// attempt's context but goes over another connection. [Migrate] makes the tables; a model that stores money embeds [Once],
// whose index is the second line, and [Audit] checks it.
//
// A Resume handler writes rows in steps; each step commits together with its record: see [Step]. Two packages below this
// one use the same database. With gormstore/inbox, a consumer of a queue writes rows together with the marker of the
// message that it processes. With gormstore/journal, an app that calls other services keeps the keys of its calls.
//
// The store runs its own statements directly on the pool below GORM, without the app's callbacks, plugins, replicas and
// loggers. The folder internal/dialect has what differs between databases, in a folder for each, and the statements, each
// written once for all, and each whole as a database gets it: internal/dialect/postgres/golden.sql.
//
// Comments name rules by their id, X-6 for instance. The rules are listed in docs/contributors/invariants.md, each with its
// tests.
package gormstore
