-- Written by: go test ./gormstore/internal/dialect -update

-- name: adopt
UPDATE main.idempotency_record AS r SET scope = ?3, realm = ?4, method = ?5, route = ?6, timed = r.timed OR ?7,
	deadline_at = CASE WHEN true THEN r.deadline_at END
WHERE r.id = ?1 AND r.scope = ?2 AND r.hash_version = 0;

-- name: annotate
INSERT INTO main.idempotency_note (record_id, token, written_at, written_by, body, kind, fence, decision, encoding)
SELECT r.id, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, ?3, ?4, ?5, ?6, ?7, ?8
FROM main.idempotency_record r
WHERE r.id = ?1 AND r.state IN (1, 3) AND (?5 = 0 OR r.fence = ?6) AND (?5 <> 1 OR (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000))
	AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?9 AND ?10)
ON CONFLICT DO NOTHING;

-- name: appendSettlement
INSERT INTO main.idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES (?1, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: asBegun
;

-- name: askForCheck
;

-- name: atStandby
;

-- name: beginIntent
INSERT INTO main.idempotency_intent AS i
	(intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by)
SELECT ?1, ?2, ?3, ?4, CASE WHEN true THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END,
	CASE WHEN ?3 IS NOT NULL THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END, ?5
WHERE CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?6 AND ?7
ON CONFLICT (intent) DO UPDATE SET
	hash_version = coalesce(i.hash_version, excluded.hash_version),
	command_hash = coalesce(i.command_hash, excluded.command_hash),
	begun_at = coalesce(i.begun_at, excluded.begun_at),
	begun_by = CASE
		WHEN excluded.begun_by IS NULL OR excluded.hash_version IS NULL AND excluded.idempotency_key <> i.idempotency_key THEN i.begun_by
		WHEN i.begun_by IS NULL OR i.begun_by = excluded.begun_by THEN excluded.begun_by
		ELSE '' END
RETURNING intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, 0, NULL;

-- name: begun
;

-- name: blankNotesOf
UPDATE main.idempotency_note AS n SET body = '', decision = NULL
WHERE n.record_id IN (SELECT unhex(j.value) FROM json_each(?1) j) AND (n.body <> '' OR n.decision IS NOT NULL);

-- name: bury
UPDATE main.idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false, due_at = r.purge_at
WHERE r.id IN (SELECT unhex(j.value) FROM json_each(?1) j);

-- name: clock
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000;

-- name: complete
UPDATE main.idempotency_record AS r SET state = 2, status = ?4, partial = ?5, headers = ?6, body = ?7, expires_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, r.created_at) + ?8,
	purge_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, r.created_at) + ?9, due_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, r.created_at) + ?8, answer_encoding = ?10 WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: confirm
;

-- name: count
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, o.half_done, o.method, o.route, count(*),
	count(*) FILTER (WHERE o.created_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - 3600 * 1000000),
	count(*) FILTER (WHERE o.created_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - 24 * 3600 * 1000000), min(o.created_at)
FROM (
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at
	FROM main.idempotency_record r WHERE r.due_at IS NULL AND r.realm >= ?2 AND r.realm <= ?3
	AND (?4 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)) OR (?5 OR ?6 AND r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
	AND (?7 = '' OR r.method || ' ' || r.route = ?7) AND (length(?8) = 0 OR r.scope = ?8)
	AND r.created_at >= ?9 AND r.created_at < ?10 ORDER BY r.created_at, r.id LIMIT ?1
) o
GROUP BY o.half_done, o.method, o.route;

-- name: countOpen
SELECT count(*) FROM (
	SELECT 1 FROM main.idempotency_record r WHERE r.scope = ?1 AND r.due_at IS NULL AND r.state IN (1, 3)
		AND NOT (r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
	LIMIT ?2
) o;

-- name: doneIntent
UPDATE main.idempotency_intent AS i SET ended_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, i.planned_at, coalesce(i.begun_at, 0))
WHERE ?1 = (SELECT file FROM pragma_database_list WHERE name = 'main') AND i.intent = ?2 AND i.ended_at IS NULL
	AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?3 AND ?4;

