-- What an attempt writes to its record, as in ../../postgres/statements/attempts.sql, where the statements are explained.

-- name: renew
UPDATE main.idempotency_record AS r SET lease_until = min(r.deadline_at,
	CASE WHEN ?4 <= 0 THEN c.now + ?4 ELSE max(r.lease_until, c.now + ?4) END)
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: complete
UPDATE main.idempotency_record AS r SET :answered WHERE :owned AND r.state IN (1, 3);

-- name: park
UPDATE main.idempotency_record AS r SET state = 3 WHERE :owned AND r.state IN (1, 3);

-- name: release
UPDATE main.idempotency_record AS r SET state = 5, purge_at = c.now + ?4,
	due_at = c.now + ?4
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: outrun
UPDATE main.idempotency_record AS r SET fence = r.fence + 1
WHERE r.id = ?1 AND r.fence = ?2 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now;
