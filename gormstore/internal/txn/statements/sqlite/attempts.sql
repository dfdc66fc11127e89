-- What an attempt writes to its record, as in ../postgres/attempts.sql, where the statements are explained.

-- name: renew
UPDATE main.idempotency_record AS r SET lease_until = CASE
	WHEN c.now + ?4 < r.deadline_at THEN c.now + ?4
	ELSE r.deadline_at END
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: complete
UPDATE main.idempotency_record AS r SET state = 2, status = ?4, partial = ?5, headers = ?6, body = ?7,
	expires_at = max(c.now, r.created_at) + ?8, purge_at = max(c.now, r.created_at) + ?9,
	sweep_after = CASE WHEN r.sweep_after <= ?8 / 800000
			AND max(c.now, r.created_at) <= r.sweep_from + r.sweep_after * 1000000 - ?8
		THEN r.sweep_after ELSE 0 END,
	sweep_from = CASE WHEN r.sweep_after <= ?8 / 800000
			AND max(c.now, r.created_at) <= r.sweep_from + r.sweep_after * 1000000 - ?8
		THEN r.sweep_from ELSE max(c.now, r.created_at) + ?8 END
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: sealRunning
-- ?4 lease, ?5 the clock; ?6 the deadline where the segment has written the record, whose times begin now. NULL elsewhere.
UPDATE main.idempotency_record AS r SET created_at = CASE WHEN ?6 IS NULL THEN r.created_at ELSE ?5 END,
	deadline_at = coalesce(?5 + ?6, r.deadline_at), lease_until = min(?5 + ?4, coalesce(?5 + ?6, r.deadline_at)),
	sweep_from = CASE WHEN ?6 IS NULL THEN r.sweep_from ELSE ?5 END
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: park
UPDATE main.idempotency_record AS r SET state = 3, sweep_after = NULL
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: release
UPDATE main.idempotency_record AS r SET state = 5, purge_at = c.now + ?4,
	sweep_after = 0, sweep_from = c.now + ?4
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: releaseOwner
UPDATE main.idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, attempts = max(r.attempts - 1, 1),
	lease_until = c.now, purge_at = c.now + ?3,
	sweep_after = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE 0 END, sweep_from = c.now + ?3
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.state = 1;

-- name: keepOut
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, sweep_after, sweep_from)
SELECT ?1, ?4, ?2, 1, 5, 3, '', '', 1, ?4, c.now, c.now, c.now, c.now + ?3, ?5, 0, c.now + ?3
FROM (SELECT :now AS now) c
WHERE true
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN excluded.purge_at ELSE r.purge_at END,
	sweep_after = CASE WHEN r.state = 5 THEN 0 ELSE r.sweep_after END,
	sweep_from = CASE WHEN r.state = 5 THEN excluded.sweep_from ELSE r.sweep_from END
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now
	AND NOT r.timed;

-- name: traceAnswer
SELECT 1 FROM main.idempotency_record WHERE id = ?1 AND owner = ?2 AND state = 1;