-- name: drop
DELETE FROM main.idempotency_record AS r WHERE r.id IN (SELECT unhex(j.value) FROM json_each(?1) j);

-- name: dropReferencesOf
DELETE FROM main.idempotency_reference AS f WHERE f.record_id IN (SELECT unhex(j.value) FROM json_each(?1) j);

-- name: dropSteps
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1;

-- name: dropStepsOf
DELETE FROM main.idempotency_step AS s WHERE s.record_id IN (SELECT unhex(j.value) FROM json_each(?1) j);

-- name: due
SELECT CASE
	WHEN r.state IN (2, 4, 5) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 THEN 'dropped'
	WHEN r.state = 2 AND r.expires_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 THEN 'tombstone'
	ELSE '' END, r.id, r.recovery = 2, CASE WHEN r.timed AND r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 THEN r.realm END,
	r.method || ' ' || r.route, r.due_at
FROM main.idempotency_record r
WHERE r.due_at >= ?4 AND r.due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?2 AND ?3
ORDER BY r.due_at LIMIT ?1 ;

-- name: durably
SELECT true;

-- name: endIntent
UPDATE main.idempotency_intent AS i SET ended_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, i.planned_at, coalesce(i.begun_at, 0))
WHERE i.intent = ?1 AND i.ended_at IS NULL AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?2 AND ?3;

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
	body = NULL, partial = false, expires_at = CASE WHEN r.expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 ELSE r.expires_at END
WHERE r.id = ?1 AND r.scope = ?2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM main.idempotency_step s WHERE s.record_id = ?1)
		OR EXISTS (SELECT 1 FROM main.idempotency_reference f WHERE f.record_id = ?1)
		OR EXISTS (SELECT 1 FROM main.idempotency_note n WHERE n.record_id = ?1
			AND (n.body <> '' OR n.decision IS NOT NULL))));

-- name: fenceOff
;

-- name: fenceOffLate
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT j.id, ?3, j.owner, 1, 5, 3, '', '', 1, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?2, ?4, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?2
FROM (SELECT unhex(j.value->>0) AS id, unhex(j.value->>1) AS owner FROM json_each(?1) j) j
WHERE true
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN max(r.purge_at, excluded.purge_at) ELSE r.purge_at END,
	due_at = CASE WHEN r.state = 5 THEN max(r.due_at, excluded.due_at) ELSE r.due_at END
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed;

-- name: find
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM main.idempotency_record r WHERE r.id = ?1;

-- name: findFor
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding,
	CASE WHEN r.scope = ?2 OR r.realm BETWEEN ?3 AND ?4 THEN r.headers END,
	CASE WHEN r.scope = ?2 OR r.realm BETWEEN ?3 AND ?4 THEN r.body END
FROM main.idempotency_record r WHERE r.id = ?1;

-- name: findIntent
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 FROM main.idempotency_intent i WHERE i.intent = ?1;

-- name: flow
SELECT f.ago, sum(f.came), sum(f.settled) FROM (
	SELECT (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - r.created_at) / (3600 * 1000000) AS ago, 1 AS came, 0 AS settled
	FROM main.idempotency_record r
	WHERE r.due_at IS NULL AND r.created_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - ?3 * 3600 * 1000000 AND r.realm >= ?1 AND r.realm <= ?2
		AND ((r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)) OR r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
	UNION ALL
	SELECT (CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - CASE WHEN k.came = 1 THEN s.created_at ELSE s.settled_at END) / (3600 * 1000000), k.came, 1 - k.came
	FROM (
		SELECT l.settled_at, (SELECT r.created_at FROM main.idempotency_record r
			WHERE r.id = l.record_id AND r.realm >= ?1 AND r.realm <= ?2 LIMIT 1) AS created_at
		FROM (
			SELECT h.record_id, h.settled_at, h.after_state FROM main.idempotency_settlement h
			WHERE h.settled_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - ?3 * 3600 * 1000000 ORDER BY h.settled_at DESC LIMIT 10000
		) l
		WHERE l.after_state IN (2, 5)
	) s CROSS JOIN (SELECT 0 AS came UNION ALL SELECT 1) k
	WHERE s.created_at IS NOT NULL
) f
GROUP BY f.ago;

