// Package memstore keeps idempotency records in the memory of one process: for tests. Never use it for money in production:
// after a restart, or on a second instance, a repeat runs the command again.
//
// Short of that it promises what every [store.Store] does, and storetest holds it to it. It has no
// rows to commit together with a record: core.New refuses Rollback on it (contract X-5).
//
// An answer is copied when it is recorded. Its body is shared by all who read it: treat it as a constant.
package memstore
