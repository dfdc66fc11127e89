// Package txn has a transaction whose end is known. gormstore.Store, gormstore/inbox and gormstore/journal stand on it.
// Read tx.go first.
//
// A [Tx] begins. On PostgreSQL it has guards: the server ends it by itself if the process is gone. The statements of a
// handler go through it, and their errors are kept. The write guards refuse what goes past it. Then it commits. If it is
// not known whether COMMIT took effect, that is read back.
//
// A write is never cancelled because a server that is told to cancel a COMMIT may have committed all the same. So
// its caller waits for it as long as it has time. Then it is told that the outcome is not known, and the write goes on.
//
// A [Database] has what transactions share: SQLite's one writer, the places of the pool, the watch for stalls
// (connections that pass nothing any more), and the statements, whose texts are in the folder statements. The package
// also has the retries, the wait for a synchronous standby, and the validation of the server and its tables.
package txn
