-- The steps of Resume attempts. $1 is the record's id, $2 the owner, $3 the fence, $4 the step's name, unless a comment says
-- otherwise. Each write first proves that the attempt owns the record, and keeps a takeover out until the transaction ends:
-- a takeover updates the same row.
--
-- Kinds: 1 database, 2 provider. States: 1 started, 2 finished.

-- name: startStep
-- Records that a provider step starts; $5 kind. It changes nothing where the step is there.
WITH own AS (
	UPDATE :"schema".idempotency_record AS r SET state = r.state
	WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1
		AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
			THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
	RETURNING r.id
)
INSERT INTO :"schema".idempotency_step (record_id, name, kind, state, fence, started_at)
SELECT $1::bytea, $4::text, $5::smallint, 1, $3::bigint, pg_catalog.clock_timestamp() FROM own
ON CONFLICT (record_id, name) DO NOTHING;

-- name: finishStep
-- Records the result ($5) of a provider step, and the keys that it derived ($6).
WITH own AS (
	UPDATE :"schema".idempotency_record AS r SET state = r.state
	WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1
		AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
			THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
	RETURNING r.id
)
UPDATE :"schema".idempotency_step AS s SET state = 2, result = $5::bytea, derived = $6::bytea,
	finished_at = pg_catalog.clock_timestamp() FROM own
WHERE s.record_id = $1 AND s.name = $4 AND s.state = 1;

-- name: recordStep
-- The last statement of a database step: it records the result ($5) and the keys that the step derived ($6). A step that
-- failed before may have left its start there. The transaction takes the record's advisory lock ($7) until it has committed,
-- so that a repeat is told that the operation is in flight, instead of waiting for the row. The step began with the
-- transaction, whose mark is $8 to $10. It fails as recordAnswer does: in another transaction with 22P02, where the attempt does
-- not own the record with 22012. COMMIT may be on its way already.
WITH l AS MATERIALIZED (
	SELECT pg_catalog.pg_advisory_xact_lock($7::bigint),
		pg_catalog.pg_backend_pid() = $8::integer AND pg_catalog.transaction_timestamp() = $9::timestamptz AS ours
), own AS (
	UPDATE :"schema".idempotency_record AS r SET state = r.state FROM l
	WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1 AND l.ours
		AND (pg_catalog.current_setting('synchronous_commit') = $10::text
			OR pg_catalog.set_config('synchronous_commit', $10::text, true) <> '')
	RETURNING r.id
), step AS (
	INSERT INTO :"schema".idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived)
	SELECT $1::bytea, $4::text, 1, 2, $3::bigint, pg_catalog.transaction_timestamp(), pg_catalog.clock_timestamp(), $5::bytea,
		$6::bytea FROM own
	ON CONFLICT (record_id, name) DO UPDATE SET state = 2, fence = excluded.fence, result = excluded.result,
		derived = excluded.derived, finished_at = excluded.finished_at
	WHERE s.kind = 1 AND s.state <> 2
	RETURNING s.name
)
SELECT CAST(CASE WHEN l.ours THEN '1' ELSE 'not ours' END AS integer) / (SELECT pg_catalog.count(*) FROM step) FROM l;

-- name: stepsOf
SELECT pg_catalog.clock_timestamp(), s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM :"schema".idempotency_step s WHERE s.record_id = $1 ORDER BY s.started_at, s.name;

-- name: stepAt
-- $2 name.
SELECT pg_catalog.clock_timestamp(), s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM :"schema".idempotency_step s WHERE s.record_id = $1 AND s.name = $2;

-- name: dropSteps
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1;

-- name: forgetSteps
-- Drops the steps of a free record before it is taken over, if its fence is $2: once it is taken over, the steps may be
-- those of the next operation.
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1 AND EXISTS (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1 AND r.fence = $2
		AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= pg_catalog.clock_timestamp() AND NOT r.timed));