-- name: forgetCommands
DELETE FROM main.idempotency_sighting AS s WHERE s.id IN (
	SELECT e.id FROM main.idempotency_sighting e
	WHERE e.purge_at >= ?4 AND e.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?2 AND ?3
	ORDER BY e.purge_at LIMIT ?1 
)
RETURNING purge_at;

-- name: forgetIntents
DELETE FROM main.idempotency_intent AS i WHERE i.intent IN (
	SELECT e.intent FROM main.idempotency_intent e
	WHERE e.ended_at >= ?4 AND e.ended_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - ?5 AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?2 AND ?3
	ORDER BY e.ended_at LIMIT ?1 
)
RETURNING ended_at;

-- name: forgetMessages
DELETE FROM main.processed_message AS m WHERE (m.consumer_group, m.source, m.message_id) IN (
	SELECT e.consumer_group, e.source, e.message_id FROM main.processed_message e
	WHERE e.expires_at >= ?4 AND e.expires_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?2 AND ?3
	ORDER BY e.expires_at LIMIT ?1 
)
RETURNING expires_at, consumer_group, source, published_at;

-- name: forgetSteps
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1 AND s.fence < ?2 AND EXISTS (
	SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1 AND (r.owner = ?3 OR r.fence = ?2 - 1 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed)));

-- name: held
;

-- name: history
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, s.record_id, '', ''
FROM main.idempotency_settlement s WHERE s.record_id = ?1 ORDER BY s.settled_at, s.after_fence;

-- name: importRecord
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body, realm, timed, due_at,
	answer_encoding)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
ON CONFLICT (id) DO UPDATE SET fence = r.fence + 1, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed
RETURNING fence;

-- name: insertCommand
INSERT INTO main.idempotency_sighting AS s (id, scope, hash_version, command_hash, seen_at, purge_at)
SELECT ?1, ?2, ?3, ?4, c.now, c.now + ?5
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS now) c
WHERE true
ON CONFLICT (id) DO UPDATE SET hash_version = excluded.hash_version, command_hash = excluded.command_hash,
	seen_at = excluded.seen_at, purge_at = excluded.purge_at
WHERE s.purge_at <= excluded.seen_at;

-- name: insertRecord
INSERT INTO main.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, realm, timed, traceparent)
SELECT ?1, ?2, ?3, 1, 1, ?4, ?5, ?6, ?7, ?8, c.now, c.now + ?9, c.now + ?10, ?11, ?17, ?18
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS now) c WHERE c.now >= ?12
	AND (?15 = '' OR ?16 > coalesce((SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?15), -1)
		AND c.now >= ?13 AND c.now <= ?14)
ON CONFLICT (id) DO NOTHING;

-- name: insertTimed
;

-- name: keepFirst
INSERT INTO main.idempotency_setting AS s (name, value) VALUES (?1, ?2)
ON CONFLICT (name) DO NOTHING;

-- name: keepFirstScoping
INSERT INTO main.idempotency_setting AS s (name, value)
SELECT ?1, ?2
WHERE NOT EXISTS (SELECT 1 FROM main.idempotency_setting o WHERE o.name LIKE ?3)
ON CONFLICT (name) DO NOTHING;

-- name: keepSetting
INSERT INTO main.idempotency_setting AS s (name, value) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: keyFloor
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	(SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?1);

-- name: lastAnswered
SELECT r.id FROM (
	SELECT l.id, l.created_at, l.state, l.status, l.partial, l.realm, l.method, l.route FROM main.idempotency_record l
	WHERE l.due_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND l.due_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + 72 * 3600 * 1000000 ORDER BY l.due_at DESC LIMIT 1000
) r
WHERE r.state = 2 AND r.status < 300 AND NOT r.partial AND r.method || ' ' || r.route = ?2 AND substr(r.realm, 1, length(?1)) = ?1
ORDER BY r.created_at DESC LIMIT 1;

-- name: lastSettled
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM main.idempotency_settlement s CROSS JOIN main.idempotency_record r ON r.id = s.record_id
WHERE substr(r.realm, 1, length(?1)) = ?1 AND (?2 = '' OR s.settled_by = ?2)
ORDER BY s.settled_at DESC LIMIT ?3;

