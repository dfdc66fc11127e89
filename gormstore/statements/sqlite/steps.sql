-- The steps of Resume attempts, as in ../postgres/steps.sql, where the statements are explained. The proof of ownership is a
-- statement of its own, in the same transaction.

-- name: own
UPDATE main.idempotency_record AS r SET state = r.state
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state = 1;

-- name: startStep
INSERT INTO main.idempotency_step (record_id, name, kind, state, fence, started_at)
VALUES (?1, ?4, ?5, 1, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
ON CONFLICT (record_id, name) DO NOTHING;

-- name: finishStep
UPDATE main.idempotency_step AS s SET state = 2, result = ?5, derived = ?6,
	finished_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000
WHERE s.record_id = ?1 AND s.name = ?4 AND s.state = 1;

-- name: beginDatabaseStep
-- Writes a row that shows for as long as the database step's transaction is there; ?2 name, ?3 fence. recordStep finishes
-- it.
INSERT INTO main.idempotency_step (record_id, name, kind, state, fence, started_at)
VALUES (?1, ?2, 1, 0, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)
ON CONFLICT (record_id, name) DO UPDATE SET state = 0, fence = excluded.fence WHERE kind = 1 AND state <> 2;

-- name: traceStep
-- Finds that row; ?2 name, ?3 fence.
SELECT 1 FROM main.idempotency_step WHERE record_id = ?1 AND name = ?2 AND state = 0 AND fence = ?3;

-- name: recordStep
INSERT INTO main.idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived)
VALUES (?1, ?4, 1, 2, ?3, CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000,
	CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, ?5, ?6)
ON CONFLICT (record_id, name) DO UPDATE SET state = 2, fence = excluded.fence, result = excluded.result,
	derived = excluded.derived, finished_at = excluded.finished_at
WHERE s.kind = 1 AND s.state <> 2;

-- name: stepsOf
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding,
	s.result, s.derived
FROM main.idempotency_step s WHERE s.record_id = ?1 ORDER BY s.started_at, s.name;

-- name: stepAt
SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding,
	s.result, s.derived
FROM main.idempotency_step s WHERE s.record_id = ?1 AND s.name = ?2;

-- name: dropSteps
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1;

-- name: forgetSteps
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1 AND EXISTS (
	SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1 AND r.fence = ?2
		AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000
			AND NOT r.timed));
