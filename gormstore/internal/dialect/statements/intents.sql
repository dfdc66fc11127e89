-- The journal of an app that calls others: see gormstore/journal. $1 is the intent's name, unless a comment says
-- otherwise.

-- name: beginIntent
-- Makes an entry, or notes the command of one that was planned; what is there is not changed. $2 key, $3 and $4 version and
-- hash of the command (NULL: none yet), $5 who begins (NULL: only asks). begun_by is empty once several have begun. Outside
-- of the clock's window of $6 and $7 it does nothing and returns no row: how old the intent is could never be known. The entry is
-- planned at no time where COMMIT would not wait for the disk: that is refused.
INSERT INTO :"schema".idempotency_intent AS i
	(intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by)
SELECT $1::text, $2::text, $3::smallint, $4::bytea, CASE WHEN :durable THEN :now END,
	CASE WHEN $3::smallint IS NOT NULL THEN :now END, $5::bytea
WHERE :now BETWEEN $6::bigint AND $7::bigint
ON CONFLICT (intent) DO UPDATE SET
	hash_version = coalesce(i.hash_version, excluded.hash_version),
	command_hash = coalesce(i.command_hash, excluded.command_hash),
	begun_at = coalesce(i.begun_at, excluded.begun_at),
	begun_by = CASE
		WHEN excluded.begun_by IS NULL OR excluded.hash_version IS NULL AND excluded.idempotency_key <> i.idempotency_key THEN i.begun_by
		WHEN i.begun_by IS NULL OR i.begun_by = excluded.begun_by THEN excluded.begun_by
		ELSE ''::bytea END
RETURNING :intent, :server;

-- name: findIntent
SELECT :intent FROM :"schema".idempotency_intent i WHERE i.intent = $1::text;

-- name: endIntent
-- Ends an intent, in the clock's window of $2 and $3: by a clock that is behind, the next sweep would drop it. An end is never
-- before the begin.
UPDATE :"schema".idempotency_intent AS i SET ended_at = :latest(:now, i.planned_at, coalesce(i.begun_at, 0))
WHERE i.intent = $1::text AND i.ended_at IS NULL AND :now BETWEEN $2::bigint AND $3::bigint;

-- name: pendingIntents
-- A page of at most $2 intents behind the one that is named $1.
SELECT :intent FROM :"schema".idempotency_intent i
WHERE i.ended_at IS NULL AND i.intent > $1::text ORDER BY i.intent LIMIT $2;

-- name: forgetIntents
-- Drops at most $1 intents that ended at $4 or later and longer than $5 ago, in the clock's window of $2 and $3.
DELETE FROM :"schema".idempotency_intent AS i WHERE i.intent IN (
	SELECT e.intent FROM :"schema".idempotency_intent e
	WHERE e.ended_at >= $4::bigint AND e.ended_at <= :now - $5::bigint AND :now BETWEEN $2::bigint AND $3::bigint
	ORDER BY e.ended_at LIMIT $1 :skip_locked
)
RETURNING ended_at;

-- name: whichDatabase
:this_database;

-- name: planIntent
-- $2 intent, $3 key. It changes nothing in another database than $1: see whichDatabase.
INSERT INTO :"schema".idempotency_intent (intent, idempotency_key, planned_at)
SELECT $2::text, $3::text, :now WHERE $1::text = (:this_database)
ON CONFLICT (intent) DO NOTHING;

-- name: doneIntent
-- endIntent for $2, in the clock's window of $3 and $4. It changes nothing in another database than $1: see whichDatabase.
UPDATE :"schema".idempotency_intent AS i SET ended_at = :latest(:now, i.planned_at, coalesce(i.begun_at, 0))
WHERE $1::text = (:this_database) AND i.intent = $2::text AND i.ended_at IS NULL
	AND :now BETWEEN $3::bigint AND $4::bigint;
