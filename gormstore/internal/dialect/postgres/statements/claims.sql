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

-- macro: claim_columns
(id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at,
	realm, timed, traceparent)

-- name: insertRecord
-- Claims a key, and returns the clock and the server. It returns no row, and says nothing, where a record is there, where somebody
-- holds the lock, or outside of the clock's window. The primary key decides. The lock only lets a loser go at once, instead of
-- waiting for the winner's uncommitted row with a connection in its hand, and the look keeps a repeat from waiting for an answer
-- that is being written. Both stand in the statement because over a driver that sends statements one by one a claim is one round
-- trip. The record has no deadline where COMMIT would not wait for the disk: that is refused.
--
-- $2 scope, $3 owner, $4 recovery, $5 method, $6 route, $7 and $8 command hash, $9 lease, $10 deadline, $11 realm, $12 and $13
-- the clock's window, $14 whether the key is a timed one, $15 the trace of the attempt, $16 lock.
INSERT INTO :"schema".idempotency_record :claim_columns
SELECT $1::bytea, $2::bytea, $3::bytea, 1, 1, $4::smallint, $5::text, $6::text, $7::smallint, $8::bytea, :now,
	:now + $9::bigint, CASE WHEN :durable THEN :now + $10::bigint END, $11::bytea, $14::boolean, $15::text
WHERE :now BETWEEN $12::bigint AND $13::bigint AND CASE WHEN NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1)
		THEN :try_lock($16::bigint) END
ON CONFLICT (id) DO NOTHING RETURNING created_at, :server;

-- name: insertTimed
-- insertRecord for a key that is judged by its time, $17, which must be above the floor of the name $18. One snapshot shows
-- either the record or the floor that the sweep has raised when it dropped the record.
INSERT INTO :"schema".idempotency_record :claim_columns
SELECT $1::bytea, $2::bytea, $3::bytea, 1, 1, $4::smallint, $5::text, $6::text, $7::smallint, $8::bytea, :now,
	:now + $9::bigint, CASE WHEN :durable THEN :now + $10::bigint END, $11::bytea, $14::boolean, $15::text
WHERE :now BETWEEN $12::bigint AND $13::bigint AND CASE WHEN NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1)
		THEN :try_lock($16::bigint) END
	AND $17::bigint > coalesce((SELECT CAST(f.value AS bigint) FROM :"schema".idempotency_setting f WHERE f.name = $18::text), -1)
ON CONFLICT (id) DO NOTHING RETURNING created_at, :server;

-- name: takeOver
-- Gives a record to a new attempt, as the record was seen: free where $20 is true, else a Resume attempt whose lease has run
-- out, for the same command. A resumable record may become free in between. A free record keeps only its fence, which rises.
-- A resumed record is still the same operation, with its steps; the time of its key was not judged, so that it does not
-- become a timed one. No row comes back where the record has changed, or where somebody holds the lock. There is no deadline
-- where COMMIT would not wait for the disk: that is refused.
--
-- $2 scope, $3 owner, $4 recovery, $5 method, $6 route, $7 and $8 command hash, $9 lease, $10 deadline, $11 realm, $12 begin
-- of the clock's window. A key that is judged by its time has in $15 the name of its floor, else ''. It may be claimed from
-- $13 to $14 by the clock, if $16, the time in it, is above the floor. $17 says whether the record is one of a timed key. $18 the
-- fence that was seen, $19 end of the clock's window, $21 lock: another attempt's transaction may hold the row. $22 is the
-- trace of the new attempt, $23 how the attempts before it have ended.
UPDATE :"schema".idempotency_record AS r SET scope = $2, realm = $11, owner = $3, fence = r.fence + 1, state = 1,
	recovery = $4::smallint, method = $5, route = $6, hash_version = $7::smallint, command_hash = $8,
	created_at = CASE WHEN r.state = 1 THEN r.created_at ELSE :now END,
	attempts = CASE WHEN r.state = 1 THEN r.attempts + 1 ELSE 1 END,
	lease_until = :now + $9::bigint, deadline_at = CASE WHEN :durable THEN :now + $10::bigint END,
	expires_at = NULL, purge_at = NULL, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL,
	traceparent = $22::text, timed = r.timed OR $17::boolean AND r.state <> 1, ends = $23::bytea,
	due_at = NULL
WHERE r.id = $1 AND r.fence = $18::bigint
	AND :now >= $12::bigint
	AND (r.state = 5 OR :now <= $19::bigint)
	AND (r.state = 1 OR $15::text = ''
		OR $16::bigint > coalesce((SELECT CAST(f.value AS bigint) FROM :"schema".idempotency_setting f
			WHERE f.name = $15::text), -1)
		AND :now BETWEEN $13::bigint AND $14::bigint)
	AND CASE WHEN CASE WHEN $20::boolean THEN
			:free
		ELSE
			:resumable AND $4::smallint = 2 AND r.hash_version = $7::smallint AND r.command_hash = $8::bytea
		END THEN :try_lock($21::bigint) END
RETURNING r.fence, r.attempts, r.created_at, :now, :server;

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

-- name: waitLocks
-- Waits for the advisory locks in the JSON array $1, in its order. What the transaction writes is then durable.
SELECT pg_catalog.pg_advisory_xact_lock(j.lock::bigint), :durably
FROM pg_catalog.json_array_elements_text($1::json) j(lock);
