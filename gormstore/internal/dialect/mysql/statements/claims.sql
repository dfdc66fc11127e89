-- Claims, as in ../../postgres/statements/claims.sql, where the statements are explained. UPDATE works its assignments off from
-- left to right, and each sees what those before it have set.

-- macro: slot_of
-- The lock :it was taken: nobody has its slot.
(SELECT l.slot FROM :"schema".idempotency_lock l WHERE l.slot = :slot(:it) FOR UPDATE SKIP LOCKED) IS NOT NULL

-- macro: unlocked
-- The record :it, unless another transaction holds it: that may be a segment, which nobody waits for.
(SELECT x.id FROM :"schema".idempotency_record x WHERE x.id = :it FOR UPDATE SKIP LOCKED)

-- name: insertRecord
-- Fails with 1062 where a record has come beside the look, which keeps a repeat from waiting for one. The floor is read behind the INSERT: in front of it the sweep could drop the record
-- and raise the floor in between. $19 lock. The last statement says whether the claim has won.
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, realm, timed, traceparent)
SELECT $1, $2, $3, 1, 1, $4, $5, $6, $7, $8, :now, :now + $9, :now + $10, $11, $17, $18
FROM DUAL WHERE :now >= $12 AND ($15 = '' OR :now >= $13 AND :now <= $14)
	AND NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1) AND :slot_of($19);
DELETE FROM :"schema".idempotency_record WHERE id = :unlocked($1) AND owner = $3 AND fence = 1 AND $15 <> ''
	AND $16 <= (SELECT CAST(f.value AS SIGNED) FROM :"schema".idempotency_setting f WHERE f.name = $15);
UPDATE :"schema".idempotency_record AS r SET probe = r.probe + 1
WHERE r.id = :unlocked($1) AND r.owner = $3 AND r.fence = 1 AND r.state = 1;

-- name: takeOver
UPDATE :"schema".idempotency_record AS r SET created_at = IF(r.state = 1, r.created_at, :now),
	attempts = IF(r.state = 1, r.attempts + 1, 1), timed = r.timed OR $17 AND r.state <> 1,
	scope = $2, realm = $11, owner = $3, fence = r.fence + 1, state = 1, recovery = $4, method = $5, route = $6,
	hash_version = $7, command_hash = $8, lease_until = :now + $9, deadline_at = :now + $10, expires_at = NULL,
	purge_at = NULL, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL, traceparent = $21,
	ends = $22, due_at = NULL
WHERE r.id = :unlocked($1) AND r.fence = $18 AND :now >= $12 AND (r.state = 5 OR :now <= $19)
	AND (r.state = 1 OR $15 = ''
		OR $16 > COALESCE((SELECT CAST(f.value AS SIGNED) FROM :"schema".idempotency_setting f WHERE f.name = $15), -1)
		AND :now >= $13 AND :now <= $14)
	AND IF($20, :free, :resumable AND $4 = 2 AND r.hash_version = $7 AND r.command_hash = $8)
	AND :slot_of($23);

-- name: lockFirst
-- The lock is a row of a table of slots, until the end of the transaction. A slot that somebody has is skipped. The last column
-- says that another attempt may run beside: nodes of a cluster share no lock, and no hot statement asks whether this is one.
SELECT :slot_of($4), :now,
	0, 0, '', true;

-- name: lookFirst
SELECT :now, :server, :columns, r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN :"schema".idempotency_record r ON r.id = $1;

-- name: lookTimed
SELECT :now, (SELECT CAST(f.value AS SIGNED) FROM :"schema".idempotency_setting f WHERE f.name = $2), :server, :columns,
	r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN :"schema".idempotency_record r ON r.id = $1;

-- name: lookAnswer
SELECT :now, :server, r.owner, r.fence, r.recovery, r.hash_version, r.command_hash, r.expires_at, r.purge_at, r.status,
	r.partial, r.answer_encoding, r.headers, r.body, r.traceparent
FROM :"schema".idempotency_record r
WHERE r.id = $1 AND r.state = 2 AND r.expires_at > :now;

-- name: held
-- $1 is not needed.
SELECT $1 IS NULL OR NOT EXISTS (
	SELECT 1 FROM :"schema".idempotency_lock l WHERE l.slot = :slot($2) LOCK IN SHARE MODE SKIP LOCKED);

-- name: tryLock
SELECT :slot_of($1), NULL, true;

-- name: lockAlone
-- Fails with 1242 where another attempt has the lock.
SELECT IF(:slot_of($1), 1, (SELECT v.n FROM :"schema".idempotency_never v));

-- name: importRecord
-- The probe marks what this very import has written.
UPDATE :"schema".idempotency_record AS r SET probe = 0 WHERE r.id = $1 AND r.probe = -1;
UPDATE :"schema".idempotency_record AS r SET fence = r.fence + 1, scope = $2, realm = $20, owner = $3, recovery = $6,
	method = $7, route = $8, hash_version = $9, command_hash = $10, created_at = $11, lease_until = $12, deadline_at = $13,
	expires_at = $14, purge_at = $15, status = $16, partial = $17, answer_encoding = $23, headers = $18, body = $19,
	traceparent = '', timed = r.timed OR $21, due_at = $22, attempts = 1, ends = NULL, state = $5, probe = -1
WHERE r.id = $1 AND (:free);
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body, realm, timed, due_at,
	answer_encoding, probe)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, -1
FROM DUAL WHERE ROW_COUNT() = 0 AND NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1);
SELECT r.fence FROM :"schema".idempotency_record r WHERE r.id = $1 AND r.probe = -1;
