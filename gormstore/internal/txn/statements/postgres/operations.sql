-- Reading, settling and sweeping records, and the settings of all instances.

-- name: clock
SELECT :now;

-- name: find
-- $1 id.
SELECT :now,
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN :server_started END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding, r.headers,
	r.body, r.attempts, r.timed, r.traceparent
FROM :"schema".idempotency_record r WHERE r.id = $1;

-- name: findFor
-- $1 id. Headers and body only where the scope is $2, or the realm from $3 to $4: others learn nothing by the time that they
-- take.
SELECT :now,
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN :server_started END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.headers END,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.body END,
	r.attempts, r.timed, r.traceparent
FROM :"schema".idempotency_record r WHERE r.id = $1;

-- name: withoutJIT
-- Nothing is compiled for the rest of the transaction. PostgreSQL compiles the plan of a large table's list by its estimated
-- cost; running it takes less.
SELECT pg_catalog.set_config('jit', 'off', true) WHERE pg_catalog.current_setting('jit', true) = 'on';

-- name: list
-- A page of at most $1 records whose realm is from $2 to $3, behind the record that was created at $12 with the id $13: where $5
-- is set, those whose state is unknown by now, swept or not; where $6 is, Resume attempts that nobody runs any more; where $7
-- is, those of these that are past their deadline. $8 is a method and a route, or ''; $9 is a principal, or ''; they were
-- created at $10 or later, and before $11. A running Rollback record can be seen only by its own attempt, unless the handler has
-- committed it. For the newest first, the order and the comparison with the place are turned round.
--
-- They are among the records whose sweep_after is NULL, and among those that were claimed since the patrol came by: see
-- patrol.go of gormstore. The first ones are read from an index in the order of the page, so that a page reads no more than it
-- shows. $4 is how far the patrol had come, in microseconds: by a number that it knows, the planner sees that the others are
-- few. class has the few values that sweep_after has, each found by one look at the index. OFFSET 0 keeps the planner from
-- reading the whole index for all of them at once.
WITH RECURSIVE class (after) AS (
	(SELECT r.sweep_after FROM :"schema".idempotency_record r WHERE r.sweep_after >= 0
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.sweep_after FROM :"schema".idempotency_record r
		WHERE r.sweep_after >= 0 AND r.sweep_after < class.after
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	FROM class WHERE class.after IS NOT NULL
)
SELECT :now,
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN :server_started END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding, r.headers,
	r.body, r.attempts, r.timed, r.traceparent
FROM (
	(SELECT * FROM :"schema".idempotency_record r
	WHERE r.sweep_after IS NULL
		AND r.realm >= $2::bytea AND r.realm <= $3::bytea AND (
			$5::boolean AND (r.state = 3
				OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= :now))
			OR ($6::boolean OR $7::boolean AND r.deadline_at <= :now)
				AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now)
		AND ($8::text = '' OR r.method || ' ' || r.route = $8::text) AND ($9::bytea = '' OR r.scope = $9::bytea)
		AND r.created_at >= $10::bigint AND r.created_at < $11::bigint
		AND (r.created_at, r.id) > ($12::bigint, $13::bytea)
	ORDER BY r.created_at, r.id LIMIT $1)
	UNION ALL
	SELECT n.* FROM class CROSS JOIN LATERAL (
		SELECT * FROM :"schema".idempotency_record r
		WHERE r.sweep_after = class.after AND class.after > 0 AND r.state IN (1, 3)
			AND r.sweep_from > $4::bigint
			AND r.realm >= $2::bytea AND r.realm <= $3::bytea AND (
				$5::boolean AND (r.state = 3
					OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= :now))
				OR ($6::boolean OR $7::boolean AND r.deadline_at <= :now)
					AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now)
			AND ($8::text = '' OR r.method || ' ' || r.route = $8::text) AND ($9::bytea = '' OR r.scope = $9::bytea)
			AND r.created_at >= $10::bigint AND r.created_at < $11::bigint
			AND (r.created_at, r.id) > ($12::bigint, $13::bytea)
		OFFSET 0
	) n
) r
ORDER BY r.created_at, r.id LIMIT $1;

