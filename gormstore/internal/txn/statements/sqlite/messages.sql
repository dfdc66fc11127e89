-- The markers of processed messages, as in ../postgres/messages.sql, where the statements are explained.

-- name: mark
INSERT INTO main.processed_message
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT ?1, ?2, ?3, ?4, c.now, ?5, max(c.now, coalesce(?5, c.now)) + ?6
FROM (SELECT :now AS now) c
WHERE coalesce(?5, c.now) + ?6 > c.now AND c.now >= ?7 AND c.now <= ?8 AND NOT EXISTS (
	SELECT 1 FROM main.processed_message_floor f WHERE f.consumer_group = ?1 AND f.source = ?2 AND f.published_at >= ?5
)
ON CONFLICT (consumer_group, source, message_id) DO NOTHING RETURNING processed_at;

-- name: payloadHash
SELECT m.payload_hash FROM main.processed_message m
WHERE m.consumer_group = ?1 AND m.source = ?2 AND m.message_id = ?3;

-- name: loseMarker
INSERT INTO main.processed_message AS m
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT ?1, ?2, ?3, ?4, c.now, ?5, max(c.now, coalesce(?5, c.now)) + ?6
FROM (SELECT :now AS now) c
WHERE true
ON CONFLICT (consumer_group, source, message_id) DO UPDATE SET payload_hash = excluded.payload_hash
WHERE m.processed_at = ?7;

-- name: forgetMessages
DELETE FROM main.processed_message AS m WHERE (m.consumer_group, m.source, m.message_id) IN (
	SELECT e.consumer_group, e.source, e.message_id
	FROM main.processed_message e
	WHERE e.expires_at <= :now
		AND :now >= ?2
		AND :now <= ?3
	ORDER BY e.expires_at LIMIT ?1
)
RETURNING consumer_group, source, published_at;

-- name: raiseFloor
INSERT INTO main.processed_message_floor AS f (consumer_group, source, published_at) VALUES (?1, ?2, ?3)
ON CONFLICT (consumer_group, source) DO UPDATE SET published_at = excluded.published_at
WHERE f.published_at < excluded.published_at;