-- name: list
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM main.idempotency_record r
WHERE (r.created_at, r.id) > (?11, ?12) AND r.due_at IS NULL AND r.realm >= ?2 AND r.realm <= ?3
	AND (?4 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)) OR (?5 OR ?6 AND r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
	AND (?7 = '' OR r.method || ' ' || r.route = ?7) AND (length(?8) = 0 OR r.scope = ?8)
	AND r.created_at >= ?9 AND r.created_at < ?10
	AND (?13 = '' OR (SELECT 1 FROM main.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = ?13 AND (?14 = '' OR o.name = ?14) LIMIT 1) IS NOT NULL)
	AND (?15 = '' OR (SELECT 1 FROM main.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = ?15 AND (?16 = '' OR o.name = ?16) LIMIT 1) IS NOT NULL)
ORDER BY r.created_at, r.id LIMIT ?1;

-- name: listNewest
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM main.idempotency_record r
WHERE (r.created_at, r.id) < (?11, ?12) AND r.due_at IS NULL AND r.realm >= ?2 AND r.realm <= ?3
	AND (?4 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)) OR (?5 OR ?6 AND r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
	AND (?7 = '' OR r.method || ' ' || r.route = ?7) AND (length(?8) = 0 OR r.scope = ?8)
	AND r.created_at >= ?9 AND r.created_at < ?10
	AND (?13 = '' OR (SELECT 1 FROM main.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = ?13 AND (?14 = '' OR o.name = ?14) LIMIT 1) IS NOT NULL)
	AND (?15 = '' OR (SELECT 1 FROM main.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = ?15 AND (?16 = '' OR o.name = ?16) LIMIT 1) IS NOT NULL)
ORDER BY r.created_at DESC, r.id DESC LIMIT ?1;

-- name: lockAlone
;

-- name: lockClaim
;

-- name: lockFirst
;

-- name: lockGuarded
;

-- name: lockRecord
;

-- name: lockSetting
SELECT s.value FROM main.idempotency_setting s WHERE s.name = ?1 ;

-- name: lockUnknown
;

-- name: logCommand
WITH c AS MATERIALIZED (
	SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS now
), there AS MATERIALIZED (
	SELECT f.hash_version, f.command_hash, f.seen_at FROM main.idempotency_sighting f
	WHERE f.id = ?1 AND f.purge_at > (SELECT c.now FROM c)
)
SELECT t.hash_version IS NULL, t.hash_version, t.command_hash, (
	SELECT e.id FROM main.idempotency_sighting e
	WHERE e.scope = ?2 AND e.command_hash = ?4 AND e.seen_at > (SELECT c.now FROM c) - ?6
		AND e.id <> ?1 AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
	ORDER BY e.seen_at DESC LIMIT 1
)
FROM c LEFT JOIN there t ON true;

-- name: lookAnswer
;

-- name: lookFirst
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	0, NULL,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN main.idempotency_record r ON r.id = ?1;

-- name: lookTimed
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	(SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f WHERE f.name = ?2),
	0, NULL,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN main.idempotency_record r ON r.id = ?1;

-- name: loseAnswer
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, ends)
VALUES (?1, ?2, ?3, ?4, 3, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?13, ?14)
ON CONFLICT (id) DO UPDATE SET
	fence = CASE WHEN r.owner = excluded.owner THEN r.fence ELSE max(r.fence + 1, excluded.fence) END, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
WHERE r.owner = excluded.owner AND r.state = 3 OR r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed;

-- name: loseMarker
INSERT INTO main.processed_message AS m
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT ?1, ?2, ?3, ?4, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, ?5, max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, coalesce(?5, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)) + ?6
WHERE true
ON CONFLICT (consumer_group, source, message_id) DO UPDATE SET payload_hash = excluded.payload_hash
WHERE m.processed_at = ?7;

-- name: lostRecords
SELECT r.id, r.owner, r.state, (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed), (r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000), r.fence FROM main.idempotency_record r WHERE r.id IN (SELECT unhex(j.value) FROM json_each(?1) j);

