-- The steps of Resume attempts, as in ../../postgres/statements/steps.sql, where the statements are explained.

-- name: putSteps
INSERT INTO main.idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived, encoding)
SELECT ?1, n.name, n.kind, n.state, n.fence, c.now + n.place, CASE WHEN n.state = 2 THEN c.now + n.place END, n.result, n.derived,
	CASE WHEN n.state = 2 THEN ?14 ELSE 1 END
FROM (SELECT :now AS now) c,
	(SELECT 0 AS place, ?2 AS fence, ?3 AS name, ?4 AS kind, ?5 AS state, ?6 AS result, ?7 AS derived
		UNION ALL SELECT 1, ?8, ?9, ?10, ?11, ?12, ?13) AS n
WHERE n.name IS NOT NULL
ON CONFLICT (record_id, name) DO UPDATE SET state = max(s.state, excluded.state),
	finished_at = CASE WHEN s.state = 2 THEN s.finished_at ELSE excluded.finished_at END,
	result = CASE WHEN s.state = 2 THEN s.result ELSE excluded.result END,
	derived = CASE WHEN s.state = 2 THEN s.derived ELSE excluded.derived END,
	encoding = CASE WHEN s.state = 2 THEN s.encoding ELSE excluded.encoding END
WHERE s.kind = excluded.kind AND s.fence = excluded.fence AND (s.state < 2 OR excluded.state = 2);
