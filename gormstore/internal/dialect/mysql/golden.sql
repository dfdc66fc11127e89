-- Written by: go test ./gormstore/internal/dialect -update

-- name: adopt
UPDATE `public`.idempotency_record AS r SET scope = $3, realm = $4, method = $5, route = $6, timed = r.timed OR $7,
	deadline_at = CASE WHEN true THEN r.deadline_at END
WHERE r.id = $1 AND r.scope = $2 AND r.hash_version = 0;

-- name: annotate
INSERT INTO `public`.idempotency_note (record_id, token, written_at, written_by, body, kind, fence, decision, encoding)
SELECT r.id, $2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), $3, $4, $5, $6, $7, $8
FROM `public`.idempotency_record r
WHERE r.id = $1 AND r.state IN (1, 3) AND ($5 = 0 OR r.fence = $6) AND ($5 <> 1 OR (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))))
	AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $9 AND $10);

-- name: appendSettlement
INSERT INTO `public`.idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES ($1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), $2, $3, $4, $5, $6, $7, $8, $9);

-- name: asBegun
;

-- name: askForCheck
;

-- name: atStandby
;

-- name: beginIntent
INSERT INTO `public`.idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by)
SELECT $1, $2, $3, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), IF($3 IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), NULL), $5
FROM DUAL WHERE TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $6 AND $7
ON DUPLICATE KEY UPDATE
	begun_by = CASE
		WHEN VALUES(begun_by) IS NULL
			OR VALUES(hash_version) IS NULL AND VALUES(idempotency_key) <> idempotency_intent.idempotency_key THEN idempotency_intent.begun_by
		WHEN idempotency_intent.begun_by IS NULL OR idempotency_intent.begun_by = VALUES(begun_by) THEN VALUES(begun_by)
		ELSE '' END,
	hash_version = COALESCE(idempotency_intent.hash_version, VALUES(hash_version)),
	command_hash = COALESCE(idempotency_intent.command_hash, VALUES(command_hash)),
	begun_at = COALESCE(idempotency_intent.begun_at, VALUES(begun_at));
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL FROM `public`.idempotency_intent WHERE intent = $1 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $6 AND $7;

-- name: begun
;

-- name: blankNotesOf
UPDATE `public`.idempotency_note AS n SET body = '', decision = NULL
WHERE n.record_id IN (each($1)) AND (n.body <> '' OR n.decision IS NOT NULL);

-- name: bury
UPDATE `public`.idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false, due_at = r.purge_at
WHERE r.id IN (each($1));

-- name: clock
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: complete
UPDATE `public`.idempotency_record AS r SET state = 2, status = $4, partial = $5, headers = $6, body = $7, expires_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.created_at) + $8,
	purge_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.created_at) + $9, due_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.created_at) + $8, answer_encoding = $10
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3);

-- name: confirm
;

-- name: count
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), o.half_done, o.method, o.route, count(*), SUM(o.created_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 3600 * 1000000),
	SUM(o.created_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - 24 * 3600 * 1000000), min(o.created_at)
FROM (
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at
	FROM `public`.idempotency_record r WHERE r.due_at IS NULL AND r.realm >= $2 AND r.realm <= $3
	AND ($4 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) OR ($5 OR $6 AND r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
	AND ($7 = '' OR CONCAT(r.method, ' ', r.route) = $7) AND (length($8) = 0 OR r.scope = $8)
	AND r.created_at >= $9 AND r.created_at < $10 ORDER BY r.created_at, r.id LIMIT $1
) o
GROUP BY o.half_done, o.method, o.route;

-- name: countOpen
SELECT count(*) FROM (
	SELECT 1 FROM `public`.idempotency_record r WHERE r.scope = $1 AND r.due_at IS NULL AND r.state IN (1, 3)
		AND NOT (r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
	LIMIT $2
) o;

-- name: doneIntent
UPDATE `public`.idempotency_intent AS i SET ended_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), i.planned_at, coalesce(i.begun_at, 0))
WHERE $1 = (SELECT CONCAT(@@hostname, ' ', @@port, ' ', DATABASE())) AND i.intent = $2 AND i.ended_at IS NULL
	AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $3 AND $4;

-- name: drop
DELETE r FROM `public`.idempotency_record AS r WHERE r.id IN (each($1));

-- name: dropReferencesOf
DELETE f FROM `public`.idempotency_reference AS f WHERE f.record_id IN (each($1));

-- name: dropSteps
DELETE s FROM `public`.idempotency_step AS s WHERE s.record_id = $1;

-- name: dropStepsOf
DELETE s FROM `public`.idempotency_step AS s WHERE s.record_id IN (each($1));

