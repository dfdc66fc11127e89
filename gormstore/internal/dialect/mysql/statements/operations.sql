-- As in ../../statements/operations.sql, where the statements are explained.

-- name: count
SELECT :now, o.half_done, o.method, o.route, count(*), SUM(o.created_at <= :now - 3600 * 1000000),
	SUM(o.created_at <= :now - 24 * 3600 * 1000000), min(o.created_at)
FROM (
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at
	FROM :"schema".idempotency_record r WHERE :selected ORDER BY r.created_at, r.id LIMIT $1
) o
GROUP BY o.half_done, o.method, o.route;

-- name: flow
SELECT f.ago, SUM(f.came), SUM(f.settled) FROM (
	SELECT (:now - r.created_at) DIV 3600000000 AS ago, 1 AS came, 0 AS settled
	FROM :"schema".idempotency_record r
	WHERE r.due_at IS NULL AND r.created_at > :now - $3 * 3600000000 AND r.realm >= $1 AND r.realm <= $2
		AND ((:unknown) OR r.deadline_at <= :now AND :resumable)
	UNION ALL
	SELECT (:now - IF(k.came = 1, s.created_at, s.settled_at)) DIV 3600000000, k.came, 1 - k.came
	FROM (
		SELECT l.settled_at, (SELECT r.created_at FROM :"schema".idempotency_record r
			WHERE r.id = l.record_id AND r.realm >= $1 AND r.realm <= $2 LIMIT 1) AS created_at
		FROM (
			SELECT h.record_id, h.settled_at, h.after_state FROM :"schema".idempotency_settlement h
			WHERE h.settled_at > :now - $3 * 3600000000 ORDER BY h.settled_at DESC LIMIT 10000
		) l
		WHERE l.after_state IN (2, 5)
	) s CROSS JOIN (SELECT 0 AS came UNION ALL SELECT 1) k
	WHERE s.created_at IS NOT NULL
) f
GROUP BY f.ago;

-- name: lastSettled
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM :"schema".idempotency_settlement s JOIN :"schema".idempotency_record r ON r.id = s.record_id
WHERE substr(r.realm, 1, length($1)) = $1 AND ($2 = '' OR s.settled_by = $2)
ORDER BY s.settled_at DESC LIMIT $3;

-- name: settle
UPDATE :"schema".idempotency_record AS r SET ends = IF(r.state = 1, COALESCE($11, r.ends), r.ends), status = $4, partial = false, headers = $5, body = $6, expires_at = :now + $7,
	purge_at = :now + $8, due_at = :now + $7, answer_encoding = $12, fence = r.fence + 1, state = $3
WHERE r.id = :unlocked($1) AND r.fence = $2 AND (:unknown) AND r.lease_until <= :now AND r.deadline_at <= :now
	AND :now BETWEEN $9 AND $10;

-- name: erase
UPDATE :"schema".idempotency_record AS r SET probe = r.probe + 1, state = IF(r.state = 2, 4, r.state), headers = NULL,
	body = NULL, partial = false, expires_at = IF(r.expires_at > :now, :now, r.expires_at)
WHERE r.id = :unlocked($1) AND r.scope = $2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM :"schema".idempotency_step s WHERE s.record_id = $1)
		OR EXISTS (SELECT 1 FROM :"schema".idempotency_reference f WHERE f.record_id = $1)
		OR EXISTS (SELECT 1 FROM :"schema".idempotency_note n WHERE n.record_id = $1
			AND (n.body <> '' OR n.decision IS NOT NULL))));

-- name: keepSetting
INSERT INTO :"schema".idempotency_setting (name, value) VALUES ($1, $2) ON DUPLICATE KEY UPDATE value = VALUES(value);

-- name: keepFirstScoping
INSERT INTO :"schema".idempotency_setting (name, value)
SELECT $1, $2 FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM :"schema".idempotency_setting o WHERE o.name LIKE $3)
ON DUPLICATE KEY UPDATE name = idempotency_setting.name;

-- name: annotate
-- Fails with 1062 where it is there, or another open proposal is.
INSERT INTO :"schema".idempotency_note (record_id, token, written_at, written_by, body, kind, fence, decision, encoding)
SELECT r.id, $2, :now, $3, $4, $5, $6, $7, $8
FROM :"schema".idempotency_record r
WHERE r.id = $1 AND r.state IN (1, 3) AND ($5 = 0 OR r.fence = $6) AND ($5 <> 1 OR (:unknown)
	AND r.lease_until <= :now AND r.deadline_at <= :now AND :now BETWEEN $9 AND $10);

-- name: refer
INSERT INTO :"schema".idempotency_reference (record_id, name, value, realm, referred_at)
SELECT $1, $2, $3, $4, :now FROM DUAL
WHERE ($5 OR EXISTS (SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1))
	AND (SELECT count(*) FROM :"schema".idempotency_reference o WHERE o.record_id = $1) < $6
ON DUPLICATE KEY UPDATE name = idempotency_reference.name;
