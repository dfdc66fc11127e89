-- Claims: who may run the handler. Every statement finds its record by the primary key, so that it touches one shard of a
-- distributed database. $1 is the record's id.
--
-- States: 1 running, 2 completed, 3 unknown, 4 tombstone, 5 free. Recoveries: 1 Rollback, 2 Resume, 3 Park.

-- name: lockFirst
-- The first statement of an attempt's transaction. It tries the key's lock ($4). It returns the lock, the clock (NULL where
-- nothing may be written) and the mark of the transaction, and guards it.
--
-- The next statement is lookFirst, or lookTimed. It sees what was committed before the lock was taken, because it has a snapshot
-- of its own (READ COMMITTED). A record that it sees decides, and the lock only without one.
SELECT :try_lock($4::bigint),
	CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN :now END,
	:mark('');

-- name: lockClaim
-- Tries the lock $1 for a claim, or a message's marker, in the same transaction: outside of a transaction that has begun, the
-- statements of one message are one. Whether it has the lock stands in a setting of the transaction, and nobody writes without.
SELECT pg_catalog.set_config('idem.locked', CASE WHEN :try_lock($1::bigint) THEN 'on' ELSE 'off' END, true);

-- name: lockGuarded
-- lockClaim ($4) as the first statement of a transaction whose statements go one by one, which it guards.
SELECT pg_catalog.set_config('idem.locked', CASE WHEN :try_lock($4::bigint) THEN 'on' ELSE 'off' END, true), :guards('');

-- macro: claim_columns
(id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at,
	realm, timed, traceparent)

-- name: insertRecord
-- Claims a key, and returns the clock and the server. It returns no row, and says nothing, where a record is there, where somebody
-- holds the lock, or outside of the clock's window. The primary key decides. The lock only lets a loser go at once, instead of
-- waiting for the winner's uncommitted row with a connection in its hand, and the look keeps a repeat from waiting for an answer
-- that is being written. The record has no deadline where COMMIT would not wait for the disk: that is refused.
--
-- $2 scope, $3 owner, $4 recovery, $5 method, $6 route, $7 and $8 command hash, $9 lease, $10 deadline, $11 realm, $12 and $13
-- the clock's window, $14 whether the key is a timed one, $15 the trace of the attempt.
INSERT INTO :"schema".idempotency_record :claim_columns
SELECT $1::bytea, $2::bytea, $3::bytea, 1, 1, $4::smallint, $5::text, $6::text, $7::smallint, $8::bytea, :now,
	:now + $9::bigint, CASE WHEN :durable THEN :now + $10::bigint END, $11::bytea, $14::boolean, $15::text
WHERE :locked AND :now BETWEEN $12::bigint AND $13::bigint
	AND NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1)
ON CONFLICT (id) DO NOTHING RETURNING created_at, :server;

-- name: insertTimed
-- insertRecord for a key that is judged by its time, $16, which must be above the floor of the name $17. One snapshot shows
-- either the record or the floor that the sweep has raised when it dropped the record.
INSERT INTO :"schema".idempotency_record :claim_columns
SELECT $1::bytea, $2::bytea, $3::bytea, 1, 1, $4::smallint, $5::text, $6::text, $7::smallint, $8::bytea, :now,
	:now + $9::bigint, CASE WHEN :durable THEN :now + $10::bigint END, $11::bytea, $14::boolean, $15::text
WHERE :locked AND :now BETWEEN $12::bigint AND $13::bigint
	AND NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1)
	AND $16::bigint > coalesce((SELECT CAST(f.value AS bigint) FROM :"schema".idempotency_setting f WHERE f.name = $17::text), -1)
ON CONFLICT (id) DO NOTHING RETURNING created_at, :server;

-- name: lookFirst
-- Reads the record of a key that was seen before, or whose lock was tried; $1 id. Where nothing may be written, on a standby for instance, the clock
-- is NULL, and the record does not count: a claim fails there. In the WHERE this would be one more node of the plan.
SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN :now END,
	:server,
	:columns, r.headers, r.body
FROM :"schema".idempotency_record r WHERE r.id = $1;

-- name: lookTimed
-- lookFirst for a key that is judged by its time, behind its lock. The floor, $2 its name, comes behind the clock: one snapshot
-- shows either the record or the floor that the sweep has raised when it dropped the record.
SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN :now END,
	(SELECT f.value FROM :"schema".idempotency_setting f WHERE f.name = $2::text),
	:server,
	:columns, r.headers, r.body
FROM (SELECT) AS one LEFT JOIN :"schema".idempotency_record r ON r.id = $1;

-- name: lookAnswer
-- lookFirst for an answer that can be replayed, with the columns that a replay needs.
SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN :now END,
	:server,
	r.owner, r.fence, r.recovery, r.hash_version, r.command_hash, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding,
	r.headers, r.body, r.traceparent
FROM :"schema".idempotency_record r
WHERE r.id = $1 AND r.state = 2 AND r.expires_at > :now;

-- name: held
-- Says whether somebody holds a record's lock ($1 and $2, its halves). It takes no lock. A standby does not know the locks of
-- the primary.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
		AND l.pid <> pg_catalog.pg_backend_pid()
		AND l.classid = $1::bigint::oid AND l.objid = $2::bigint::oid AND l.database = (SELECT d.oid
			FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()));

-- name: tryLock
-- Takes the record's advisory lock ($1) if nobody holds it. Then when the server was started (NULL without a synchronous
-- standby). What the transaction writes is then durable.
SELECT :try_lock($1::bigint),
	CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> '' THEN :server_started END, :durably;

-- name: lockAlone
-- Takes the record's advisory lock ($1) for an answer that is recorded alone. Where another attempt holds it, it fails with 22012,
-- because the record and COMMIT are on their way already.
SELECT 1 / CASE WHEN :try_lock($1::bigint) THEN 1 ELSE 0 END;

-- name: lockUnknown
-- Takes it for a record that is unknown, which is then durable.
SELECT :try_lock($1::bigint), :durably;

-- name: waitLocks
-- Waits for the advisory locks in the JSON array $1, in its order. What the transaction writes is then durable.
SELECT pg_catalog.pg_advisory_xact_lock(j.lock::bigint), :durably
FROM pg_catalog.json_array_elements_text($1::json) j(lock);