-- name: due
SELECT CASE
	WHEN r.state IN (2, 4, 5) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) THEN 'dropped'
	WHEN r.state = 2 AND r.expires_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) THEN 'tombstone'
	ELSE '' END, r.id, r.recovery = 2, CASE WHEN r.timed AND r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) THEN r.realm END,
	CONCAT(r.method, ' ', r.route), r.due_at
FROM `public`.idempotency_record r
WHERE r.due_at >= $4 AND r.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $2 AND $3
ORDER BY r.due_at LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: durably
SELECT true;

-- name: endIntent
UPDATE `public`.idempotency_intent AS i SET ended_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), i.planned_at, coalesce(i.begun_at, 0))
WHERE i.intent = $1 AND i.ended_at IS NULL AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $2 AND $3;

-- name: erasable
SELECT p.id, p.state, p.own, p.place = $3
FROM (
	SELECT q.id, q.state, q.own, row_number() OVER (ORDER BY q.id) AS place
	FROM (
		SELECT r.id, r.state, r.scope = $1 AND r.state <> 4 AS own
		FROM `public`.idempotency_record r WHERE r.id > $2 ORDER BY r.id LIMIT $3
	) q
) p
WHERE p.own OR p.place = $3 ORDER BY p.id;

-- name: erase
UPDATE `public`.idempotency_record AS r SET probe = r.probe + 1, state = IF(r.state = 2, 4, r.state), headers = NULL,
	body = NULL, partial = false, expires_at = IF(r.expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.expires_at)
WHERE r.id = (SELECT x.id FROM `public`.idempotency_record x WHERE x.id = $1 FOR UPDATE SKIP LOCKED) AND r.scope = $2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM `public`.idempotency_step s WHERE s.record_id = $1)
		OR EXISTS (SELECT 1 FROM `public`.idempotency_reference f WHERE f.record_id = $1)
		OR EXISTS (SELECT 1 FROM `public`.idempotency_note n WHERE n.record_id = $1
			AND (n.body <> '' OR n.decision IS NOT NULL))));

-- name: fenceOff
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
VALUES ($1, $4, $2, $7, 5, 3, '', '', 1, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $3, $5, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $3)
ON DUPLICATE KEY UPDATE probe = probe + 1, owner = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), VALUES(owner), owner), headers = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), NULL, headers),
	body = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), NULL, body), due_at = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), VALUES(due_at), due_at), state = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), 5, state),
	purge_at = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), VALUES(purge_at), purge_at), fence = IF(fence = $6 AND (state = 5 OR state IN (2, 4) AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT timed), fence + 1, fence);

