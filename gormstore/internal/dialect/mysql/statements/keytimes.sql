-- What timed keys are judged by, as in ../../statements/keytimes.sql, where the statements are explained.

-- macro: raised
value = IF(CAST(idempotency_setting.value AS SIGNED) < CAST(VALUES(value) AS SIGNED), VALUES(value), idempotency_setting.value)

-- name: keyFloor
SELECT :now, (SELECT CAST(f.value AS SIGNED) FROM :"schema".idempotency_setting f WHERE f.name = $1);

-- name: raiseKeyFloor
INSERT INTO :"schema".idempotency_setting (name, value) VALUES ($1, $2) ON DUPLICATE KEY UPDATE :raised;

-- name: raiseKeyFloors
UPDATE :"schema".idempotency_setting AS s SET value = $2
WHERE s.name LIKE $1 AND CAST(s.value AS SIGNED) < CAST($2 AS SIGNED);

-- name: raiseAgedFloors
INSERT INTO :"schema".idempotency_setting (name, value)
SELECT CONCAT($2, SUBSTR(a.name, $4 + 1)), $3 FROM :"schema".idempotency_setting a WHERE a.name LIKE $1
ON DUPLICATE KEY UPDATE :raised;

-- name: keepFirst
INSERT INTO :"schema".idempotency_setting (name, value) VALUES ($1, $2)
ON DUPLICATE KEY UPDATE name = idempotency_setting.name;
