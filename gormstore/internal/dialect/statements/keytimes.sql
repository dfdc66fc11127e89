-- What timed keys are judged by: floors, in microseconds since 1970, and ages. They are settings: see keytime.go of
-- gormstore. Claims read the floors in their own statements.

-- name: raiseKeyFloor
-- Raises the floor $1 to $2, and never lowers it.
INSERT INTO :"schema".idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: raiseKeyFloors
-- Raises all floors whose names are like $1 to $2.
UPDATE :"schema".idempotency_setting AS s SET value = $2::text
WHERE s.name LIKE $1::text AND CAST(s.value AS bigint) < CAST($2::text AS bigint);

-- name: raiseAgedFloors
-- Raises the floors of all routes that have had timed keys to $3, and makes those that are missing. $1 is what the names of
-- their ages are like, $2 what begins the names of their floors, $4 the length of what begins those of ages.
INSERT INTO :"schema".idempotency_setting AS s (name, value)
SELECT $2::text || substr(a.name, $4::int + 1), $3::text
FROM :"schema".idempotency_setting a WHERE a.name LIKE $1::text
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: keepFirst
-- Keeps a setting unless it is there.
INSERT INTO :"schema".idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO NOTHING;

-- name: lockSetting
-- Reads a setting that is going to be changed.
SELECT s.value FROM :"schema".idempotency_setting s WHERE s.name = $1 :for_update;
