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

-- name: near
-- Up to $5 ids from $1 to $2 whose last bytes are $3, of records whose realm begins with $4.
SELECT r.id FROM :"schema".idempotency_record r
WHERE r.id >= $1 AND r.id <= $2 AND substr(r.id, 33 - length($3::bytea), 32) = $3::bytea AND :within($4::bytea)
ORDER BY r.id LIMIT $5;

-- name: countOpen
-- Counts up to $2 open records of the principal $1. A Resume attempt past its deadline is not open.
SELECT count(*) FROM (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.scope = $1 AND r.sweep_after IS NULL AND r.state IN (1, 3)
		AND NOT (:resumable AND r.deadline_at <= :now)
	LIMIT $2
) o;

-- name: settle
-- Ends an operation whose state is unknown, after its lease and deadline: $1 id, $2 the fence that was seen, $3 state, $4
-- status, $5 headers, $6 body, $7 retention, $8 retention and tombstone, $9 and $10 the clock's window.
UPDATE :"schema".idempotency_record AS r SET state = $3::smallint, fence = r.fence + 1, status = $4::smallint,
	partial = false, headers = $5::bytea, body = $6::bytea, expires_at = :now + $7::bigint, purge_at = :now + $8::bigint,
	sweep_after = 0, sweep_from = :now + $7::bigint
WHERE r.id = $1 AND r.fence = $2 AND (:unknown) AND r.lease_until <= :now AND r.deadline_at <= :now
	AND :now BETWEEN $9::bigint AND $10::bigint AND :durably;

-- name: appendSettlement
INSERT INTO :"schema".idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES ($1, :now, $2, $3, $4, $5, $6, $7, $8, $9);

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
-- Makes of the completed record $1 of the principal $2 what the sweep would have made of it at the end of retention. Steps
-- and references, which go in the same transaction, are all that a free record can have. When the sweep looks at the record
-- stays as it is, so that no index changes.
UPDATE :"schema".idempotency_record AS r SET state = CASE WHEN r.state = 2 THEN 4 ELSE r.state END, headers = NULL,
	body = NULL, partial = false, expires_at = CASE WHEN r.expires_at > :now THEN :now ELSE r.expires_at END
WHERE r.id = $1 AND r.scope = $2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM :"schema".idempotency_step s WHERE s.record_id = $1)
		OR EXISTS (SELECT 1 FROM :"schema".idempotency_reference f WHERE f.record_id = $1)))
	AND :durably;

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
