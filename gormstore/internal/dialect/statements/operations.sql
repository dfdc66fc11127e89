-- Reading, settling and sweeping records, and the settings of all instances.

-- name: clock
SELECT :now;

-- name: find
-- $1 id.
SELECT :now, :server, :columns, r.headers, r.body FROM :"schema".idempotency_record r WHERE r.id = $1;

-- name: findFor
-- $1 id. Headers and body only where the scope is $2, or the realm from $3 to $4: others learn nothing by the time that they
-- take.
SELECT :now, :server, :columns,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.headers END,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.body END
FROM :"schema".idempotency_record r WHERE r.id = $1;

-- macro: selected
-- What list and count select: open records whose realm is from $2 to $3: where $4 is set, those whose state is unknown by now;
-- where $5 is, Resume attempts that nobody runs any more; where $6 is, those of these that are past their deadline. $7 is a
-- method and a route, or ''; $8 is a principal, or ''; they were created at $9 or later, and before $10.
r.due_at IS NULL AND r.realm >= $2::bytea AND r.realm <= $3::bytea
	AND ($4::boolean AND (:unknown) OR ($5::boolean OR $6::boolean AND r.deadline_at <= :now) AND :resumable)
	AND ($7::text = '' OR r.method || ' ' || r.route = $7::text) AND (length($8::bytea) = 0 OR r.scope = $8::bytea)
	AND r.created_at >= $9::bigint AND r.created_at < $10::bigint

-- name: list
-- A page of at most $1 records, behind the one that was created at $11 with the id $12. It is read from an index in the order
-- of the page, so that it reads no more than it shows. Where $13 is not '', they have a reference of this value and the name
-- $14, which may be ''; likewise $15 and $16.
SELECT :now, :server, :columns, r.headers, r.body FROM :"schema".idempotency_record r
WHERE (r.created_at, r.id) > ($11::bigint, $12::bytea) AND :selected
	AND ($13::text = '' OR :reference(o.record_id = r.id AND o.value || '' = $13::text AND ($14::text = '' OR o.name = $14::text)))
	AND ($15::text = '' OR :reference(o.record_id = r.id AND o.value || '' = $15::text AND ($16::text = '' OR o.name = $16::text)))
ORDER BY r.created_at, r.id LIMIT $1;

-- name: listNewest
SELECT :now, :server, :columns, r.headers, r.body FROM :"schema".idempotency_record r
WHERE (r.created_at, r.id) < ($11::bigint, $12::bytea) AND :selected
	AND ($13::text = '' OR :reference(o.record_id = r.id AND o.value || '' = $13::text AND ($14::text = '' OR o.name = $14::text)))
	AND ($15::text = '' OR :reference(o.record_id = r.id AND o.value || '' = $15::text AND ($16::text = '' OR o.name = $16::text)))
ORDER BY r.created_at DESC, r.id DESC LIMIT $1;

-- name: count
-- Counts the oldest $1 of the records that list returns, wherever the page is, by state and route.
SELECT :now, o.half_done, o.method, o.route, count(*),
	count(*) FILTER (WHERE o.created_at <= :now - 3600 * 1000000::bigint),
	count(*) FILTER (WHERE o.created_at <= :now - 24 * 3600 * 1000000::bigint), min(o.created_at)
FROM (
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at
	FROM :"schema".idempotency_record r WHERE :selected ORDER BY r.created_at, r.id LIMIT $1
) o
GROUP BY o.half_done, o.method, o.route;

-- name: flow
-- By the hour, of which 0 is the last one: how many operations whose realm is from $1 to $2 were created in the last $3 hours, and
-- need somebody or have been settled, and how many were settled. It looks at the last 10,000 settlements, and at their records
-- by the primary key.
SELECT f.ago, sum(f.came), sum(f.settled) FROM (
	SELECT (:now - r.created_at) / (3600 * 1000000::bigint) AS ago, 1 AS came, 0 AS settled
	FROM :"schema".idempotency_record r
	WHERE r.due_at IS NULL AND r.created_at > :now - $3::bigint * 3600 * 1000000 AND r.realm >= $1::bytea AND r.realm <= $2::bytea
		AND ((:unknown) OR r.deadline_at <= :now AND :resumable)
	UNION ALL
	SELECT (:now - CASE WHEN k.came = 1 THEN s.created_at ELSE s.settled_at END) / (3600 * 1000000::bigint), k.came, 1 - k.came
	FROM (
		SELECT l.settled_at, (SELECT r.created_at FROM :"schema".idempotency_record r
			WHERE r.id = l.record_id AND r.realm >= $1::bytea AND r.realm <= $2::bytea LIMIT 1) AS created_at
		FROM (
			SELECT h.record_id, h.settled_at, h.after_state FROM :"schema".idempotency_settlement h
			WHERE h.settled_at > :now - $3::bigint * 3600 * 1000000 ORDER BY h.settled_at DESC LIMIT 10000
		) l
		WHERE l.after_state IN (2, 5)
	) s CROSS JOIN (SELECT 0 AS came UNION ALL SELECT 1) k
	WHERE s.created_at IS NOT NULL
) f
GROUP BY f.ago;