-- name: count
-- Counts the oldest $1 of the records that list returns, wherever the page is, by state and route: the parameters are those of
-- list. Where $4 is the end of time, it leaves out those that were claimed since the patrol came by.
WITH RECURSIVE class (after) AS (
	(SELECT r.sweep_after FROM :"schema".idempotency_record r WHERE r.sweep_after >= 0
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.sweep_after FROM :"schema".idempotency_record r
		WHERE r.sweep_after >= 0 AND r.sweep_after < class.after
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	FROM class WHERE class.after IS NOT NULL
)
SELECT :now, o.half_done, o.method, o.route, count(*),
	count(*) FILTER (WHERE o.created_at <= :now - 3600 * 1000000::bigint),
	count(*) FILTER (WHERE o.created_at <= :now - 24 * 3600 * 1000000::bigint), min(o.created_at)
FROM (
	(SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at, r.id
	FROM :"schema".idempotency_record r
	WHERE r.sweep_after IS NULL
		AND r.realm >= $2::bytea AND r.realm <= $3::bytea AND (
			$5::boolean AND (r.state = 3
				OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= :now))
			OR ($6::boolean OR $7::boolean AND r.deadline_at <= :now)
				AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now)
		AND ($8::text = '' OR r.method || ' ' || r.route = $8::text) AND ($9::bytea = '' OR r.scope = $9::bytea)
		AND r.created_at >= $10::bigint AND r.created_at < $11::bigint
	ORDER BY r.created_at, r.id LIMIT $1)
	UNION ALL
	SELECT n.* FROM class CROSS JOIN LATERAL (
		SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at, r.id
		FROM :"schema".idempotency_record r
		WHERE r.sweep_after = class.after AND class.after > 0 AND r.state IN (1, 3)
			AND r.sweep_from > $4::bigint
			AND r.realm >= $2::bytea AND r.realm <= $3::bytea AND (
				$5::boolean AND (r.state = 3
					OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= :now))
				OR ($6::boolean OR $7::boolean AND r.deadline_at <= :now)
					AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now)
			AND ($8::text = '' OR r.method || ' ' || r.route = $8::text) AND ($9::bytea = '' OR r.scope = $9::bytea)
			AND r.created_at >= $10::bigint AND r.created_at < $11::bigint
		OFFSET 0
	) n
	ORDER BY created_at, id LIMIT $1
) o
GROUP BY o.half_done, o.method, o.route;

