-- The markers of processed messages, as in ../../postgres/statements/messages.sql, where the statements are explained.

-- name: mark
INSERT INTO main.processed_message
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT ?1, ?2, ?3, ?4, c.now, ?5, max(c.now, coalesce(?5, c.now)) + ?6
FROM (SELECT :now AS now) c
WHERE coalesce(?5, c.now) + ?6 > c.now AND c.now >= ?7 AND c.now <= ?8 AND NOT EXISTS (
	SELECT 1 FROM main.processed_message_floor f WHERE f.consumer_group = ?1 AND f.source = ?2 AND f.published_at >= ?5
)
ON CONFLICT (consumer_group, source, message_id) DO NOTHING RETURNING processed_at;
