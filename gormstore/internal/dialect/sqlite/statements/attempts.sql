-- What an attempt writes to its record, as in ../../postgres/statements/attempts.sql, where the statements are explained.

-- name: renew
UPDATE main.idempotency_record AS r SET lease_until = min(r.deadline_at,
	CASE WHEN ?4 <= 0 THEN c.now + ?4 ELSE max(r.lease_until, c.now + ?4) END)
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: complete
UPDATE main.idempotency_record AS r SET state = 2, status = ?4, partial = ?5, headers = ?6, body = ?7,
	expires_at = max(c.now, r.created_at) + ?8, purge_at = max(c.now, r.created_at) + ?9,
	due_at = max(c.now, r.created_at) + ?8
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: recordAnswer
INSERT INTO main.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at)
SELECT ?1, ?2, ?3, ?4, 2, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, c.now, c.now, c.now, ?14, ?15, ?16, ?17, c.now + ?18,
	c.now + ?19, c.now + ?18
FROM (SELECT :now AS now) c WHERE c.now >= ?13
ON CONFLICT (id) DO NOTHING;

-- name: recordOver
-- ?20 the fence of the free record that was seen.
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at)
SELECT ?1, ?2, ?3, ?4, 2, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, c.now, c.now, c.now, ?14, ?15, ?16, ?17, c.now + ?18,
	c.now + ?19, c.now + ?18
FROM (SELECT :now AS now) c WHERE c.now >= ?13
ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, owner = excluded.owner, fence = excluded.fence,
	state = excluded.state, recovery = excluded.recovery, method = excluded.method, route = excluded.route,
	hash_version = excluded.hash_version, command_hash = excluded.command_hash, realm = excluded.realm,
	timed = r.timed OR excluded.timed, traceparent = excluded.traceparent, created_at = excluded.created_at,
	lease_until = excluded.lease_until, deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status,
	partial = excluded.partial, answer_encoding = 1, headers = excluded.headers, body = excluded.body,
	expires_at = excluded.expires_at, purge_at = excluded.purge_at, due_at = excluded.due_at
WHERE r.fence = ?20 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now AND NOT r.timed);

-- name: recordRunning
-- Where the clock is outside of its window, the end of the lease is NULL, which is refused. So in sealRunning.
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
SELECT ?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, c.now, 
	CASE WHEN c.now BETWEEN ?15 AND ?16 THEN c.now + min(?13, ?14) END, c.now + ?14
FROM (SELECT :now AS now) c WHERE true
ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, owner = excluded.owner, fence = excluded.fence,
	state = excluded.state, recovery = excluded.recovery, method = excluded.method, route = excluded.route,
	hash_version = excluded.hash_version, command_hash = excluded.command_hash, realm = excluded.realm,
	timed = r.timed OR excluded.timed, traceparent = excluded.traceparent, created_at = excluded.created_at,
	lease_until = excluded.lease_until, deadline_at = excluded.deadline_at, attempts = 1, status = 0, partial = false,
	answer_encoding = 1, headers = NULL, body = NULL, expires_at = NULL, purge_at = NULL, due_at = NULL
WHERE r.fence = ?17 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now AND NOT r.timed)
RETURNING 1, created_at;

-- name: ownsRecord
-- Nobody else writes until the transaction ends.
SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: sealRunning
UPDATE main.idempotency_record AS r SET lease_until = CASE WHEN c.now BETWEEN ?5 AND ?6 THEN min(r.deadline_at, max(r.lease_until, c.now + ?4)) END
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, ?7)
RETURNING 1, :now;

-- name: sealAnswer
UPDATE main.idempotency_record AS r SET state = 2, status = ?4, partial = ?5, headers = ?6, body = ?7,
	expires_at = max(c.now, r.created_at) + ?8, purge_at = max(c.now, r.created_at) + ?9,
	due_at = max(c.now, r.created_at) + ?8
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3)
RETURNING 1, :now;

-- name: loseAnswer
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
SELECT ?1, ?2, ?3, ?4, 3, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, c.now, c.now, c.now + ?13
FROM (SELECT :now AS now) c WHERE true
ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, owner = excluded.owner,
	fence = CASE WHEN r.owner = excluded.owner THEN r.fence ELSE max(r.fence + 1, excluded.fence) END,
	state = 3, recovery = excluded.recovery, method = excluded.method, route = excluded.route,
	hash_version = excluded.hash_version, command_hash = excluded.command_hash, realm = excluded.realm,
	timed = r.timed OR excluded.timed, traceparent = excluded.traceparent, created_at = excluded.created_at,
	lease_until = excluded.lease_until, deadline_at = excluded.deadline_at, attempts = 1, status = 0, partial = false,
	answer_encoding = 1, headers = NULL, body = NULL, expires_at = NULL, purge_at = NULL, due_at = NULL
WHERE r.owner = excluded.owner AND r.state = 3
	OR r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now AND NOT r.timed;

-- name: park
UPDATE main.idempotency_record AS r SET state = 3
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: release
UPDATE main.idempotency_record AS r SET state = 5, purge_at = c.now + ?4,
	due_at = c.now + ?4
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: releaseOwner
UPDATE main.idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, fence = r.fence + 1,
	owner = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN ?4 ELSE r.owner END, attempts = max(r.attempts - 1, 1),
	lease_until = c.now, purge_at = c.now + ?3,
	due_at = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE c.now + ?3 END
FROM (SELECT :now AS now) c
WHERE r.id = ?1 AND r.owner = ?2 AND r.state = 1;

-- name: outrun
UPDATE main.idempotency_record AS r SET fence = r.fence + 1
WHERE r.id = ?1 AND r.fence = ?2 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now;

-- name: keepOut
-- A COMMIT is not read back like this: see readBack in package txn.
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT ?1, ?4, ?2, ?7, 5, 3, '', '', 1, ?4, c.now, c.now, c.now, c.now + ?3, ?5, c.now + ?3
FROM (SELECT :now AS now) c
WHERE ?6 IS NULL
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN excluded.purge_at ELSE r.purge_at END,
	due_at = CASE WHEN r.state = 5 THEN excluded.due_at ELSE r.due_at END
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now
	AND NOT r.timed;
