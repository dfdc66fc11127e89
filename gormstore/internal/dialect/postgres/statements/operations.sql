-- Reading, settling and sweeping records, and the settings of all instances.

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
	:server,
	:columns, r.headers, r.body
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
		SELECT r.tableoid AS part, r.ctid AS place, r.state IN (2, 4, 5) AND r.purge_at <= :now AS over,
			r.state = 2 AND r.expires_at <= :now AS expired
		FROM :"schema".idempotency_record r
		WHERE r.sweep_after = class.after
			AND r.sweep_from <= :now - class.after * 1000000::bigint
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