-- name: fenceOffLate
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT j.id, $3, j.owner, 1, 5, 3, '', '', 1, $3, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $2, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $2
FROM (SELECT UNHEX(k.id) AS id, UNHEX(k.owner) AS owner FROM JSON_TABLE($1, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', owner varchar(32) PATH '$[1]')) k) j
ON DUPLICATE KEY UPDATE owner = IF(idempotency_record.state = 5 OR idempotency_record.state IN (2, 4)
		AND idempotency_record.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT idempotency_record.timed, VALUES(owner), idempotency_record.owner),
	fence = IF(idempotency_record.state = 5 OR idempotency_record.state IN (2, 4)
		AND idempotency_record.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT idempotency_record.timed, idempotency_record.fence + 1, idempotency_record.fence),
	purge_at = IF(idempotency_record.state = 5, GREATEST(idempotency_record.purge_at, VALUES(purge_at)), idempotency_record.purge_at),
	due_at = IF(idempotency_record.state = 5, GREATEST(idempotency_record.due_at, VALUES(due_at)), idempotency_record.due_at);
UPDATE `public`.idempotency_record AS r JOIN (SELECT UNHEX(k.id) AS id, UNHEX(k.owner) AS owner FROM JSON_TABLE($1, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', owner varchar(32) PATH '$[1]')) k) j ON r.id = j.id AND r.owner = j.owner SET r.probe = r.probe + 1;

-- name: find
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM `public`.idempotency_record r WHERE r.id = $1;

-- name: findFor
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.headers END,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.body END
FROM `public`.idempotency_record r WHERE r.id = $1;

-- name: findIntent
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM `public`.idempotency_intent i WHERE i.intent = $1;

-- name: flow
SELECT f.ago, SUM(f.came), SUM(f.settled) FROM (
	SELECT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - r.created_at) DIV 3600000000 AS ago, 1 AS came, 0 AS settled
	FROM `public`.idempotency_record r
	WHERE r.due_at IS NULL AND r.created_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - $3 * 3600000000 AND r.realm >= $1 AND r.realm <= $2
		AND ((r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) OR r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
	UNION ALL
	SELECT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - IF(k.came = 1, s.created_at, s.settled_at)) DIV 3600000000, k.came, 1 - k.came
	FROM (
		SELECT l.settled_at, (SELECT r.created_at FROM `public`.idempotency_record r
			WHERE r.id = l.record_id AND r.realm >= $1 AND r.realm <= $2 LIMIT 1) AS created_at
		FROM (
			SELECT h.record_id, h.settled_at, h.after_state FROM `public`.idempotency_settlement h
			WHERE h.settled_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - $3 * 3600000000 ORDER BY h.settled_at DESC LIMIT 10000
		) l
		WHERE l.after_state IN (2, 5)
	) s CROSS JOIN (SELECT 0 AS came UNION ALL SELECT 1) k
	WHERE s.created_at IS NOT NULL
) f
GROUP BY f.ago;

-- name: forgetCommands
DELETE FROM `public`.idempotency_sighting
WHERE purge_at >= $4 AND purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $2 AND $3 ORDER BY purge_at LIMIT $1 RETURNING purge_at;

-- name: forgetIntents
DELETE FROM `public`.idempotency_intent
WHERE ended_at >= $4 AND ended_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - $5 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $2 AND $3 ORDER BY ended_at LIMIT $1 RETURNING ended_at;

-- name: forgetMessages
DELETE FROM `public`.processed_message
WHERE expires_at >= $4 AND expires_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $2 AND $3 ORDER BY expires_at LIMIT $1
RETURNING expires_at, consumer_group, source, published_at;

-- name: forgetSteps
DELETE s FROM `public`.idempotency_step AS s WHERE s.record_id = $1 AND s.fence < $2 AND EXISTS (
	SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1 AND (r.owner = $3 OR r.fence = $2 - 1 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed)));

-- name: held
SELECT $1 IS NULL OR NOT EXISTS (
	SELECT 1 FROM `public`.idempotency_lock l WHERE l.slot = ($2 & 65535) LOCK IN SHARE MODE SKIP LOCKED);

-- name: history
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, s.record_id, '', ''
FROM `public`.idempotency_settlement s WHERE s.record_id = $1 ORDER BY s.settled_at, s.after_fence;

-- name: importRecord
UPDATE `public`.idempotency_record AS r SET probe = 0 WHERE r.id = $1 AND r.probe = -1;
UPDATE `public`.idempotency_record AS r SET fence = r.fence + 1, scope = $2, realm = $20, owner = $3, recovery = $6,
	method = $7, route = $8, hash_version = $9, command_hash = $10, created_at = $11, lease_until = $12, deadline_at = $13,
	expires_at = $14, purge_at = $15, status = $16, partial = $17, answer_encoding = $23, headers = $18, body = $19,
	traceparent = '', timed = r.timed OR $21, due_at = $22, attempts = 1, ends = NULL, state = $5, probe = -1
WHERE r.id = $1 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed);
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body, realm, timed, due_at,
	answer_encoding, probe)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, -1
FROM DUAL WHERE ROW_COUNT() = 0 AND NOT EXISTS (SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1);
SELECT r.fence FROM `public`.idempotency_record r WHERE r.id = $1 AND r.probe = -1;

-- name: insertCommand
INSERT INTO `public`.idempotency_sighting (id, scope, hash_version, command_hash, seen_at, purge_at)
VALUES ($1, $2, $3, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $5)
ON DUPLICATE KEY UPDATE hash_version = IF(purge_at <= VALUES(seen_at), VALUES(hash_version), hash_version),
	command_hash = IF(purge_at <= VALUES(seen_at), VALUES(command_hash), command_hash),
	seen_at = IF(purge_at <= VALUES(seen_at), VALUES(seen_at), seen_at),
	purge_at = IF(purge_at <= VALUES(seen_at), VALUES(purge_at), purge_at);

-- name: insertRecord
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash,
	created_at, lease_until, deadline_at, realm, timed, traceparent)
SELECT $1, $2, $3, 1, 1, $4, $5, $6, $7, $8, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $9, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $10, $11, $17, $18
FROM DUAL WHERE TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $12 AND ($15 = '' OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $13 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) <= $14)
	AND NOT EXISTS (SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1) AND (SELECT l.slot FROM `public`.idempotency_lock l WHERE l.slot = ($19 & 65535) FOR UPDATE SKIP LOCKED) IS NOT NULL;
DELETE FROM `public`.idempotency_record WHERE id = (SELECT x.id FROM `public`.idempotency_record x WHERE x.id = $1 FOR UPDATE SKIP LOCKED) AND owner = $3 AND fence = 1 AND $15 <> ''
	AND $16 <= (SELECT CAST(f.value AS SIGNED) FROM `public`.idempotency_setting f WHERE f.name = $15);