-- name: mark
INSERT INTO main.processed_message
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT ?1, ?2, ?3, ?4, c.now, ?5, max(c.now, coalesce(?5, c.now)) + ?6
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS now) c
WHERE coalesce(?5, c.now) + ?6 > c.now AND c.now >= ?7 AND c.now <= ?8 AND NOT EXISTS (
	SELECT 1 FROM main.processed_message_floor f WHERE f.consumer_group = ?1 AND f.source = ?2 AND f.published_at >= ?5
)
ON CONFLICT (consumer_group, source, message_id) DO NOTHING RETURNING processed_at;

-- name: near
SELECT r.id FROM main.idempotency_record r
WHERE r.id >= ?1 AND r.id <= ?2 AND substr(r.id, 33 - length(?3), 32) = ?3 AND substr(r.realm, 1, length(?4)) = ?4
ORDER BY r.id LIMIT ?5;

-- name: notesOf
SELECT n.record_id, n.token, n.written_at, n.written_by, n.body, n.kind, n.fence, n.decision, n.encoding
FROM main.idempotency_note n WHERE n.record_id IN (SELECT unhex(j.value) FROM json_each(?1) j) ORDER BY n.record_id, n.written_at, n.token;

-- name: openSteps
SELECT o.id, coalesce(s.name, '')
FROM (
	SELECT r.id FROM main.idempotency_record r
	WHERE r.due_at IS NULL AND r.state IN (1, 3) AND substr(r.realm, 1, length(?2)) = ?2 LIMIT ?1
) o
LEFT JOIN main.idempotency_step s ON s.record_id = o.id AND s.kind = 2;

-- name: outrun
UPDATE main.idempotency_record AS r SET fence = r.fence + 1 WHERE r.id = ?1 AND r.fence = ?2 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000;

-- name: ownsRecord
SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: park
UPDATE main.idempotency_record AS r SET state = 3, ends = coalesce(?4, r.ends),
	deadline_at = CASE WHEN true THEN r.deadline_at END
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: payloadHash
SELECT m.payload_hash FROM main.processed_message m
WHERE m.consumer_group = ?1 AND m.source = ?2 AND m.message_id = ?3;

-- name: pendingIntents
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 FROM main.idempotency_intent i
WHERE i.ended_at IS NULL AND i.intent > ?1 ORDER BY i.intent LIMIT ?2;

-- name: planIntent
INSERT INTO main.idempotency_intent (intent, idempotency_key, planned_at)
SELECT ?2, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 WHERE ?1 = (SELECT file FROM pragma_database_list WHERE name = 'main')
ON CONFLICT (intent) DO NOTHING;

-- name: putOff
UPDATE main.idempotency_record AS r SET due_at = CASE WHEN r.state = 2 THEN r.expires_at ELSE r.purge_at END
WHERE r.id IN (SELECT unhex(j.value) FROM json_each(?1) j);

-- name: putSteps
INSERT INTO main.idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived, encoding)
SELECT ?1, n.name, n.kind, n.state, n.fence, c.now + n.place, CASE WHEN n.state = 2 THEN c.now + n.place END, n.result, n.derived,
	CASE WHEN n.state = 2 THEN ?14 ELSE 1 END
FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS now) c,
	(SELECT 0 AS place, ?2 AS fence, ?3 AS name, ?4 AS kind, ?5 AS state, ?6 AS result, ?7 AS derived
		UNION ALL SELECT 1, ?8, ?9, ?10, ?11, ?12, ?13) AS n
WHERE n.name IS NOT NULL
ON CONFLICT (record_id, name) DO UPDATE SET state = max(s.state, excluded.state),
	finished_at = CASE WHEN s.state = 2 THEN s.finished_at ELSE excluded.finished_at END,
	result = CASE WHEN s.state = 2 THEN s.result ELSE excluded.result END,
	derived = CASE WHEN s.state = 2 THEN s.derived ELSE excluded.derived END,
	encoding = CASE WHEN s.state = 2 THEN s.encoding ELSE excluded.encoding END
WHERE s.kind = excluded.kind AND s.fence = excluded.fence AND (s.state < 2 OR excluded.state = 2);

