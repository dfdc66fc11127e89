-- Commands that have come before, as in ../../postgres/statements/commands.sql, where the statements are explained.

-- name: logCommand
-- A row whose time is over stands for one that is not there: whoever has written it first holds it, and others wait.
INSERT INTO :"schema".idempotency_sighting (id, scope, hash_version, command_hash, seen_at, purge_at)
VALUES ($1, $2, $3, $4, 0, 0) ON DUPLICATE KEY UPDATE id = VALUES(id);
SELECT t.hash_version IS NULL, t.hash_version, t.command_hash, (
	SELECT e.id FROM :"schema".idempotency_sighting e
	WHERE e.scope = $2 AND e.command_hash = $4 AND e.seen_at > :now - $6
		AND e.id <> $1 AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
	ORDER BY e.seen_at DESC LIMIT 1
)
FROM (SELECT 1) AS one LEFT JOIN :"schema".idempotency_sighting t ON t.id = $1 AND t.purge_at > :now;

-- name: insertCommand
INSERT INTO :"schema".idempotency_sighting (id, scope, hash_version, command_hash, seen_at, purge_at)
VALUES ($1, $2, $3, $4, :now, :now + $5)
ON DUPLICATE KEY UPDATE hash_version = IF(purge_at <= VALUES(seen_at), VALUES(hash_version), hash_version),
	command_hash = IF(purge_at <= VALUES(seen_at), VALUES(command_hash), command_hash),
	seen_at = IF(purge_at <= VALUES(seen_at), VALUES(seen_at), seen_at),
	purge_at = IF(purge_at <= VALUES(seen_at), VALUES(purge_at), purge_at);

-- name: forgetCommands
DELETE FROM :"schema".idempotency_sighting
WHERE purge_at >= $4 AND purge_at <= :now AND :now BETWEEN $2 AND $3 ORDER BY purge_at LIMIT $1 RETURNING purge_at;
