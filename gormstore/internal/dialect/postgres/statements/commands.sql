-- Commands that have come before, for routes in shadow and for commands that come again under another key. No claim depends
-- on them.

-- name: logCommand
-- Notes a key with its command, and says what had come before: whether the key is new, the version and hash of the command
-- that it came with first, and the latest key under which the same command had come. $1 id, $2 scope, $3 and $4 version and
-- hash of the command, $5 how long it is kept, $6 how long ago the same command counts, $7 whether the key is noted only if
-- the command is new.
--
-- It does not touch the row of a key that has come before. A key that is not new and has no first command was committed
-- after the statement's snapshot: ask again.
WITH c AS MATERIALIZED (
	SELECT :now AS now
), there AS MATERIALIZED (
	SELECT f.hash_version, f.command_hash, f.seen_at FROM :"schema".idempotency_sighting f
	WHERE f.id = $1::bytea AND f.purge_at > (SELECT c.now FROM c)
), earlier AS MATERIALIZED (
	SELECT (
		SELECT e.id FROM :"schema".idempotency_sighting e
		WHERE e.scope = $2::bytea AND e.command_hash = $4::bytea
			AND e.seen_at > (SELECT c.now FROM c) - $6::bigint
			AND e.id <> $1::bytea AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
		ORDER BY e.seen_at DESC LIMIT 1
	) AS id FROM c LEFT JOIN there t ON true
), held AS (
	SELECT 1 FROM earlier WHERE $7::boolean AND earlier.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM there)
), noted AS (
	INSERT INTO :"schema".idempotency_sighting AS s (id, scope, hash_version, command_hash, seen_at, purge_at)
	SELECT $1::bytea, $2::bytea, $3::smallint, $4::bytea, c.now, c.now + $5::bigint
	FROM c WHERE NOT EXISTS (SELECT 1 FROM there) AND NOT EXISTS (SELECT 1 FROM held)
	ON CONFLICT (id) DO UPDATE SET hash_version = excluded.hash_version, command_hash = excluded.command_hash,
		seen_at = excluded.seen_at, purge_at = excluded.purge_at
	WHERE s.purge_at <= excluded.seen_at
	RETURNING s.id
)
SELECT n.id IS NOT NULL OR EXISTS (SELECT 1 FROM held), t.hash_version, t.command_hash, e.id
FROM earlier e LEFT JOIN there t ON true LEFT JOIN noted n ON true;
