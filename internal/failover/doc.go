//go:build linux

// Failover kills the primary of a Patroni cluster again and again while two example apps book payments on it, and then
// counts: nothing is booked twice, and with a synchronous standby nothing that was acknowledged is lost (F-2).
//
//	go run ./internal/failover                          # 5 kills, synchronous replication
//	go run ./internal/failover -mode async              # what asynchronous replication can lose
//	go run ./internal/failover -pgbouncer               # through PgBouncer in transaction mode
//
// It needs Debian's packages of PostgreSQL, Patroni, etcd and PgBouncer, runs them in a temporary directory on ports of
// its own, and leaves the machine's own services alone. docs/reliability.md has its last tables.
package main
