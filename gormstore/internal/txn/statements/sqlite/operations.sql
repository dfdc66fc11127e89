-- Reading, settling and sweeping records, as in ../postgres/operations.sql, where the statements are explained. There is no
-- backend to be named, nor another writer whose rows are to be skipped.

-- name: clock
SELECT :now;

-- name: find
SELECT :now, 0, NULL,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding, r.headers,
	r.body, r.attempts, r.timed, r.traceparent
FROM main.idempotency_record r WHERE r.id = ?1;

-- name: findFor
SELECT :now, 0, NULL,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding,
	CASE WHEN r.scope = ?2 OR r.realm BETWEEN ?3 AND ?4 THEN r.headers END,
	CASE WHEN r.scope = ?2 OR r.realm BETWEEN ?3 AND ?4 THEN r.body END,
	r.attempts, r.timed, r.traceparent
FROM main.idempotency_record r WHERE r.id = ?1;

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
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding, r.headers,
	r.body, r.attempts, r.timed, r.traceparent
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

-- name: near
SELECT r.id FROM main.idempotency_record r
WHERE r.id >= ?1 AND r.id <= ?2 AND substr(r.id, 33 - length(?3), 32) = ?3 AND substr(r.realm, 1, length(?4)) = ?4
ORDER BY r.id LIMIT ?5;

-- name: countOpen
WITH c AS MATERIALIZED (
	SELECT :now AS now
)
SELECT count(*) FROM (
	SELECT 1 FROM main.idempotency_record r WHERE r.scope = ?1 AND r.sweep_after IS NULL AND r.state IN (1, 3)
		AND NOT (r.state = 1 AND r.recovery = 2 AND r.lease_until <= (SELECT now FROM c)
			AND r.deadline_at <= (SELECT now FROM c))
	LIMIT ?2
) o;

-- name: settle
UPDATE main.idempotency_record AS r SET state = ?3, fence = r.fence + 1, status = ?4, partial = false, headers = ?5,
	body = ?6, expires_at = c.now + ?7, purge_at = c.now + ?8,
	sweep_after = 0, sweep_from = c.now + ?7
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.fence = ?2
	AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= c.now))
	AND r.lease_until <= c.now AND r.deadline_at <= c.now AND c.now >= ?9 AND c.now <= ?10;

-- name: appendSettlement
INSERT INTO main.idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state, after_fence,
	after_state, after_status, undone)
VALUES (?1, :now, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: history
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, s.record_id, '', ''
FROM main.idempotency_settlement s WHERE s.record_id = ?1 ORDER BY s.settled_at, s.after_fence;

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

-- name: erasable
SELECT p.id, p.state, p.own, p.place = ?3
FROM (
	SELECT q.id, q.state, q.own, row_number() OVER (ORDER BY q.id) AS place
	FROM (
		SELECT r.id, r.state, r.scope = ?1 AND r.state <> 4 AS own
		FROM main.idempotency_record r WHERE r.id > ?2 ORDER BY r.id LIMIT ?3
	) q
) p
WHERE p.own OR p.place = ?3 ORDER BY p.id;

-- name: erase
UPDATE main.idempotency_record AS r SET state = CASE WHEN r.state = 2 THEN 4 ELSE r.state END, headers = NULL,
	body = NULL, partial = false, expires_at = CASE WHEN r.expires_at > c.now THEN c.now ELSE r.expires_at END
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.scope = ?2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM main.idempotency_step s WHERE s.record_id = ?1)
		OR EXISTS (SELECT 1 FROM main.idempotency_reference f WHERE f.record_id = ?1)));

-- name: setting
SELECT s.value FROM main.idempotency_setting s WHERE s.name = ?1;

-- name: keepSetting
INSERT INTO main.idempotency_setting AS s (name, value) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: keepFirstScoping
INSERT INTO main.idempotency_setting AS s (name, value)
SELECT ?1, ?2
WHERE NOT EXISTS (SELECT 1 FROM main.idempotency_setting o WHERE o.name LIKE ?3)
ON CONFLICT (name) DO NOTHING;
