-- What an attempt writes to its record. $1 is the record's id. Times are in microseconds.
--
-- The last statement before COMMIT fails by itself where COMMIT must not follow, which may be on its way already: an INSERT by
-- the primary key, by NULL in a column that must not be NULL, or by a fence that is divided by zero; an UPDATE by :must_one
-- where it has changed no row. What is first in its message has proven that the transaction is the one that was begun, see mark.go of package txn.

-- macro: answer
-- Inserts a record with its answer: $1 to $9 id, scope, owner, fence, recovery, method, route, version and sum of the command
-- hash; $10 realm; $11 whether the key is a timed one; $12 trace; $13 begin of the clock's window, outside of which the record
-- has no time; $14 to $20 as $4 to $10 of complete. It has no deadline where its COMMIT would not wait for the disk.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
VALUES ($1, $2, $3, $4, 2, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN :now >= $13 THEN :now END, :now,
	CASE WHEN :durable THEN :now END, $14, $15, $16, $17, :now + $18, :now + $19, :now + $18, $20)

-- macro: running
-- Inserts a record that runs: $1 to $12 as in :answer, $13 lease, $14 deadline, $15 and $16 the clock's window, outside of
-- which the lease has no end.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, :now,
	CASE WHEN :now BETWEEN $15 AND $16 THEN :now + :earliest($13::bigint, $14::bigint) END, :now + $14)

-- macro: instead
-- What a record r becomes whose key is free, but for its fence.
scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends

-- macro: or_take
-- A free record gives way if it is the one that was seen, :it its fence; with any other one it fails.
-- The sweep may have dropped it since.
ON CONFLICT (id) DO UPDATE SET fence = excluded.fence / CASE WHEN r.fence = :it AND (:free) THEN 1 ELSE 0 END, :instead
RETURNING created_at

-- macro: answered
-- $4 status, $5 partial, $6 headers, $7 body, $8 retention, $9 retention and tombstone, $10 encoding.
state = 2, status = $4, partial = $5, headers = $6, body = $7, expires_at = :latest(:now, r.created_at) + $8,
	purge_at = :latest(:now, r.created_at) + $9, due_at = :latest(:now, r.created_at) + $8, answer_encoding = $10

-- macro: owned
-- The attempt still owns the record: $2 owner, $3 fence (X-2).
r.id = $1 AND r.owner = $2 AND r.fence = $3

-- name: recordAnswer
-- The record of an attempt that has seen none, whole: a plain INSERT.
:answer;

-- name: recordOver
-- recordAnswer where a free record was seen, $21 its fence.
:answer
:or_take($21);

-- name: recordRunning
-- The record of a Resume attempt that has seen none, with its first segment.
:running
RETURNING created_at;

-- name: runOver
-- recordRunning where a free record was seen, $17 its fence.
:running
:or_take($17);

-- name: ownsRecord
-- Returns a row where the attempt owns its record.
SELECT 1 FROM :"schema".idempotency_record r WHERE :owned AND r.state IN (1, 3);

-- name: sealRunning
-- Renews the lease with a segment of a Resume attempt: $4 lease, $5 and $6 the clock's window, outside of which the lease has no
-- end; $7 the other state of the record.
:must_one(UPDATE :"schema".idempotency_record AS r SET lease_until = CASE WHEN :now BETWEEN $5 AND $6
	THEN :earliest(r.deadline_at, :latest(r.lease_until, :now + $4)) END
WHERE :owned AND r.state IN (1, $7::integer)
RETURNING :now AS at);

-- name: sealAnswer
-- complete with the last segment of a Resume attempt.
:must_one(UPDATE :"schema".idempotency_record AS r SET :answered
WHERE :owned AND r.state IN (1, 3)
RETURNING :now AS at);

-- name: loseAnswer
-- Records that nobody knows which rows of an attempt were committed: its handler has ended the transaction. The attempt's lock
-- is held. $1 to $12 as in :answer, $13 what is left of the deadline, $14 how the attempt has ended. Another attempt's record stays.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, ends)
VALUES ($1, $2, $3, $4, 3, $5, $6, $7, $8, $9, $10, $11, $12, :now, :now, :now + $13, $14)
ON CONFLICT (id) DO UPDATE SET
	fence = CASE WHEN r.owner = excluded.owner THEN r.fence ELSE :latest(r.fence + 1, excluded.fence) END, :instead
WHERE r.owner = excluded.owner AND r.state = 3 OR :free;

-- name: renew
-- $4 lease. A clock that is behind does not end it earlier.
UPDATE :"schema".idempotency_record AS r SET lease_until = :earliest(r.deadline_at, :latest(r.lease_until, :now + $4::bigint))
WHERE :owned AND r.state = 1;

-- name: yield
-- Ends the lease. $4 how the attempts have ended; NULL: as before. $5 since when, before now: an operator ends a pause.
UPDATE :"schema".idempotency_record AS r SET lease_until = :earliest(r.deadline_at, :now - $5::bigint),
	ends = coalesce($4::bytea, r.ends)
WHERE :owned AND r.state = 1;

-- name: park
-- $4 as in yield. The record has no deadline where COMMIT would not wait for the disk: that is refused.
UPDATE :"schema".idempotency_record AS r SET state = 3, ends = coalesce($4::bytea, r.ends),
	deadline_at = CASE WHEN :durable THEN r.deadline_at END
WHERE :owned AND r.state IN (1, 3);

-- name: release
-- Frees the key. It keeps the row, so that the fence goes on rising; the sweep drops the row after $4.
UPDATE :"schema".idempotency_record AS r SET state = 5, purge_at = :now + $4::bigint, due_at = :now + $4::bigint
WHERE :owned AND r.state = 1;

-- name: outrun
-- Raises the fence of an operation that nobody runs, as a takeover may have seen it that was given up and has not reached the
-- server yet: $2 is its fence. A slow owner is stale by that.
UPDATE :"schema".idempotency_record AS r SET fence = r.fence + 1 WHERE r.id = $1 AND r.fence = $2 AND :resumable;

-- name: durably
-- What the transaction writes is then durable, whatever was left on the connection.
SELECT :durably;
