-- The journal of an app that calls others, as in ../../statements/intents.sql, where the statements are explained.

-- name: beginIntent
-- What a condition reads is set last.
INSERT INTO :"schema".idempotency_intent (intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by)
SELECT $1, $2, $3, $4, :now, IF($3 IS NOT NULL, :now, NULL), $5
FROM DUAL WHERE :now BETWEEN $6 AND $7
ON DUPLICATE KEY UPDATE
	begun_by = CASE
		WHEN VALUES(begun_by) IS NULL
			OR VALUES(hash_version) IS NULL AND VALUES(idempotency_key) <> idempotency_intent.idempotency_key THEN idempotency_intent.begun_by
		WHEN idempotency_intent.begun_by IS NULL OR idempotency_intent.begun_by = VALUES(begun_by) THEN VALUES(begun_by)
		ELSE '' END,
	hash_version = COALESCE(idempotency_intent.hash_version, VALUES(hash_version)),
	command_hash = COALESCE(idempotency_intent.command_hash, VALUES(command_hash)),
	begun_at = COALESCE(idempotency_intent.begun_at, VALUES(begun_at));
SELECT :intent, :server FROM :"schema".idempotency_intent WHERE intent = $1 AND :now BETWEEN $6 AND $7;

-- name: planIntent
INSERT INTO :"schema".idempotency_intent (intent, idempotency_key, planned_at)
SELECT $2, $3, :now FROM DUAL WHERE $1 = (:this_database)
ON DUPLICATE KEY UPDATE intent = idempotency_intent.intent;

-- name: forgetIntents
DELETE FROM :"schema".idempotency_intent
WHERE ended_at >= $4 AND ended_at <= :now - $5 AND :now BETWEEN $2 AND $3 ORDER BY ended_at LIMIT $1 RETURNING ended_at;