-- name: openSteps
-- Of at most $1 open records whose realm begins with $2: the id and the name of each step that calls a provider, and '' for a
-- record without any.
SELECT o.id, coalesce(s.name, '')
FROM (
	SELECT r.id FROM :"schema".idempotency_record r
	WHERE r.due_at IS NULL AND r.state IN (1, 3) AND :within($2::bytea) LIMIT $1
) o
LEFT JOIN :"schema".idempotency_step s ON s.record_id = o.id AND s.kind = 2;

-- name: lastAnswered
-- The last record of the route $2 (method and pattern) with a recorded success, whose realm begins with $1. It looks at the
-- last thousand records whose retention ends in three days at the latest, the longest that there is.
SELECT r.id FROM (
	SELECT l.id, l.created_at, l.state, l.status, l.partial, l.realm, l.method, l.route FROM :"schema".idempotency_record l
	WHERE l.due_at > :now AND l.due_at <= :now + 72 * 3600 * 1000000::bigint ORDER BY l.due_at DESC LIMIT 1000
) r
WHERE r.state = 2 AND r.status < 300 AND NOT r.partial AND r.method || ' ' || r.route = $2::text AND :within($1::bytea)
ORDER BY r.created_at DESC LIMIT 1;

-- name: due
-- At most $1 records that have been due for the longest, and what is to become of them: whether they have steps, and of a timed
-- key that was used and is dropped, realm and route, for its floor rises in the same transaction. By a clock outside of $2 and $3
-- there is none, nor before $4, where the last batch ended: see SweepCursor of package txn. They are changed by their ids, in the JSON
-- array $1 of the statements that follow.
SELECT CASE
	WHEN r.state IN (2, 4, 5) AND r.purge_at <= :now THEN 'dropped'
	WHEN r.state = 2 AND r.expires_at <= :now THEN 'tombstone'
	ELSE '' END, r.id, r.recovery = 2, CASE WHEN r.timed AND r.state IN (2, 4) AND r.purge_at <= :now THEN r.realm END,
	r.method || ' ' || r.route, r.due_at
FROM :"schema".idempotency_record r
WHERE r.due_at >= $4::bigint AND r.due_at <= :now AND :now BETWEEN $2::bigint AND $3::bigint
ORDER BY r.due_at LIMIT $1 :skip_locked;

-- name: bury
UPDATE :"schema".idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false, due_at = r.purge_at
WHERE r.id :ids($1);

-- name: drop
DELETE FROM :"schema".idempotency_record AS r WHERE r.id :ids($1);

-- name: putOff
-- Has a record looked at when its time is over: it was erased, say.
UPDATE :"schema".idempotency_record AS r SET due_at = CASE WHEN r.state = 2 THEN r.expires_at ELSE r.purge_at END
WHERE r.id :ids($1);

-- name: dropStepsOf
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id :ids($1);

-- name: dropReferencesOf
DELETE FROM :"schema".idempotency_reference AS f WHERE f.record_id :ids($1);

-- name: near
-- Up to $5 ids from $1 to $2 whose last bytes are $3, of records whose realm begins with $4.
SELECT r.id FROM :"schema".idempotency_record r
WHERE r.id >= $1 AND r.id <= $2 AND substr(r.id, 33 - length($3::bytea), 32) = $3::bytea AND :within($4::bytea)
ORDER BY r.id LIMIT $5;

-- name: countOpen
-- Counts up to $2 open records of the principal $1. A Resume attempt past its deadline is not open.
SELECT count(*) FROM (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.scope = $1 AND r.due_at IS NULL AND r.state IN (1, 3)
		AND NOT (:resumable AND r.deadline_at <= :now)
	LIMIT $2
) o;