-- name: raiseAgedFloors
INSERT INTO main.idempotency_setting AS s (name, value)
SELECT ?2 || substr(a.name, ?4 + 1), ?3
FROM main.idempotency_setting a WHERE a.name LIKE ?1
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: raiseFloor
INSERT INTO main.processed_message_floor AS f (consumer_group, source, published_at) VALUES (?1, ?2, ?3)
ON CONFLICT (consumer_group, source) DO UPDATE SET published_at = excluded.published_at
WHERE f.published_at < excluded.published_at;

-- name: raiseKeyFloor
INSERT INTO main.idempotency_setting AS s (name, value) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: raiseKeyFloors
UPDATE main.idempotency_setting AS s SET value = ?2
WHERE s.name LIKE ?1 AND CAST(s.value AS bigint) < CAST(?2 AS bigint);

-- name: readGuards
;

-- name: readSettings
;

-- name: recordAnswer
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
VALUES (?1, ?2, ?3, ?4, 2, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, CASE WHEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 >= ?13 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	CASE WHEN true THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END, ?14, ?15, ?16, ?17, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?18, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?19, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?18, ?20);

-- name: recordOver
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
VALUES (?1, ?2, ?3, ?4, 2, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, CASE WHEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 >= ?13 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	CASE WHEN true THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END, ?14, ?15, ?16, ?17, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?18, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?19, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?18, ?20)
ON CONFLICT (id) DO UPDATE SET fence = excluded.fence / CASE WHEN r.fence = ?21 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed) THEN 1 ELSE 0 END, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
RETURNING created_at;

-- name: recordRunning
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	CASE WHEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?15 AND ?16 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + min(?13, ?14) END, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?14)
RETURNING created_at;

-- name: refer
INSERT INTO main.idempotency_reference (record_id, name, value, realm, referred_at)
SELECT ?1, ?2, ?3, ?4, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000
WHERE (?5 OR EXISTS (SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1))
	AND (SELECT count(*) FROM main.idempotency_reference o WHERE o.record_id = ?1) < ?6
ON CONFLICT (record_id, name, value) DO NOTHING;

-- name: referencesOf
SELECT r.record_id, r.name, r.value FROM main.idempotency_reference r
WHERE r.record_id IN (SELECT unhex(j.value) FROM json_each(?1) j) ORDER BY r.record_id, r.referred_at, r.name, r.value;

-- name: referred
SELECT p.record_id, p.referred_at, p.wanted, p.place = ?11 FROM (
	SELECT q.record_id, q.referred_at, row_number() OVER (ORDER BY q.referred_at DESC, q.record_id DESC) AS place,
		(?2 = '' OR q.name = ?2)
		AND (?3 = '' OR (SELECT 1 FROM main.idempotency_reference o WHERE o.record_id = q.record_id AND o.value || '' = ?3 AND (?4 = '' OR o.name = ?4) LIMIT 1) IS NOT NULL)
		AND NOT ((SELECT 1 FROM main.idempotency_reference o WHERE o.record_id = q.record_id AND o.value || '' = ?1 AND (?2 = '' OR o.name = ?2)
			AND (o.referred_at, o.name) > (q.referred_at, q.name) AND o.referred_at < ?6 LIMIT 1) IS NOT NULL)
		AND (NOT ?13 OR (SELECT 1 FROM main.idempotency_record c
			WHERE c.id = q.record_id AND c.state = 2 AND c.expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 LIMIT 1) IS NOT NULL) AS wanted
	FROM (
		SELECT r.record_id, r.referred_at, r.name FROM main.idempotency_reference r
		WHERE r.value = ?1 AND r.referred_at >= ?5
			AND (r.referred_at, r.record_id) < (?7, ?8) AND r.realm >= ?9 AND r.realm <= ?10
		ORDER BY r.referred_at DESC, r.record_id DESC LIMIT ?11
	) q
) p
WHERE p.wanted OR p.place = ?11 ORDER BY p.referred_at DESC, p.record_id DESC LIMIT ?12;

-- name: release
UPDATE main.idempotency_record AS r SET state = 5, purge_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?4, due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?4
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: releaseOwners
UPDATE main.idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, fence = r.fence + 1,
	owner = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN ?4 ELSE r.owner END,
	attempts = max(r.attempts - 1, 1), lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, purge_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?3,
	due_at = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?3 END
