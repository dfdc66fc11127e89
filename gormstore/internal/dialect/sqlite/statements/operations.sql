-- Reading, settling and sweeping records, as in ../../postgres/statements/operations.sql, where the statements are explained. There is no
-- backend to be named, nor another writer whose rows are to be skipped.

-- name: lastSettled
SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM main.idempotency_settlement s CROSS JOIN main.idempotency_record r ON r.id = s.record_id
WHERE substr(r.realm, 1, length(?1)) = ?1 AND (?2 = '' OR s.settled_by = ?2)
ORDER BY s.settled_at DESC LIMIT ?3;
