-- The steps of Resume attempts. $1 is the record's id.

-- name: forgetOlder
-- Drops the steps of a free record behind the statement that has taken it, $2 its new fence. Sweep and erasure come to the
-- record first, too.
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1 AND s.fence < $2;

-- name: stepsOf
SELECT :now, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM :"schema".idempotency_step s WHERE s.record_id = $1 ORDER BY s.started_at, s.name;

-- name: stepAt
-- $2 name.
SELECT :now, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM :"schema".idempotency_step s WHERE s.record_id = $1 AND s.name = $2;

-- name: dropSteps
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1;

-- name: forgetSteps
-- Drops the steps of a free record before it is taken over, if its fence is $2: once it is taken over, the steps may be
-- those of the next operation.
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1 AND EXISTS (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1 AND r.fence = $2
		AND (:free));
