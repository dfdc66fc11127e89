-- The patrol, as in ../../postgres/statements/patrol.sql, where the statements are explained. With one writer, nothing is hidden from it.

-- name: patrolled
SELECT :now,
	coalesce((SELECT CAST(p.value AS bigint) FROM main.idempotency_setting p WHERE p.name = 'patrol/limit'), 0),
	coalesce((SELECT CAST(p.value AS bigint) FROM main.idempotency_setting p WHERE p.name = 'patrol/passed'), 0);

-- name: patrolUpto
-- Where a batch ends that begins behind $1: at $2, or where there are more than about $3 records of a sweep_after.
WITH RECURSIVE class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
SELECT min(?2, coalesce(min(l.moment), ?2)) FROM (
	SELECT (
		SELECT r.sweep_from FROM main.idempotency_record r
		WHERE r.sweep_after = class.after AND class.after > 0 AND r.sweep_from > ?1
		ORDER BY r.sweep_from LIMIT 1 OFFSET ?3
	) AS moment FROM class
) l;

-- name: patrol
WITH RECURSIVE class (after) AS (
	SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after >= 0
	UNION ALL
	SELECT (SELECT min(r.sweep_after) FROM main.idempotency_record r WHERE r.sweep_after > class.after)
	FROM class WHERE class.after IS NOT NULL
)
UPDATE main.idempotency_record AS r SET sweep_after = NULL
WHERE r.id IN (
	SELECT o.id FROM class CROSS JOIN main.idempotency_record o
	WHERE o.sweep_after = class.after AND class.after > 0 AND o.state IN (1, 3) AND o.sweep_from > ?1 AND o.sweep_from <= ?2
);