WHERE r.id IN (SELECT unhex(j.value) FROM json_each(?1) j) AND r.owner IN (SELECT unhex(j.value) FROM json_each(?2) j) AND r.state = 1
RETURNING id;

-- name: renew
UPDATE main.idempotency_record AS r SET lease_until = min(r.deadline_at, max(r.lease_until, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?4))
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: runOver
INSERT INTO main.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	CASE WHEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?15 AND ?16 THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + min(?13, ?14) END, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?14)
ON CONFLICT (id) DO UPDATE SET fence = excluded.fence / CASE WHEN r.fence = ?17 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed) THEN 1 ELSE 0 END, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
RETURNING created_at;

-- name: sealAnswer
UPDATE main.idempotency_record AS r SET state = 2, status = ?4, partial = ?5, headers = ?6, body = ?7, expires_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, r.created_at) + ?8,
	purge_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, r.created_at) + ?9, due_at = max(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, r.created_at) + ?8, answer_encoding = ?10
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3)
RETURNING CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS at;

-- name: sealRunning
UPDATE main.idempotency_record AS r SET lease_until = CASE WHEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?5 AND ?6
	THEN min(r.deadline_at, max(r.lease_until, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?4)) END
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, ?7)
RETURNING CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AS at;

-- name: setSettings
;

-- name: setting
SELECT s.value FROM main.idempotency_setting s WHERE s.name = ?1;

-- name: settle
UPDATE main.idempotency_record AS r SET state = ?3, fence = r.fence + 1, status = ?4,
	partial = false, headers = ?5, body = ?6, expires_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?7, purge_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?8,
	due_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?7, ends = CASE WHEN r.state = 1 THEN coalesce(?11, r.ends) ELSE r.ends END,
	answer_encoding = ?12
WHERE r.id = ?1 AND r.fence = ?2 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)) AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND r.deadline_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000
	AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?9 AND ?10;

-- name: stepAt
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM main.idempotency_step s WHERE s.record_id = ?1 AND s.name = ?2;

-- name: stepsOf
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM main.idempotency_step s WHERE s.record_id = ?1 ORDER BY s.started_at, s.name;

-- name: takeOver
UPDATE main.idempotency_record AS r SET scope = ?2, realm = ?11, owner = ?3, fence = r.fence + 1, state = 1,
	recovery = ?4, method = ?5, route = ?6, hash_version = ?7, command_hash = ?8,
	created_at = CASE WHEN r.state = 1 THEN r.created_at ELSE CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 END,
	attempts = CASE WHEN r.state = 1 THEN r.attempts + 1 ELSE 1 END,
	lease_until = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?9, deadline_at = CASE WHEN true THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 + ?10 END,
	expires_at = NULL, purge_at = NULL, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL,
	traceparent = ?21, timed = r.timed OR ?17 AND r.state <> 1, ends = ?22,
	due_at = NULL
WHERE r.id = ?1 AND r.fence = ?18 AND true AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 >= ?12
	AND (r.state = 5 OR CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 <= ?19)
	AND (r.state = 1 OR ?15 = ''
		OR ?16 > coalesce((SELECT CAST(f.value AS bigint) FROM main.idempotency_setting f
			WHERE f.name = ?15), -1)
		AND CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 BETWEEN ?13 AND ?14)
	AND CASE WHEN ?20 THEN r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND NOT r.timed
		ELSE r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 AND ?4 = 2 AND r.hash_version = ?7 AND r.command_hash = ?8 END
;

-- name: tryLock
SELECT true, NULL, true;

-- name: turnProposal
UPDATE main.idempotency_note AS n SET kind = ?5
WHERE n.record_id = ?1 AND n.token = ?2 AND n.fence = ?3 AND n.kind = ?4 AND n.written_by <> ?6;

-- name: waitLocks
;

-- name: whichDatabase
SELECT file FROM pragma_database_list WHERE name = 'main';

-- name: withoutJIT
;

-- name: yield
UPDATE main.idempotency_record AS r SET lease_until = min(r.deadline_at, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000 - ?5),
	ends = coalesce(?4, r.ends)
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;