UPDATE `public`.idempotency_record AS r SET probe = r.probe + 1
WHERE r.id = (SELECT x.id FROM `public`.idempotency_record x WHERE x.id = $1 FOR UPDATE SKIP LOCKED) AND r.owner = $3 AND r.fence = 1 AND r.state = 1;

-- name: insertTimed
;

-- name: keepFirst
INSERT INTO `public`.idempotency_setting (name, value) VALUES ($1, $2)
ON DUPLICATE KEY UPDATE name = idempotency_setting.name;

-- name: keepFirstScoping
INSERT INTO `public`.idempotency_setting (name, value)
SELECT $1, $2 FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM `public`.idempotency_setting o WHERE o.name LIKE $3)
ON DUPLICATE KEY UPDATE name = idempotency_setting.name;

-- name: keepSetting
INSERT INTO `public`.idempotency_setting (name, value) VALUES ($1, $2) ON DUPLICATE KEY UPDATE value = VALUES(value);

-- name: keyFloor
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT CAST(f.value AS SIGNED) FROM `public`.idempotency_setting f WHERE f.name = $1);

-- name: lastAnswered
SELECT r.id FROM (
	SELECT l.id, l.created_at, l.state, l.status, l.partial, l.realm, l.method, l.route FROM `public`.idempotency_record l
	WHERE l.due_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND l.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 72 * 3600 * 1000000 ORDER BY l.due_at DESC LIMIT 1000
) r
WHERE r.state = 2 AND r.status < 300 AND NOT r.partial AND CONCAT(r.method, ' ', r.route) = $2 AND substr(r.realm, 1, length($1)) = $1
ORDER BY r.created_at DESC LIMIT 1;

-- name: lastSettled
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM `public`.idempotency_settlement s JOIN `public`.idempotency_record r ON r.id = s.record_id
WHERE substr(r.realm, 1, length($1)) = $1 AND ($2 = '' OR s.settled_by = $2)
ORDER BY s.settled_at DESC LIMIT $3;

-- name: list
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM `public`.idempotency_record r
WHERE (r.created_at, r.id) > ($11, $12) AND r.due_at IS NULL AND r.realm >= $2 AND r.realm <= $3
	AND ($4 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) OR ($5 OR $6 AND r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
	AND ($7 = '' OR CONCAT(r.method, ' ', r.route) = $7) AND (length($8) = 0 OR r.scope = $8)
	AND r.created_at >= $9 AND r.created_at < $10
	AND ($13 = '' OR (SELECT 1 FROM `public`.idempotency_reference o WHERE o.record_id = r.id AND CONCAT(o.value, '') = $13 AND ($14 = '' OR o.name = $14) LIMIT 1) IS NOT NULL)
	AND ($15 = '' OR (SELECT 1 FROM `public`.idempotency_reference o WHERE o.record_id = r.id AND CONCAT(o.value, '') = $15 AND ($16 = '' OR o.name = $16) LIMIT 1) IS NOT NULL)
ORDER BY r.created_at, r.id LIMIT $1;

-- name: listNewest
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM `public`.idempotency_record r
WHERE (r.created_at, r.id) < ($11, $12) AND r.due_at IS NULL AND r.realm >= $2 AND r.realm <= $3
	AND ($4 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) OR ($5 OR $6 AND r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
	AND ($7 = '' OR CONCAT(r.method, ' ', r.route) = $7) AND (length($8) = 0 OR r.scope = $8)
	AND r.created_at >= $9 AND r.created_at < $10
	AND ($13 = '' OR (SELECT 1 FROM `public`.idempotency_reference o WHERE o.record_id = r.id AND CONCAT(o.value, '') = $13 AND ($14 = '' OR o.name = $14) LIMIT 1) IS NOT NULL)
	AND ($15 = '' OR (SELECT 1 FROM `public`.idempotency_reference o WHERE o.record_id = r.id AND CONCAT(o.value, '') = $15 AND ($16 = '' OR o.name = $16) LIMIT 1) IS NOT NULL)
ORDER BY r.created_at DESC, r.id DESC LIMIT $1;

-- name: lockAlone
SELECT IF((SELECT l.slot FROM `public`.idempotency_lock l WHERE l.slot = ($1 & 65535) FOR UPDATE SKIP LOCKED) IS NOT NULL, 1, (SELECT v.n FROM `public`.idempotency_never v));

-- name: lockClaim
;

-- name: lockFirst
SELECT (SELECT l.slot FROM `public`.idempotency_lock l WHERE l.slot = ($4 & 65535) FOR UPDATE SKIP LOCKED) IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
	0, 0, '', true;

-- name: lockGuarded
;

-- name: lockRecord
UPDATE `public`.idempotency_record AS r SET probe = r.probe + 1 WHERE r.id = $1;

-- name: lockSetting
SELECT s.value FROM `public`.idempotency_setting s WHERE s.name = $1 FOR UPDATE;

-- name: lockUnknown
;

-- name: logCommand
INSERT INTO `public`.idempotency_sighting (id, scope, hash_version, command_hash, seen_at, purge_at)
VALUES ($1, $2, $3, $4, 0, 0) ON DUPLICATE KEY UPDATE id = VALUES(id);
SELECT t.hash_version IS NULL, t.hash_version, t.command_hash, (
	SELECT e.id FROM `public`.idempotency_sighting e
	WHERE e.scope = $2 AND e.command_hash = $4 AND e.seen_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - $6
		AND e.id <> $1 AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
	ORDER BY e.seen_at DESC LIMIT 1
)
FROM (SELECT 1) AS one LEFT JOIN `public`.idempotency_sighting t ON t.id = $1 AND t.purge_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: lookAnswer
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL, r.owner, r.fence, r.recovery, r.hash_version, r.command_hash, r.expires_at, r.purge_at, r.status,
	r.partial, r.answer_encoding, r.headers, r.body, r.traceparent
FROM `public`.idempotency_record r
WHERE r.id = $1 AND r.state = 2 AND r.expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: lookFirst
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN `public`.idempotency_record r ON r.id = $1;

-- name: lookTimed
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT CAST(f.value AS SIGNED) FROM `public`.idempotency_setting f WHERE f.name = $2), 0, NULL, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding,
	r.headers, r.body
FROM (SELECT 1) AS one LEFT JOIN `public`.idempotency_record r ON r.id = $1;

-- name: loseAnswer
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, ends)
SELECT $1, $2, $3, $4, 3, $5, $6, $7, $8, $9, $10, $11, $12, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $13, $14
FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1);
UPDATE `public`.idempotency_record AS r SET fence = IF(r.owner = $3, r.fence, GREATEST(r.fence + 1, $4)), scope = $2, owner = $3,
	state = 3, recovery = $5, method = $6, route = $7, hash_version = $8, command_hash = $9, realm = $10,
	timed = r.timed OR $11, traceparent = $12, created_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), lease_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), deadline_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $13, attempts = 1,
	status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL, expires_at = NULL, purge_at = NULL,
	due_at = NULL, ends = $14, probe = r.probe + 1
