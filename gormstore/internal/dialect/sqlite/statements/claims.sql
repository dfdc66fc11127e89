-- Claims, as in ../../postgres/statements/claims.sql, where the statements are explained. SQLite has one writer, so that no claim races
-- another one. Points in time are microseconds since 1970; SQLite's clock counts milliseconds.

-- name: insertRecord
INSERT INTO main.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, realm, timed, traceparent)
SELECT ?1, ?2, ?3, 1, 1, ?4, ?5, ?6, ?7, ?8, c.now, c.now + ?9, c.now + ?10, ?11, ?17, ?18
FROM (SELECT :now AS now) c WHERE c.now >= ?12
	AND (?15 = '' OR ?16 > coalesce((SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?15), -1)
		AND c.now >= ?13 AND c.now <= ?14)
ON CONFLICT (id) DO NOTHING;

-- name: lookFirst
-- The clock is that of the moment at which the record is read, or is not there.
SELECT :now,
	:server,
	:columns, r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN main.idempotency_record r ON r.id = ?1;

-- name: lookTimed
SELECT :now,
	(SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?2),
	:server,
	:columns, r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN main.idempotency_record r ON r.id = ?1;

-- name: tryLock
-- Who asks has the writer.
SELECT true, NULL, true;
