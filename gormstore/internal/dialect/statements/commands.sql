-- Commands that have come before, for routes in shadow and for commands that come again under another key. No claim depends
-- on them. How one is noted is in the files of the databases.

-- name: forgetCommands
-- Drops at most $1 whose time was over at $4 or later, in the clock's window of $2 and $3.
DELETE FROM :"schema".idempotency_sighting AS s WHERE s.id IN (
	SELECT e.id FROM :"schema".idempotency_sighting e
	WHERE e.purge_at >= $4::bigint AND e.purge_at <= :now AND :now BETWEEN $2::bigint AND $3::bigint
	ORDER BY e.purge_at LIMIT $1 :skip_locked
)
RETURNING purge_at;