WHERE r.id = $1 AND (r.owner = $3 AND r.state = 3 OR (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed));

-- name: loseMarker
INSERT INTO `public`.processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
VALUES ($1, $2, $3, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), $5, GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), COALESCE($5, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) + $6)
ON DUPLICATE KEY UPDATE payload_hash = IF(processed_at = $7, VALUES(payload_hash), payload_hash);

-- name: lostRecords
SELECT r.id, r.owner, r.state, (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed), (r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), r.fence FROM `public`.idempotency_record r WHERE r.id IN (each($1));

-- name: mark
INSERT INTO `public`.processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT $1, $2, $3, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), $5, GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), COALESCE($5, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) + $6
FROM DUAL WHERE COALESCE($5, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) + $6 > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $7 AND $8 AND (SELECT l.slot FROM `public`.idempotency_lock l WHERE l.slot = ($9 & 65535) FOR UPDATE SKIP LOCKED) IS NOT NULL;
SELECT IF(EXISTS (
	SELECT 1 FROM `public`.processed_message_floor f
	WHERE f.consumer_group = $1 AND f.source = $2 AND f.published_at >= $5 LOCK IN SHARE MODE
), NULL, m.processed_at)
FROM `public`.processed_message m
WHERE ROW_COUNT() = 1 AND m.consumer_group = $1 AND m.source = $2 AND m.message_id = $3;

-- name: near
SELECT r.id FROM `public`.idempotency_record r
WHERE r.id >= $1 AND r.id <= $2 AND substr(r.id, 33 - length($3), 32) = $3 AND substr(r.realm, 1, length($4)) = $4
ORDER BY r.id LIMIT $5;

-- name: notesOf
SELECT n.record_id, n.token, n.written_at, n.written_by, n.body, n.kind, n.fence, n.decision, n.encoding
FROM `public`.idempotency_note n WHERE n.record_id IN (each($1)) ORDER BY n.record_id, n.written_at, n.token;

-- name: openSteps
SELECT o.id, coalesce(s.name, '')
FROM (
	SELECT r.id FROM `public`.idempotency_record r
	WHERE r.due_at IS NULL AND r.state IN (1, 3) AND substr(r.realm, 1, length($2)) = $2 LIMIT $1
) o
LEFT JOIN `public`.idempotency_step s ON s.record_id = o.id AND s.kind = 2;

-- name: outrun
UPDATE `public`.idempotency_record AS r SET fence = r.fence + 1 WHERE r.id = $1 AND r.fence = $2 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: ownsRecord
SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3) FOR UPDATE;

