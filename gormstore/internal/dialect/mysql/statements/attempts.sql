-- What an attempt writes to its record, as in ../../postgres/statements/attempts.sql, where the statements are explained. An
-- UPDATE that would change nothing says so, even where the record is the attempt's: so it counts a probe.

-- macro: not_long
-- For a statement that many wait for. It waits a second for a row that is held, instead of as long as the server would.
SET STATEMENT innodb_lock_wait_timeout = 1 FOR

-- name: renew
:not_long UPDATE :"schema".idempotency_record AS r SET lease_until = LEAST(r.deadline_at, GREATEST(r.lease_until, :now + $4)),
	probe = r.probe + 1
WHERE :owned AND r.state = 1;

-- name: yield
:not_long UPDATE :"schema".idempotency_record AS r SET lease_until = LEAST(r.deadline_at, :now - $5), ends = COALESCE($4, r.ends),
	probe = r.probe + 1
WHERE :owned AND r.state = 1;

-- name: complete
UPDATE :"schema".idempotency_record AS r SET :answered
WHERE :owned AND r.state IN (1, 3);

-- name: park
:not_long UPDATE :"schema".idempotency_record AS r SET state = 3, ends = COALESCE($4, r.ends), probe = r.probe + 1
WHERE :owned AND r.state IN (1, 3);

-- name: lockRecord
-- It writes: a look behind a COMMIT that was cut off does not wait for it.
UPDATE :"schema".idempotency_record AS r SET probe = r.probe + 1 WHERE r.id = $1;

-- macro: seen_free
-- The record is the free one that was seen, $6 its fence.
fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= :now AND NOT timed)

-- name: fenceOff
-- What the condition reads is set last.
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
VALUES ($1, $4, $2, $7, 5, 3, '', '', 1, $4, :now, :now, :now, :now + $3, $5, :now + $3)
ON DUPLICATE KEY UPDATE probe = probe + 1, owner = IF(:seen_free, VALUES(owner), owner), headers = IF(:seen_free, NULL, headers),
	body = IF(:seen_free, NULL, body), due_at = IF(:seen_free, VALUES(due_at), due_at), state = IF(:seen_free, 5, state),
	purge_at = IF(:seen_free, VALUES(purge_at), purge_at), fence = IF(:seen_free, fence + 1, fence);

-- name: ownsRecord
SELECT 1 FROM :"schema".idempotency_record r WHERE :owned AND r.state IN (1, 3) FOR UPDATE;

-- name: recordOver
-- The sweep may have dropped the free record since.
UPDATE :"schema".idempotency_record AS r SET scope = $2, owner = $3, fence = r.fence + 1, state = 2, recovery = $5, method = $6,
	route = $7, hash_version = $8, command_hash = $9, realm = $10, timed = r.timed OR $11, traceparent = $12,
	created_at = CASE WHEN :now >= $13 THEN :now END, lease_until = :now, deadline_at = :now, attempts = 1, status = $14,
	partial = $15, answer_encoding = $20, headers = $16, body = $17, expires_at = :now + $18, purge_at = :now + $19,
	due_at = :now + $18, ends = NULL
WHERE r.id = $1 AND r.fence = $21 AND (:free);
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
SELECT $1, $2, $3, $4, 2, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN :now >= $13 THEN :now END, :now, :now, $14, $15, $16,
	$17, :now + $18, :now + $19, :now + $18, $20
FROM DUAL WHERE ROW_COUNT() = 0;
:or_fail(EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1 AND r.owner = $3 AND r.fence = $4));

-- name: recordRunning
:running;
:or_fail(ROW_COUNT() = 1);

-- name: runOver
UPDATE :"schema".idempotency_record AS r SET scope = $2, owner = $3, fence = r.fence + 1, state = 1, recovery = $5, method = $6,
	route = $7, hash_version = $8, command_hash = $9, realm = $10, timed = r.timed OR $11, traceparent = $12,
	created_at = :now, lease_until = CASE WHEN :now BETWEEN $15 AND $16 THEN :now + LEAST($13, $14) END,
	deadline_at = :now + $14, attempts = 1, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL,
	expires_at = NULL, purge_at = NULL, due_at = NULL, ends = NULL
WHERE r.id = $1 AND r.fence = $17 AND (:free);
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
SELECT $1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, :now,
	CASE WHEN :now BETWEEN $15 AND $16 THEN :now + LEAST($13, $14) END, :now + $14
FROM DUAL WHERE ROW_COUNT() = 0;
:or_fail(EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1 AND r.owner = $3 AND r.fence = $4));

-- name: sealRunning
UPDATE :"schema".idempotency_record AS r SET lease_until = CASE WHEN :now BETWEEN $5 AND $6
	THEN LEAST(r.deadline_at, GREATEST(r.lease_until, :now + $4)) END, probe = r.probe + 1
WHERE :owned AND r.state IN (1, $7);
:or_fail(ROW_COUNT() = 1);

-- name: loseAnswer
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, ends)
SELECT $1, $2, $3, $4, 3, $5, $6, $7, $8, $9, $10, $11, $12, :now, :now, :now + $13, $14
FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1);
UPDATE :"schema".idempotency_record AS r SET fence = IF(r.owner = $3, r.fence, GREATEST(r.fence + 1, $4)), scope = $2, owner = $3,
	state = 3, recovery = $5, method = $6, route = $7, hash_version = $8, command_hash = $9, realm = $10,
	timed = r.timed OR $11, traceparent = $12, created_at = :now, lease_until = :now, deadline_at = :now + $13, attempts = 1,
	status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL, expires_at = NULL, purge_at = NULL,
	due_at = NULL, ends = $14, probe = r.probe + 1
WHERE r.id = $1 AND (r.owner = $3 AND r.state = 3 OR (:free));
