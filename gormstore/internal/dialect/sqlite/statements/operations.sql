-- Reading, settling and sweeping records, as in ../../postgres/statements/operations.sql, where the statements are explained. There is no
-- backend to be named, nor another writer whose rows are to be skipped.

-- name: list
WITH RECURSIVE c AS MATERIALIZED (
	SELECT :now AS now
), class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
SELECT (SELECT now FROM c), 0, NULL,
	:columns, r.headers, r.body
FROM (
	SELECT r.* FROM main.idempotency_record r
	WHERE r.sweep_after IS NULL AND (r.created_at, r.id) > (?12, ?13)
		AND r.realm >= ?2 AND r.realm <= ?3 AND (
			?5 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= (SELECT now FROM c)))
			OR (?6 OR ?7 AND r.deadline_at <= (SELECT now FROM c))
				AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= (SELECT now FROM c))
		AND (?8 = '' OR r.method || ' ' || r.route = ?8) AND (length(?9) = 0 OR r.scope = ?9)
		AND r.created_at >= ?10 AND r.created_at < ?11
	UNION ALL
	SELECT r.* FROM class CROSS JOIN main.idempotency_record r
	WHERE r.sweep_after = class.after AND class.after > 0 AND r.state IN (1, 3) AND r.sweep_from > ?4
		AND (r.created_at, r.id) > (?12, ?13)
		AND r.realm >= ?2 AND r.realm <= ?3 AND (
			?5 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= (SELECT now FROM c)))
			OR (?6 OR ?7 AND r.deadline_at <= (SELECT now FROM c))
				AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= (SELECT now FROM c))
		AND (?8 = '' OR r.method || ' ' || r.route = ?8) AND (length(?9) = 0 OR r.scope = ?9)
		AND r.created_at >= ?10 AND r.created_at < ?11
) r
ORDER BY r.created_at, r.id LIMIT ?1;

-- name: count
WITH RECURSIVE c AS MATERIALIZED (
	SELECT :now AS now
), class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
SELECT (SELECT now FROM c), o.half_done, o.method, o.route, count(*),
	count(*) FILTER (WHERE o.created_at <= (SELECT now FROM c) - 3600 * 1000000),
	count(*) FILTER (WHERE o.created_at <= (SELECT now FROM c) - 24 * 3600 * 1000000), min(o.created_at)
FROM (
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at, r.id
	FROM main.idempotency_record r
	WHERE r.sweep_after IS NULL
		AND r.realm >= ?2 AND r.realm <= ?3 AND (
			?5 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= (SELECT now FROM c)))
			OR (?6 OR ?7 AND r.deadline_at <= (SELECT now FROM c))
				AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= (SELECT now FROM c))
		AND (?8 = '' OR r.method || ' ' || r.route = ?8) AND (length(?9) = 0 OR r.scope = ?9)
		AND r.created_at >= ?10 AND r.created_at < ?11
	UNION ALL
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at, r.id
	FROM class CROSS JOIN main.idempotency_record r
	WHERE r.sweep_after = class.after AND class.after > 0 AND r.state IN (1, 3) AND r.sweep_from > ?4
		AND r.realm >= ?2 AND r.realm <= ?3 AND (
			?5 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= (SELECT now FROM c)))
			OR (?6 OR ?7 AND r.deadline_at <= (SELECT now FROM c))
				AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= (SELECT now FROM c))
		AND (?8 = '' OR r.method || ' ' || r.route = ?8) AND (length(?9) = 0 OR r.scope = ?9)
		AND r.created_at >= ?10 AND r.created_at < ?11
	ORDER BY created_at, id LIMIT ?1
) o
GROUP BY o.half_done, o.method, o.route;

-- name: openSteps
WITH RECURSIVE class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
SELECT o.id, coalesce(s.name, '')
FROM (
	SELECT r.id
	FROM (
		SELECT o.id, o.realm, o.state FROM main.idempotency_record o WHERE o.sweep_after IS NULL
		UNION ALL
		SELECT n.id, n.realm, n.state FROM class CROSS JOIN main.idempotency_record n
		WHERE n.sweep_after = class.after AND class.after > 0 AND n.state IN (1, 3)
			AND n.sweep_from > ?3
	) r
	WHERE r.state IN (1, 3) AND substr(r.realm, 1, length(?2)) = ?2
	LIMIT ?1
) o
LEFT JOIN main.idempotency_step s ON s.record_id = o.id AND s.kind = 2;

-- name: lastSettled
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM main.idempotency_settlement s CROSS JOIN main.idempotency_record r ON r.id = s.record_id
WHERE substr(r.realm, 1, length(?1)) = ?1 AND (?2 = '' OR s.settled_by = ?2)
ORDER BY s.settled_at DESC LIMIT ?3;

-- name: lastAnswered
WITH RECURSIVE class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
SELECT (
	SELECT a.id FROM (
		SELECT r.id, r.sweep_from, r.state, r.status, r.partial, r.realm, r.method, r.route
		FROM main.idempotency_record r WHERE r.sweep_after = class.after ORDER BY r.sweep_from DESC LIMIT 1000
	) a
	WHERE a.state = 2 AND a.status < 300 AND NOT a.partial AND a.method || ' ' || a.route = ?2
		AND substr(a.realm, 1, length(?1)) = ?1
	ORDER BY a.sweep_from DESC LIMIT 1
) AS found
FROM class WHERE class.after > 0 AND found IS NOT NULL
ORDER BY (SELECT r.sweep_from FROM main.idempotency_record r WHERE r.id = found) DESC LIMIT 1;

-- name: due
-- The records that are due, and what is to become of them: $1 to $3 as those of PostgreSQL's sweep.
WITH RECURSIVE c AS MATERIALIZED (
	SELECT :now AS now
), class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
SELECT CASE
	WHEN r.state IN (2, 4, 5) AND r.purge_at <= c.now THEN 'dropped'
	WHEN r.state = 2 AND r.expires_at <= c.now THEN 'tombstone'
	ELSE '' END, r.id, r.recovery = 2, CASE WHEN r.timed AND r.state IN (2, 4) AND r.purge_at <= c.now THEN r.realm END,
	r.method || ' ' || r.route
FROM c CROSS JOIN class CROSS JOIN main.idempotency_record r
WHERE r.sweep_after = class.after AND r.sweep_from <= c.now - class.after * 1000000
	AND c.now >= ?2 AND c.now <= ?3
LIMIT ?1;

-- name: bury
UPDATE main.idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false,
	sweep_after = 0, sweep_from = r.purge_at
WHERE r.id = ?1;

-- name: drop
DELETE FROM main.idempotency_record AS r WHERE r.id = ?1;

-- name: putOff
-- Lists a record that is open, and has any other looked at when its time is over.
UPDATE main.idempotency_record AS r SET
	sweep_after = CASE WHEN r.state IN (2, 4, 5) THEN 0 END,
	sweep_from = CASE WHEN r.state = 2 THEN r.expires_at ELSE coalesce(r.purge_at, r.sweep_from) END
WHERE r.id = ?1;
