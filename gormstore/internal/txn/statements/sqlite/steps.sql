-- The steps of Resume attempts, as in ../postgres/steps.sql, where the statements are explained.

-- name: ownRecord
-- Proves that the attempt owns its record. Nobody else writes until the transaction ends.
UPDATE main.idempotency_record AS r SET state = r.state
WHERE r.id = ?1 AND r.owner = ?2 AND r.fence = ?3 AND r.state IN (1, 3);

-- name: putStep
INSERT INTO main.idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived)
SELECT ?1, ?3, ?4, ?5, ?2, c.now, CASE WHEN ?5 = 2 THEN c.now END, ?6, ?7
FROM (SELECT :now AS now) c WHERE true
ON CONFLICT (record_id, name) DO UPDATE SET state = max(s.state, excluded.state),
	finished_at = CASE WHEN s.state = 2 THEN s.finished_at ELSE excluded.finished_at END,
	result = CASE WHEN s.state = 2 THEN s.result ELSE excluded.result END,
	derived = CASE WHEN s.state = 2 THEN s.derived ELSE excluded.derived END
WHERE s.kind = excluded.kind AND s.fence = excluded.fence AND (s.state < 2 OR excluded.state = 2);

-- name: beginTrace
-- Writes a row that shows for as long as the segment's transaction is there; ?2 fence. endTrace deletes it.
INSERT INTO main.idempotency_step (record_id, name, kind, state, fence, started_at) VALUES (?1, '', 1, 0, ?2, 0);

-- name: traceSegment
-- Finds that row.
SELECT 1 FROM main.idempotency_step WHERE record_id = ?1 AND name = '' AND fence = ?2;

-- name: endTrace
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1 AND s.name = '';

-- name: stepsOf
SELECT :now, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding,
	s.result, s.derived
FROM main.idempotency_step s WHERE s.record_id = ?1 ORDER BY s.started_at, s.name;

-- name: stepAt
SELECT :now, s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding,
	s.result, s.derived
FROM main.idempotency_step s WHERE s.record_id = ?1 AND s.name = ?2;

-- name: dropSteps
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1;

-- name: forgetSteps
DELETE FROM main.idempotency_step AS s WHERE s.record_id = ?1 AND EXISTS (
	SELECT 1 FROM main.idempotency_record r WHERE r.id = ?1 AND r.fence = ?2
		AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= :now
			AND NOT r.timed));
