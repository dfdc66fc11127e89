-- As in ../../statements/releases.sql, where the statements are explained.

-- name: releaseOwners
-- Those whose operation goes on are not returned: what follows finds them, and raises their fence once more.
UPDATE :"schema".idempotency_record AS r SET
	due_at = IF(r.recovery = 2 AND r.fence > 1, NULL, :now + $3), owner = IF(r.recovery = 2 AND r.fence > 1, $4, r.owner),
	attempts = GREATEST(r.attempts - 1, 1), lease_until = :now, purge_at = :now + $3,
	state = IF(r.recovery = 2 AND r.fence > 1, 1, 5), fence = r.fence + 1
WHERE r.id :ids($1) AND r.owner :ids($2) AND r.state = 1;
SELECT r.id FROM :"schema".idempotency_record r WHERE r.id :ids($1) AND r.owner :ids($2) AND r.state = 5;

-- name: fenceOffLate
-- The last statement counts them.
INSERT INTO :"schema".idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT j.id, $3, j.owner, 1, 5, 3, '', '', 1, $3, :now, :now, :now, :now + $2, $4, :now + $2
FROM :pairs($1) j
ON DUPLICATE KEY UPDATE owner = IF(idempotency_record.state = 5 OR idempotency_record.state IN (2, 4)
		AND idempotency_record.purge_at <= :now AND NOT idempotency_record.timed, VALUES(owner), idempotency_record.owner),
	fence = IF(idempotency_record.state = 5 OR idempotency_record.state IN (2, 4)
		AND idempotency_record.purge_at <= :now AND NOT idempotency_record.timed, idempotency_record.fence + 1, idempotency_record.fence),
	purge_at = IF(idempotency_record.state = 5, GREATEST(idempotency_record.purge_at, VALUES(purge_at)), idempotency_record.purge_at),
	due_at = IF(idempotency_record.state = 5, GREATEST(idempotency_record.due_at, VALUES(due_at)), idempotency_record.due_at);
UPDATE :"schema".idempotency_record AS r JOIN :pairs($1) j ON r.id = j.id AND r.owner = j.owner SET r.probe = r.probe + 1;
