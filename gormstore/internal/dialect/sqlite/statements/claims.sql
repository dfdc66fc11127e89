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

-- name: takeOver
UPDATE main.idempotency_record AS r SET scope = ?2, realm = ?11, owner = ?3, fence = r.fence + 1, state = 1, recovery = ?4,
	method = ?5, route = ?6, hash_version = ?7, command_hash = ?8,
	created_at = CASE WHEN r.state = 1 THEN r.created_at ELSE c.now END,
	attempts = CASE WHEN r.state = 1 THEN r.attempts + 1 ELSE 1 END,
	lease_until = c.now + ?9, deadline_at = c.now + ?10, expires_at = NULL, purge_at = NULL, status = 0, partial = false,
	answer_encoding = 1, headers = NULL, body = NULL, traceparent = ?21, timed = r.timed OR ?17 AND r.state <> 1,
	ends = ?22, due_at = NULL
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.fence = ?18 AND c.now >= ?12 AND (r.state = 5 OR c.now <= ?19)
	AND (r.state = 1 OR ?15 = ''
		OR ?16 > coalesce((SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?15), -1)
		AND c.now >= ?13 AND c.now <= ?14)
	AND CASE WHEN ?20 THEN
		:free
	ELSE
		r.state = 1 AND r.recovery = 2 AND r.lease_until <= c.now AND ?4 = 2 AND r.hash_version = ?7 AND r.command_hash = ?8
	END;

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
