-- The journal of an app that calls others, as in ../postgres/intents.sql, where the statements are explained.

-- name: beginIntent
INSERT INTO main.idempotency_intent AS i
	(intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by)
SELECT ?1, ?2, ?3, ?4, c.now, CASE WHEN ?3 IS NOT NULL THEN c.now END, ?5
FROM (SELECT :now AS now) c
WHERE c.now >= ?6 AND c.now <= ?7
ON CONFLICT (intent) DO UPDATE SET
	hash_version = coalesce(i.hash_version, excluded.hash_version),
	command_hash = coalesce(i.command_hash, excluded.command_hash),
	begun_at = coalesce(i.begun_at, excluded.begun_at),
	begun_by = CASE
		WHEN excluded.begun_by IS NULL OR excluded.hash_version IS NULL AND excluded.idempotency_key <> i.idempotency_key THEN i.begun_by
		WHEN i.begun_by IS NULL OR i.begun_by = excluded.begun_by THEN excluded.begun_by
		ELSE X'' END
RETURNING intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL,
	:now;

-- name: findIntent
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL,
	:now
FROM main.idempotency_intent i WHERE i.intent = ?1;

-- name: endIntent
UPDATE main.idempotency_intent AS i SET ended_at = max(c.now, i.planned_at, coalesce(i.begun_at, 0))
FROM (SELECT :now AS now) c
WHERE i.intent = ?1 AND i.ended_at IS NULL AND c.now >= ?2 AND c.now <= ?3;

-- name: pendingIntents
SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL,
	:now
FROM main.idempotency_intent i
WHERE i.ended_at IS NULL AND i.intent > ?1 ORDER BY i.intent LIMIT ?2;

-- name: forgetIntents
DELETE FROM main.idempotency_intent AS i WHERE i.intent IN (
	SELECT e.intent FROM main.idempotency_intent e
	WHERE e.ended_at <= :now - ?4
		AND :now >= ?2
		AND :now <= ?3
	ORDER BY e.ended_at LIMIT ?1
);

-- name: whichDatabase
-- The path of the file; empty for a database in memory.
SELECT file FROM pragma_database_list WHERE name = 'main';

-- name: planIntent
INSERT INTO main.idempotency_intent (intent, idempotency_key, planned_at)
SELECT ?2, ?3, :now
WHERE ?1 = (SELECT file FROM pragma_database_list WHERE name = 'main')
ON CONFLICT (intent) DO NOTHING;

-- name: doneIntent
UPDATE main.idempotency_intent AS i SET ended_at = max(c.now, i.planned_at, coalesce(i.begun_at, 0))
FROM (SELECT :now AS now) c
WHERE ?1 = (SELECT file FROM pragma_database_list WHERE name = 'main') AND i.intent = ?2 AND i.ended_at IS NULL
	AND c.now >= ?3 AND c.now <= ?4;
