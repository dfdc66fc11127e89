-- The steps of Resume attempts. $1 is the record's id.
--
-- Kinds: 1 database, 2 provider. States: 1 started, 2 finished.

-- name: putSteps
-- Records one step or two: $2 to $7 fence, name, kind, state, result and the keys that it derived; $8 to $13 those of the
-- second, whose name is NULL where there is none; $14 the encoding of results. The fence is that of the attempt that has started the step as this one has
-- read it, or its own where it has read none: where another attempt has started or finished such a step, it is not begun as a
-- new one (X-15). A step that was started before keeps its start, and one that has finished its result; it is not started
-- again. The record's statement in the same message proves that the attempt owns the record. It fails with 22012 where one of
-- them was not written, by a trigger too: COMMIT may be on its way already.
WITH put AS (
	INSERT INTO :"schema".idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived, encoding)
	SELECT $1::bytea, n.name, n.kind, n.state, n.fence, c.now + n.place,
		CASE WHEN n.state = 2 THEN c.now + n.place END, n.result, n.derived,
		CASE WHEN n.state = 2 THEN $14::smallint ELSE 1 END
	FROM (SELECT :now AS now) c, (VALUES
		(0, $2::bigint, $3::text, $4::smallint, $5::smallint, $6::bytea, $7::bytea),
		(1, $8::bigint, $9::text, $10::smallint, $11::smallint, $12::bytea, $13::bytea)) AS n (place, fence, name, kind, state, result, derived)
	WHERE n.name IS NOT NULL
	ON CONFLICT (record_id, name) DO UPDATE SET state = greatest(s.state, excluded.state),
		finished_at = CASE WHEN s.state = 2 THEN s.finished_at ELSE excluded.finished_at END,
		result = CASE WHEN s.state = 2 THEN s.result ELSE excluded.result END,
		derived = CASE WHEN s.state = 2 THEN s.derived ELSE excluded.derived END,
		encoding = CASE WHEN s.state = 2 THEN s.encoding ELSE excluded.encoding END
	WHERE s.kind = excluded.kind AND s.fence = excluded.fence AND (s.state < 2 OR excluded.state = 2)
	RETURNING s.name
)
SELECT 1 / CASE WHEN pg_catalog.count(*) = CASE WHEN $9::text IS NULL THEN 1 ELSE 2 END THEN 1 ELSE 0 END FROM put;
