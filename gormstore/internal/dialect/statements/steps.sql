-- The steps of Resume attempts. $1 is the record's id.

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
-- Drops the steps that a free record has from before: those below $2, the fence of the attempt $3 that takes it. It comes behind
-- the statement that has taken the record, as sweep and erasure come to the record first; or in front of it, where no transaction
-- is around both, and only while the record is free: once another one has taken it, the steps may be of the next operation.
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1 AND s.fence < $2::bigint AND EXISTS (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1 AND (r.owner = $3 OR r.fence = $2::bigint - 1 AND (:free)));
