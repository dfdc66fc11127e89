-- What an attempt writes to its record, as in ../../postgres/statements/attempts.sql, where the statements are explained.

-- name: renew
UPDATE main.idempotency_record AS r SET lease_until = min(r.deadline_at,
	CASE WHEN ?4 <= 0 THEN c.now + ?4 ELSE max(r.lease_until, c.now + ?4) END)
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: complete
UPDATE main.idempotency_record AS r SET state = 2, status = ?4, partial = ?5, headers = ?6, body = ?7,
	expires_at = max(c.now, r.created_at) + ?8, purge_at = max(c.now, r.created_at) + ?9,
	due_at = max(c.now, r.created_at) + ?8
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: park
UPDATE main.idempotency_record AS r SET state = 3
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: release
UPDATE main.idempotency_record AS r SET state = 5, purge_at = c.now + ?4,
	due_at = c.now + ?4
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: releaseOwner
UPDATE main.idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, fence = r.fence + 1,
	owner = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN ?4 ELSE r.owner END, attempts = max(r.attempts - 1, 1),
	lease_until = c.now, purge_at = c.now + ?3,
	due_at = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE c.now + ?3 END
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.state = 1;

-- name: outrun
UPDATE main.idempotency_record AS r SET fence = r.fence + 1
WHERE r.id = ?1 AND r.fence = ?2 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now;

-- name: keepOut
-- A COMMIT is not read back like this: see readBack in package txn.
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT ?1, ?4, ?2, ?7, 5, 3, '', '', 1, ?4, c.now, c.now, c.now, c.now + ?3, ?5, c.now + ?3
FROM (SELECT :now AS now) c
WHERE ?6 IS NULL
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN excluded.purge_at ELSE r.purge_at END,
	due_at = CASE WHEN r.state = 5 THEN excluded.due_at ELSE r.due_at END
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now
	AND NOT r.timed;
