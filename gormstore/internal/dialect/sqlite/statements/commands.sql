-- Commands that have come before, as in ../../postgres/statements/commands.sql, where the statements are explained. What is noted is a
-- statement of its own: there is one writer, and so the two are one step.

-- name: logCommand
WITH c AS MATERIALIZED (
	SELECT :now AS now
), there AS MATERIALIZED (
	SELECT f.hash_version, f.command_hash, f.seen_at FROM main.idempotency_sighting f
	WHERE f.id = ?1 AND f.purge_at > (SELECT c.now FROM c)
)
SELECT t.hash_version IS NULL, t.hash_version, t.command_hash, (
	SELECT e.id FROM main.idempotency_sighting e
	WHERE e.scope = ?2 AND e.command_hash = ?4 AND e.seen_at > (SELECT c.now FROM c) - ?6
		AND e.id <> ?1 AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
	ORDER BY e.seen_at DESC LIMIT 1
)
FROM c LEFT JOIN there t ON true;

-- name: insertCommand
INSERT INTO main.idempotency_sighting AS s (id, scope, hash_version, command_hash, seen_at, purge_at)
SELECT ?1, ?2, ?3, ?4, c.now, c.now + ?5
FROM (SELECT :now AS now) c
WHERE true
ON CONFLICT (id) DO UPDATE SET hash_version = excluded.hash_version, command_hash = excluded.command_hash,
	seen_at = excluded.seen_at, purge_at = excluded.purge_at
WHERE s.purge_at <= excluded.seen_at;
