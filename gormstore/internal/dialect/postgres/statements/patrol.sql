-- The patrol lists the operations that have stayed open: see patrol.go of gormstore. $1 and $2 are
-- times in microseconds since 1970.

-- name: patrolled
-- The clock, the patrol's limit, and how far it has come.
SELECT :now,
	coalesce((SELECT CAST(p.value AS bigint) FROM :"schema".idempotency_setting p WHERE p.name = 'patrol/limit'), 0),
	coalesce((SELECT CAST(p.value AS bigint) FROM :"schema".idempotency_setting p WHERE p.name = 'patrol/passed'), 0);

-- name: patrolTurn
-- Takes the patrol's turn in the table $1, if nobody has it. The settings bound how long an instance that is gone keeps it.
-- Nothing is compiled in the transaction: on a large table the planner takes the few records for many, and compiling the plan
-- takes a second of a processor.
SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('idem/patrol ' || $1::text, 0)),
	pg_catalog.set_config('idle_in_transaction_session_timeout', '10000', true) ||
	pg_catalog.set_config('tcp_user_timeout', '10000', true) || pg_catalog.set_config('jit', 'off', true);

-- name: writers
-- $1 the table. The transactions that have written to the table of records, or may have, and are not over. A transaction
-- takes this lock before the snapshot and the clock of its statement, and gives it back after others can see its rows.
SELECT coalesce(pg_catalog.string_agg(l.virtualtransaction, ' '), '') FROM pg_catalog.pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
	AND l.relation = pg_catalog.to_regclass($1::text)
	AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
	AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid();

-- name: patrol
-- Lists the records that were claimed after $1, until $2, and are open. It looks at about $3 records of each sweep_after, and
-- returns how far it has come: to just before the first open record that another transaction has locked, or has just
-- changed.
WITH RECURSIVE class (after) AS (
	(SELECT r.sweep_after FROM :"schema".idempotency_record r WHERE r.sweep_after >= 0
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	UNION ALL
	SELECT (SELECT r.sweep_after FROM :"schema".idempotency_record r
		WHERE r.sweep_after >= 0 AND r.sweep_after < class.after
		ORDER BY r.sweep_after DESC, r.sweep_from DESC LIMIT 1)
	FROM class WHERE class.after IS NOT NULL
), upto AS MATERIALIZED (
	SELECT least($2::bigint, min(l.sweep_from)) AS moment
	FROM class LEFT JOIN LATERAL (
		SELECT r.sweep_from FROM :"schema".idempotency_record r
		WHERE r.sweep_after = class.after AND class.after > 0
			AND r.sweep_from > $1::bigint
		ORDER BY r.sweep_from LIMIT 1 OFFSET $3
	) l ON true
), open AS MATERIALIZED (
	SELECT o.id, o.sweep_from FROM class CROSS JOIN LATERAL (
		SELECT r.id, r.sweep_from FROM :"schema".idempotency_record r
		WHERE r.sweep_after = class.after AND class.after > 0 AND r.state IN (1, 3)
			AND r.sweep_from > $1::bigint
			AND r.sweep_from <= (SELECT u.moment FROM upto u)
		OFFSET 0
	) o
), mine AS MATERIALIZED (
	SELECT r.id FROM :"schema".idempotency_record r WHERE r.id IN (SELECT o.id FROM open o)
		AND r.state IN (1, 3) AND r.sweep_after IS NOT NULL FOR UPDATE SKIP LOCKED
), listed AS (
	UPDATE :"schema".idempotency_record AS r SET sweep_after = NULL FROM mine m WHERE r.id = m.id
)
SELECT least((SELECT u.moment FROM upto u),
	(SELECT min(o.sweep_from) - 1 FROM open o WHERE o.id NOT IN (SELECT m.id FROM mine m)));
