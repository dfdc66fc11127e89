-- States: 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free. Recoveries: 1 Rollback, 2 Resume, 3 Park.

-- macro: columns
-- Those of a record r, as recordScan of gormstore takes them, without headers and body.
r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding

-- macro: free
-- The key of a record r is free. The record of a timed key is dropped only by a sweep, which raises the floor.
r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now AND NOT r.timed

-- macro: unknown
-- The state of a record r is unknown by now, swept or not. A running Rollback record can be seen only by its own attempt,
-- unless the handler has committed it.
r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= :now)

-- macro: resumable
-- A record r is that of a Resume attempt that nobody runs any more.
r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now

-- macro: within
-- A record's realm begins with :it, which is a realm's beginning.
substr(r.realm, 1, length(:it)) = :it

-- macro: intent
-- The columns of an intent i, as the journal takes them.
intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, :now