-- name: park
SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE `public`.idempotency_record AS r SET state = 3, ends = COALESCE($4, r.ends), probe = r.probe + 1
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3);

-- name: payloadHash
SELECT m.payload_hash FROM `public`.processed_message m
WHERE m.consumer_group = $1 AND m.source = $2 AND m.message_id = $3 LOCK IN SHARE MODE SKIP LOCKED;

-- name: pendingIntents
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM `public`.idempotency_intent i
WHERE i.ended_at IS NULL AND i.intent > $1 ORDER BY i.intent LIMIT $2;

-- name: planIntent
INSERT INTO `public`.idempotency_intent (intent, idempotency_key, planned_at)
SELECT $2, $3, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM DUAL WHERE $1 = (SELECT CONCAT(@@hostname, ' ', @@port, ' ', DATABASE()))
ON DUPLICATE KEY UPDATE intent = idempotency_intent.intent;

-- name: putOff
UPDATE `public`.idempotency_record AS r SET due_at = CASE WHEN r.state = 2 THEN r.expires_at ELSE r.purge_at END
WHERE r.id IN (each($1));

-- name: putSteps
INSERT INTO `public`.idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, result, derived,
	encoding)
SELECT $1, $3, $4, $5, $2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), IF($5 = 2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), NULL), $6, $7, IF($5 = 2, $14, 1) FROM DUAL WHERE $3 IS NOT NULL
ON DUPLICATE KEY UPDATE record_id = IF(idempotency_step.kind = VALUES(kind) AND idempotency_step.fence = VALUES(fence)
		AND (idempotency_step.state < 2 OR VALUES(state) = 2), idempotency_step.record_id, (SELECT v.n FROM `public`.idempotency_never v)),
	finished_at = IF(idempotency_step.state = 2, idempotency_step.finished_at, VALUES(finished_at)),
	result = IF(idempotency_step.state = 2, idempotency_step.result, VALUES(result)),
	encoding = IF(idempotency_step.state = 2, idempotency_step.encoding, VALUES(encoding)),
	derived = IF(idempotency_step.state = 2, idempotency_step.derived, VALUES(derived)),
	state = GREATEST(idempotency_step.state, VALUES(state));
INSERT INTO `public`.idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, result, derived,
	encoding)
SELECT $1, $9, $10, $11, $8, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 1, IF($11 = 2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 1, NULL), $12, $13, IF($11 = 2, $14, 1) FROM DUAL WHERE $9 IS NOT NULL
ON DUPLICATE KEY UPDATE record_id = IF(idempotency_step.kind = VALUES(kind) AND idempotency_step.fence = VALUES(fence)
		AND (idempotency_step.state < 2 OR VALUES(state) = 2), idempotency_step.record_id, (SELECT v.n FROM `public`.idempotency_never v)),
	finished_at = IF(idempotency_step.state = 2, idempotency_step.finished_at, VALUES(finished_at)),
	result = IF(idempotency_step.state = 2, idempotency_step.result, VALUES(result)),
	encoding = IF(idempotency_step.state = 2, idempotency_step.encoding, VALUES(encoding)),
	derived = IF(idempotency_step.state = 2, idempotency_step.derived, VALUES(derived)),
	state = GREATEST(idempotency_step.state, VALUES(state));

-- name: raiseAgedFloors
INSERT INTO `public`.idempotency_setting (name, value)
SELECT CONCAT($2, SUBSTR(a.name, $4 + 1)), $3 FROM `public`.idempotency_setting a WHERE a.name LIKE $1
ON DUPLICATE KEY UPDATE value = IF(CAST(idempotency_setting.value AS SIGNED) < CAST(VALUES(value) AS SIGNED), VALUES(value), idempotency_setting.value);

-- name: raiseFloor
INSERT INTO `public`.processed_message_floor (consumer_group, source, published_at) VALUES ($1, $2, $3)
ON DUPLICATE KEY UPDATE published_at = GREATEST(published_at, VALUES(published_at));

-- name: raiseKeyFloor
INSERT INTO `public`.idempotency_setting (name, value) VALUES ($1, $2) ON DUPLICATE KEY UPDATE value = IF(CAST(idempotency_setting.value AS SIGNED) < CAST(VALUES(value) AS SIGNED), VALUES(value), idempotency_setting.value);

-- name: raiseKeyFloors
UPDATE `public`.idempotency_setting AS s SET value = $2
WHERE s.name LIKE $1 AND CAST(s.value AS SIGNED) < CAST($2 AS SIGNED);

-- name: readGuards
;

-- name: readSettings
;

-- name: recordAnswer
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
VALUES ($1, $2, $3, $4, 2, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $13 THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) END, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
	CASE WHEN true THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) END, $14, $15, $16, $17, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $18, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $19, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $18, $20);

