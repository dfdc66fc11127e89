-- The markers of processed messages: see gormstore/inbox. $1 consumer group, $2 source, $3 message id.

-- name: payloadHash
SELECT m.payload_hash FROM :"schema".processed_message m
WHERE m.consumer_group = $1::text AND m.source = $2::text AND m.message_id = $3::text;

-- name: loseMarker
-- Writes a marker for a message whose outcome is unknown, or changes its own, which was made at $7; $4 to $6 as in mark. A
-- later delivery's stays.
INSERT INTO :"schema".processed_message AS m
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT $1::text, $2::text, $3::text, $4::bytea, :now, $5::bigint, :latest(:now, coalesce($5::bigint, :now)) + $6::bigint
WHERE true
ON CONFLICT (consumer_group, source, message_id) DO UPDATE SET payload_hash = excluded.payload_hash
WHERE m.processed_at = $7::bigint;

-- name: forgetMessages
-- Drops at most $1 markers whose time was over at $4 or later, in the clock's window of $2 and $3.
DELETE FROM :"schema".processed_message AS m WHERE (m.consumer_group, m.source, m.message_id) IN (
	SELECT e.consumer_group, e.source, e.message_id FROM :"schema".processed_message e
	WHERE e.expires_at >= $4::bigint AND e.expires_at <= :now AND :now BETWEEN $2::bigint AND $3::bigint
	ORDER BY e.expires_at LIMIT $1 :skip_locked
)
RETURNING expires_at, consumer_group, source, published_at;

-- name: raiseFloor
-- Raises the floor of $1 and $2 to $3, and never lowers it.
INSERT INTO :"schema".processed_message_floor AS f (consumer_group, source, published_at) VALUES ($1, $2, $3)
ON CONFLICT (consumer_group, source) DO UPDATE SET published_at = excluded.published_at
WHERE f.published_at < excluded.published_at;
