-- Reading, settling and sweeping records, and the settings of all instances.

-- name: withoutJIT
-- Nothing is compiled for the rest of the transaction. PostgreSQL compiles the plan of a large table's list by its estimated
-- cost; running it takes less. And what is read in the order of an index is not gathered and sorted first, which PostgreSQL does
-- where it takes a value that is everywhere for a rare one.
SELECT pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('enable_sort', 'off', true);

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
