-- What timed keys are judged by, as in ../../postgres/statements/keytimes.sql, where the statements are explained.

-- name: keyFloor
-- Reads the clock and a floor: a claim that was refused has not said why. PostgreSQL's lookTimed returns both.
SELECT :now,
	(SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?1);