-- name: openSteps
-- Of at most $1 open records whose realm begins with $2: the id and the name of each step that calls a provider, and '' for a
-- record without any. $3 is how far the patrol had come, as in list.
WITH RECURSIVE class (after) AS (
	(SELECT r.sweep_after FROM :"schema".idempotency_record r WHERE r.sweep_after >= 0
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.sweep_after FROM :"schema".idempotency_record r
		WHERE r.sweep_after >= 0 AND r.sweep_after < class.after
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	FROM class WHERE class.after IS NOT NULL
)
SELECT o.id, coalesce(s.name, '')
FROM (
	SELECT r.id
	FROM (
		SELECT o.id, o.realm, o.state FROM :"schema".idempotency_record o WHERE o.sweep_after IS NULL
		UNION ALL
		SELECT n.id, n.realm, n.state FROM class CROSS JOIN LATERAL (
			SELECT * FROM :"schema".idempotency_record r WHERE r.sweep_after = class.after AND class.after > 0 AND r.state IN (1, 3)
				AND r.sweep_from > $3::bigint
			OFFSET 0
		) n
	) r
	WHERE r.state IN (1, 3) AND substr(r.realm, 1, length($2::bytea)) = $2::bytea
	LIMIT $1
) o
LEFT JOIN :"schema".idempotency_step s ON s.record_id = o.id AND s.kind = 2;

-- name: near
-- Up to $5 ids from $1 to $2 whose last bytes are $3, of records whose realm begins with $4.
SELECT r.id FROM :"schema".idempotency_record r
WHERE r.id >= $1 AND r.id <= $2 AND substr(r.id, 33 - length($3::bytea)) = $3::bytea
	AND substr(r.realm, 1, length($4::bytea)) = $4::bytea
ORDER BY r.id LIMIT $5;

-- name: countOpen
-- Counts up to $2 open records of the principal $1. A Resume attempt past its deadline is not open.
SELECT count(*) FROM (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.scope = $1 AND r.sweep_after IS NULL AND r.state IN (1, 3)
		AND NOT (r.state = 1 AND r.recovery = 2 AND r.lease_until <= :now
			AND r.deadline_at <= :now)
	LIMIT $2
) o;

-- name: settle
-- Ends an operation whose state is unknown, after its lease and deadline: $1 id, $2 the fence that was seen, $3 state, $4
-- status, $5 headers, $6 body, $7 retention, $8 retention and tombstone, $9 and $10 the clock's window.
UPDATE :"schema".idempotency_record AS r SET state = $3::smallint, fence = r.fence + 1, status = $4::smallint,
	partial = false, headers = $5::bytea, body = $6::bytea, expires_at = c.now + $7::bigint,
	purge_at = c.now + $8::bigint,
	sweep_after = 0, sweep_from = c.now + $7::bigint
FROM (SELECT :now AS now) c
WHERE r.id = $1 AND r.fence = $2
	AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= :now))
	AND r.lease_until <= :now AND r.deadline_at <= :now
	AND c.now >= $9::bigint
	AND c.now <= $10::bigint
	AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

