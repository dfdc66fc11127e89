-- The steps of Resume attempts, as in ../../postgres/statements/steps.sql, where the statements are explained.

-- macro: put
-- The row of a step that is there. Fails with 1242 where it must not be written.
record_id = IF(idempotency_step.kind = VALUES(kind) AND idempotency_step.fence = VALUES(fence)
		AND (idempotency_step.state < 2 OR VALUES(state) = 2), idempotency_step.record_id, (SELECT v.n FROM :"schema".idempotency_never v)),
	finished_at = IF(idempotency_step.state = 2, idempotency_step.finished_at, VALUES(finished_at)),
	result = IF(idempotency_step.state = 2, idempotency_step.result, VALUES(result)),
	encoding = IF(idempotency_step.state = 2, idempotency_step.encoding, VALUES(encoding)),
	derived = IF(idempotency_step.state = 2, idempotency_step.derived, VALUES(derived)),
	state = GREATEST(idempotency_step.state, VALUES(state))

-- name: putSteps
INSERT INTO :"schema".idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, result, derived,
	encoding)
SELECT $1, $3, $4, $5, $2, :now, IF($5 = 2, :now, NULL), $6, $7, IF($5 = 2, $14, 1) FROM DUAL WHERE $3 IS NOT NULL
ON DUPLICATE KEY UPDATE :put;
INSERT INTO :"schema".idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, result, derived,
	encoding)
SELECT $1, $9, $10, $11, $8, :now + 1, IF($11 = 2, :now + 1, NULL), $12, $13, IF($11 = 2, $14, 1) FROM DUAL WHERE $9 IS NOT NULL
ON DUPLICATE KEY UPDATE :put;