-- name: recordOver
UPDATE `public`.idempotency_record AS r SET scope = $2, owner = $3, fence = r.fence + 1, state = 2, recovery = $5, method = $6,
	route = $7, hash_version = $8, command_hash = $9, realm = $10, timed = r.timed OR $11, traceparent = $12,
	created_at = CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $13 THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) END, lease_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), deadline_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), attempts = 1, status = $14,
	partial = $15, answer_encoding = $20, headers = $16, body = $17, expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $18, purge_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $19,
	due_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $18, ends = NULL
WHERE r.id = $1 AND r.fence = $21 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed);
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
SELECT $1, $2, $3, $4, 2, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $13 THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) END, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), $14, $15, $16,
	$17, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $18, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $19, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $18, $20
FROM DUAL WHERE ROW_COUNT() = 0;
SELECT IF(EXISTS (SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1 AND r.owner = $3 AND r.fence = $4), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT v.n FROM `public`.idempotency_never v));

-- name: recordRunning
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
	CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $15 AND $16 THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + LEAST($13, $14) END, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $14);
SELECT IF(ROW_COUNT() = 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT v.n FROM `public`.idempotency_never v));

-- name: refer
INSERT INTO `public`.idempotency_reference (record_id, name, value, realm, referred_at)
SELECT $1, $2, $3, $4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM DUAL
WHERE ($5 OR EXISTS (SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1))
	AND (SELECT count(*) FROM `public`.idempotency_reference o WHERE o.record_id = $1) < $6
ON DUPLICATE KEY UPDATE name = idempotency_reference.name;

-- name: referencesOf
SELECT r.record_id, r.name, r.value FROM `public`.idempotency_reference r
WHERE r.record_id IN (each($1)) ORDER BY r.record_id, r.referred_at, r.name, r.value;

-- name: referred
SELECT p.record_id, p.referred_at, p.wanted, p.place = $11 FROM (
	SELECT q.record_id, q.referred_at, row_number() OVER (ORDER BY q.referred_at DESC, q.record_id DESC) AS place,
		($2 = '' OR q.name = $2)
		AND ($3 = '' OR (SELECT 1 FROM `public`.idempotency_reference o WHERE o.record_id = q.record_id AND CONCAT(o.value, '') = $3 AND ($4 = '' OR o.name = $4) LIMIT 1) IS NOT NULL)
		AND NOT ((SELECT 1 FROM `public`.idempotency_reference o WHERE o.record_id = q.record_id AND CONCAT(o.value, '') = $1 AND ($2 = '' OR o.name = $2)
			AND (o.referred_at, o.name) > (q.referred_at, q.name) AND o.referred_at < $6 LIMIT 1) IS NOT NULL)
		AND (NOT $13 OR (SELECT 1 FROM `public`.idempotency_record c
			WHERE c.id = q.record_id AND c.state = 2 AND c.expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) LIMIT 1) IS NOT NULL) AS wanted
	FROM (
		SELECT r.record_id, r.referred_at, r.name FROM `public`.idempotency_reference r
		WHERE r.value = $1 AND r.referred_at >= $5
			AND (r.referred_at, r.record_id) < ($7, $8) AND r.realm >= $9 AND r.realm <= $10
		ORDER BY r.referred_at DESC, r.record_id DESC LIMIT $11
	) q
) p
WHERE p.wanted OR p.place = $11 ORDER BY p.referred_at DESC, p.record_id DESC LIMIT $12;

-- name: release
UPDATE `public`.idempotency_record AS r SET state = 5, purge_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $4, due_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $4
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;

-- name: releaseOwners
UPDATE `public`.idempotency_record AS r SET
	due_at = IF(r.recovery = 2 AND r.fence > 1, NULL, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $3), owner = IF(r.recovery = 2 AND r.fence > 1, $4, r.owner),
	attempts = GREATEST(r.attempts - 1, 1), lease_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), purge_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $3,
	state = IF(r.recovery = 2 AND r.fence > 1, 1, 5), fence = r.fence + 1
WHERE r.id IN (each($1)) AND r.owner IN (each($2)) AND r.state = 1;
SELECT r.id FROM `public`.idempotency_record r WHERE r.id IN (each($1)) AND r.owner IN (each($2)) AND r.state = 5;

-- name: renew
SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE `public`.idempotency_record AS r SET lease_until = LEAST(r.deadline_at, GREATEST(r.lease_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $4)),
	probe = r.probe + 1
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;

