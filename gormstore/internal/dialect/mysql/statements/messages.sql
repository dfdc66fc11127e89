-- The markers of processed messages, as in ../../statements/messages.sql and ../../postgres/statements/messages.sql, where the
-- statements are explained.

-- name: mark
-- Fails with 1062 where there is a marker. $7 and $8 the clock's window, $9 lock. The floor is read behind the INSERT, and as it
-- is now: the transaction may have seen an older one. Where the message is too old by it, the row says NULL, and the marker is
-- undone with its transaction.
INSERT INTO :"schema".processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT $1, $2, $3, $4, :now, $5, GREATEST(:now, COALESCE($5, :now)) + $6
FROM DUAL WHERE COALESCE($5, :now) + $6 > :now AND :now BETWEEN $7 AND $8 AND :slot_of($9);
SELECT IF(EXISTS (
	SELECT 1 FROM :"schema".processed_message_floor f
	WHERE f.consumer_group = $1 AND f.source = $2 AND f.published_at >= $5 LOCK IN SHARE MODE
), NULL, m.processed_at)
FROM :"schema".processed_message m
WHERE ROW_COUNT() = 1 AND m.consumer_group = $1 AND m.source = $2 AND m.message_id = $3;

-- name: payloadHash
-- As it is now: the transaction may have seen that there is none. One that another delivery is just writing is none.
SELECT m.payload_hash FROM :"schema".processed_message m
WHERE m.consumer_group = $1 AND m.source = $2 AND m.message_id = $3 LOCK IN SHARE MODE SKIP LOCKED;

-- name: loseMarker
INSERT INTO :"schema".processed_message (consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
VALUES ($1, $2, $3, $4, :now, $5, GREATEST(:now, COALESCE($5, :now)) + $6)
ON DUPLICATE KEY UPDATE payload_hash = IF(processed_at = $7, VALUES(payload_hash), payload_hash);

-- name: forgetMessages
DELETE FROM :"schema".processed_message
WHERE expires_at >= $4 AND expires_at <= :now AND :now BETWEEN $2 AND $3 ORDER BY expires_at LIMIT $1
RETURNING expires_at, consumer_group, source, published_at;

-- name: raiseFloor
INSERT INTO :"schema".processed_message_floor (consumer_group, source, published_at) VALUES ($1, $2, $3)
ON DUPLICATE KEY UPDATE published_at = GREATEST(published_at, VALUES(published_at));