-- name: appendSettlement
INSERT INTO :"schema".idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES ($1, :now, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: history
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, s.record_id, '', ''
FROM :"schema".idempotency_settlement s WHERE s.record_id = $1 ORDER BY s.settled_at, s.after_fence;

-- name: lastSettled
-- The last $3 settlements of records whose realm begins with $1, by $2 or by anybody, among the last 10,000. The record may have
-- had attempts since. OFFSET 0 keeps the planner from reading all records.
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM (
	SELECT * FROM :"schema".idempotency_settlement s WHERE $2::text = '' OR s.settled_by = $2::text
	ORDER BY s.settled_at DESC LIMIT 10000
) s CROSS JOIN LATERAL (SELECT r.id, r.method, r.route, r.realm FROM :"schema".idempotency_record r WHERE r.id = s.record_id OFFSET 0) r
WHERE substr(r.realm, 1, length($1::bytea)) = $1::bytea
ORDER BY s.settled_at DESC LIMIT $3;

-- name: lastAnswered
-- The last record of the route $2 (method and pattern) with a recorded success, whose realm begins with $1. It looks at the
-- last thousand records of each sweep_after, which are in the order of their claims: see list.
WITH RECURSIVE class (after) AS (
	(SELECT r.sweep_after FROM :"schema".idempotency_record r WHERE r.sweep_after >= 0
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.sweep_after FROM :"schema".idempotency_record r
		WHERE r.sweep_after >= 0 AND r.sweep_after < class.after
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	FROM class WHERE class.after IS NOT NULL
)
SELECT a.id FROM class CROSS JOIN LATERAL (
	SELECT r.id, r.sweep_from, r.state, r.status, r.partial, r.realm, r.method, r.route
	FROM :"schema".idempotency_record r WHERE r.sweep_after = class.after AND class.after > 0
	ORDER BY r.sweep_from DESC LIMIT 1000
) a
WHERE a.state = 2 AND a.status < 300 AND NOT a.partial AND a.method || ' ' || a.route = $2::text
	AND substr(a.realm, 1, length($1::bytea)) = $1::bytea
ORDER BY a.sweep_from DESC LIMIT 1;

-- name: sweep
-- Looks at no more than $1 records, the ones that have been due for the longest of each sweep_after. It turns completed ones
-- past retention into tombstones, which are due again at the end of the tombstone. It drops completed ones, tombstones and
-- free ones whose time is over. It lists those that are open. Any other is due again when its time is over. $2 and $3 are
-- the clock's window: by a clock that shows another time nothing happens.
--
-- It returns what has become of the record, its id, and whether it may have steps, which are to go too; references go at once.
-- They are found by an array of ids: joined, they could be read from the whole of their table. Of the records of
-- timed keys that were used and are dropped, it returns realm and route: their floors have to rise in the same transaction.
-- The rows are found again by their place in their part of a partitioned table: they are locked, and the primary key may not
-- be in memory.
WITH RECURSIVE class (after) AS (
	(SELECT r.sweep_after FROM :"schema".idempotency_record r WHERE r.sweep_after >= 0
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.sweep_after FROM :"schema".idempotency_record r
		WHERE r.sweep_after >= 0 AND r.sweep_after < class.after
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	FROM class WHERE class.after IS NOT NULL
), due AS MATERIALIZED (
	SELECT d.* FROM class CROSS JOIN LATERAL (
		SELECT r.tableoid AS part, r.ctid AS place, r.state IN (2, 4, 5) AND r.purge_at <= :statement_now AS over,
			r.state = 2 AND r.expires_at <= :statement_now AS expired
		FROM :"schema".idempotency_record r
		WHERE r.sweep_after = class.after
			AND r.sweep_from <= :statement_now - class.after * 1000000::bigint
			AND :now >= $2::bigint
			AND :now <= $3::bigint
		ORDER BY r.sweep_from LIMIT $1 FOR UPDATE SKIP LOCKED
	) d LIMIT $1
), dropped AS (
	DELETE FROM :"schema".idempotency_record AS r USING due d
	WHERE r.ctid = d.place AND r.tableoid = d.part AND d.over
	RETURNING 'dropped' AS became, r.id, r.recovery = 2 AS stepped, CASE WHEN r.timed AND r.state <> 5 THEN r.realm END AS realm,
		r.method || ' ' || r.route AS route
), kept AS (
	UPDATE :"schema".idempotency_record AS r SET
		state = CASE WHEN d.expired THEN 4 ELSE r.state END, headers = CASE WHEN NOT d.expired THEN r.headers END,
		body = CASE WHEN NOT d.expired THEN r.body END, partial = r.partial AND NOT d.expired,
		sweep_after = CASE WHEN r.state IN (2, 4, 5) THEN 0 END,
		sweep_from = CASE WHEN r.state = 2 AND NOT d.expired THEN r.expires_at ELSE coalesce(r.purge_at, r.sweep_from) END
	FROM due d WHERE r.ctid = d.place AND r.tableoid = d.part AND NOT d.over
	RETURNING CASE WHEN d.expired THEN 'tombstone' ELSE '' END AS became, r.id, d.expired AND r.recovery = 2, NULL::bytea, ''
), referred AS (
	DELETE FROM :"schema".idempotency_reference AS f
	WHERE f.record_id = ANY (ARRAY(SELECT id FROM dropped UNION ALL SELECT id FROM kept WHERE became = 'tombstone'))
)
SELECT became, id, stepped, realm, route FROM dropped UNION ALL SELECT * FROM kept;

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
-- and references, which go in the same transaction, are all that a free record can have. When the sweep looks at the record stays as it
-- is, so that no index changes.
UPDATE :"schema".idempotency_record AS r SET state = CASE WHEN r.state = 2 THEN 4 ELSE r.state END, headers = NULL,
	body = NULL, partial = false, expires_at = CASE WHEN r.expires_at > c.now THEN c.now ELSE r.expires_at END
FROM (SELECT :now AS now) c
WHERE r.id = $1 AND r.scope = $2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM :"schema".idempotency_step s WHERE s.record_id = $1)
		OR EXISTS (SELECT 1 FROM :"schema".idempotency_reference f WHERE f.record_id = $1)))
	AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

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