-- name: runOver
UPDATE `public`.idempotency_record AS r SET scope = $2, owner = $3, fence = r.fence + 1, state = 1, recovery = $5, method = $6,
	route = $7, hash_version = $8, command_hash = $9, realm = $10, timed = r.timed OR $11, traceparent = $12,
	created_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), lease_until = CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $15 AND $16 THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + LEAST($13, $14) END,
	deadline_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $14, attempts = 1, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL,
	expires_at = NULL, purge_at = NULL, due_at = NULL, ends = NULL
WHERE r.id = $1 AND r.fence = $17 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed);
INSERT INTO `public`.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
SELECT $1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
	CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $15 AND $16 THEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + LEAST($13, $14) END, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $14
FROM DUAL WHERE ROW_COUNT() = 0;
SELECT IF(EXISTS (SELECT 1 FROM `public`.idempotency_record r WHERE r.id = $1 AND r.owner = $3 AND r.fence = $4), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT v.n FROM `public`.idempotency_never v));

-- name: sealAnswer
UPDATE `public`.idempotency_record AS r SET state = 2, status = $4, partial = $5, headers = $6, body = $7, expires_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.created_at) + $8,
	purge_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.created_at) + $9, due_at = GREATEST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), r.created_at) + $8, answer_encoding = $10
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3);
SELECT IF(ROW_COUNT() = 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT v.n FROM `public`.idempotency_never v));

-- name: sealRunning
UPDATE `public`.idempotency_record AS r SET lease_until = CASE WHEN TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $5 AND $6
	THEN LEAST(r.deadline_at, GREATEST(r.lease_until, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $4)) END, probe = r.probe + 1
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, $7);
SELECT IF(ROW_COUNT() = 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT v.n FROM `public`.idempotency_never v));

-- name: setSettings
;

-- name: setting
SELECT s.value FROM `public`.idempotency_setting s WHERE s.name = $1;

-- name: settle
UPDATE `public`.idempotency_record AS r SET ends = IF(r.state = 1, COALESCE($11, r.ends), r.ends), status = $4, partial = false, headers = $5, body = $6, expires_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $7,
	purge_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $8, due_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $7, answer_encoding = $12, fence = r.fence + 1, state = $3
WHERE r.id = (SELECT x.id FROM `public`.idempotency_record x WHERE x.id = $1 FOR UPDATE SKIP LOCKED) AND r.fence = $2 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND r.deadline_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
	AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) BETWEEN $9 AND $10;

-- name: stepAt
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM `public`.idempotency_step s WHERE s.record_id = $1 AND s.name = $2;

-- name: stepsOf
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM `public`.idempotency_step s WHERE s.record_id = $1 ORDER BY s.started_at, s.name;

-- name: takeOver
UPDATE `public`.idempotency_record AS r SET created_at = IF(r.state = 1, r.created_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))),
	attempts = IF(r.state = 1, r.attempts + 1, 1), timed = r.timed OR $17 AND r.state <> 1,
	scope = $2, realm = $11, owner = $3, fence = r.fence + 1, state = 1, recovery = $4, method = $5, route = $6,
	hash_version = $7, command_hash = $8, lease_until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $9, deadline_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + $10, expires_at = NULL,
	purge_at = NULL, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL, traceparent = $21,
	ends = $22, due_at = NULL
WHERE r.id = (SELECT x.id FROM `public`.idempotency_record x WHERE x.id = $1 FOR UPDATE SKIP LOCKED) AND r.fence = $18 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $12 AND (r.state = 5 OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) <= $19)
	AND (r.state = 1 OR $15 = ''
		OR $16 > COALESCE((SELECT CAST(f.value AS SIGNED) FROM `public`.idempotency_setting f WHERE f.name = $15), -1)
		AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) >= $13 AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) <= $14)
	AND IF($20, r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND NOT r.timed, r.state = 1 AND r.recovery = 2 AND r.lease_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND $4 = 2 AND r.hash_version = $7 AND r.command_hash = $8)
	AND (SELECT l.slot FROM `public`.idempotency_lock l WHERE l.slot = ($23 & 65535) FOR UPDATE SKIP LOCKED) IS NOT NULL;

-- name: tryLock
SELECT (SELECT l.slot FROM `public`.idempotency_lock l WHERE l.slot = ($1 & 65535) FOR UPDATE SKIP LOCKED) IS NOT NULL, NULL, true;

-- name: turnProposal
UPDATE `public`.idempotency_note AS n SET kind = $5
WHERE n.record_id = $1 AND n.token = $2 AND n.fence = $3 AND n.kind = $4 AND n.written_by <> $6;

-- name: waitLocks
;

-- name: whichDatabase
SELECT CONCAT(@@hostname, ' ', @@port, ' ', DATABASE());

-- name: withoutJIT
;

-- name: yield
SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE `public`.idempotency_record AS r SET lease_until = LEAST(r.deadline_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - $5), ends = COALESCE($4, r.ends),
	probe = r.probe + 1
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;
