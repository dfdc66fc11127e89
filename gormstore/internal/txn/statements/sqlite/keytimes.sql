-- What timed keys are judged by, as in ../postgres/keytimes.sql, where the statements are explained.

-- name: keyFloor
-- Reads the clock and a floor: a claim that was refused has not said why. PostgreSQL's claimKey returns both.
SELECT :now,
	(SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?1);

-- name: raiseKeyFloor
INSERT INTO main.idempotency_setting AS s (name, value)
SELECT ?1, ?2
WHERE true
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: raiseKeyFloors
UPDATE main.idempotency_setting AS s SET value = ?2
WHERE s.name LIKE ?1 AND CAST(s.value AS bigint) < CAST(?2 AS bigint);

-- name: raiseAgedFloors
INSERT INTO main.idempotency_setting AS s (name, value)
SELECT ?2 || substr(a.name, ?4 + 1), ?3
FROM main.idempotency_setting a WHERE a.name LIKE ?1
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: keepFirst
INSERT INTO main.idempotency_setting AS s (name, value) VALUES (?1, ?2)
ON CONFLICT (name) DO NOTHING;

-- name: lockSetting
SELECT s.value FROM main.idempotency_setting s WHERE s.name = ?1;