-- name: settle
-- Ends an operation whose state is unknown, after its lease and deadline: $1 id, $2 the fence that was seen, $3 state, $4
-- status, $5 headers, $6 body, $7 retention, $8 retention and tombstone, $9 and $10 the clock's window. $11 how the
-- attempts have ended of which the last is gone; NULL: as before. $12 encoding.
UPDATE :"schema".idempotency_record AS r SET state = $3::smallint, fence = r.fence + 1, status = $4::smallint,
	partial = false, headers = $5::bytea, body = $6::bytea, expires_at = :now + $7::bigint, purge_at = :now + $8::bigint,
	due_at = :now + $7::bigint, ends = CASE WHEN r.state = 1 THEN coalesce($11::bytea, r.ends) ELSE r.ends END,
	answer_encoding = $12::smallint
WHERE r.id = $1 AND r.fence = $2 AND (:unknown) AND r.lease_until <= :now AND r.deadline_at <= :now
	AND :now BETWEEN $9::bigint AND $10::bigint;

-- name: appendSettlement
INSERT INTO :"schema".idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES ($1, :now, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: adopt
-- Gives the marked record $1, whose principal is still $2 (nobody), its principal $3, realm $4, method $5 and route $6. $7 says
-- whether its key is a timed one. The record has no deadline where COMMIT would not wait for the disk: that is refused.
UPDATE :"schema".idempotency_record AS r SET scope = $3, realm = $4, method = $5, route = $6, timed = r.timed OR $7::boolean,
	deadline_at = CASE WHEN :durable THEN r.deadline_at END
WHERE r.id = $1 AND r.scope = $2 AND r.hash_version = 0;

-- name: history
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, s.record_id, '', ''
FROM :"schema".idempotency_settlement s WHERE s.record_id = $1 ORDER BY s.settled_at, s.after_fence;

-- name: erasable
-- Looks at $3 records behind the id $2, in the order of the ids, and returns those of the principal $1 that are open or can be
-- erased, and the last one where more may follow. There is no index for the principal: claims would have to write to it.
SELECT p.id, p.state, p.own, p.place = $3::bigint
FROM (
	SELECT q.id, q.state, q.own, row_number() OVER (ORDER BY q.id) AS place
	FROM (
		SELECT r.id, r.state, r.scope = $1 AND r.state <> 4 AS own
		FROM :"schema".idempotency_record r WHERE r.id > $2 ORDER BY r.id LIMIT $3
	) q
) p
WHERE p.own OR p.place = $3::bigint ORDER BY p.id;

-- name: erase
-- Makes of the completed record $1 of the principal $2 what the sweep would have made of it at the end of retention. Steps,
-- references and texts of notes, which go in the same transaction, are all that a free record can have. When the sweep looks at the record
-- stays as it is, so that no index changes.
UPDATE :"schema".idempotency_record AS r SET state = CASE WHEN r.state = 2 THEN 4 ELSE r.state END, headers = NULL,
	body = NULL, partial = false, expires_at = CASE WHEN r.expires_at > :now THEN :now ELSE r.expires_at END
WHERE r.id = $1 AND r.scope = $2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM :"schema".idempotency_step s WHERE s.record_id = $1)
		OR EXISTS (SELECT 1 FROM :"schema".idempotency_reference f WHERE f.record_id = $1)
		OR EXISTS (SELECT 1 FROM :"schema".idempotency_note n WHERE n.record_id = $1
			AND (n.body <> '' OR n.decision IS NOT NULL))));

-- name: setting
SELECT s.value FROM :"schema".idempotency_setting s WHERE s.name = $1;

-- name: keepSetting
INSERT INTO :"schema".idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: keepFirstScoping
-- Does nothing where there is a setting whose name is like $3.
INSERT INTO :"schema".idempotency_setting AS s (name, value)
SELECT $1::text, $2::text
WHERE NOT EXISTS (SELECT 1 FROM :"schema".idempotency_setting o WHERE o.name LIKE $3::text)
ON CONFLICT (name) DO NOTHING;

-- name: importRecord
-- Adds a record whose id is not there, or is free, and returns the fence of the record that was written. $22 due_at, $23
-- encoding. A free record's fence rises, and so it is above the imported one's own. The record's lock is held.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body, realm, timed, due_at,
	answer_encoding)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
ON CONFLICT (id) DO UPDATE SET fence = r.fence + 1, :instead
WHERE :free
RETURNING fence;
