-- The markers of processed messages, as in ../../statements/messages.sql, where the statements are explained.

-- name: forgetMessages
DELETE FROM :"schema".processed_message
WHERE expires_at >= $4 AND expires_at <= :now AND :now BETWEEN $2 AND $3 ORDER BY expires_at LIMIT $1
RETURNING expires_at, consumer_group, source, published_at;

-- name: raiseFloor
INSERT INTO :"schema".processed_message_floor (consumer_group, source, published_at) VALUES ($1, $2, $3)
ON DUPLICATE KEY UPDATE published_at = GREATEST(published_at, VALUES(published_at));
