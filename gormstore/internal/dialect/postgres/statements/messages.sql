-- The markers of processed messages: see gormstore/inbox. $1 consumer group, $2 source, $3 message id.

-- name: mark
-- Looks for a marker, and makes one where there is none: $4 hash of the payload, $5 when the message was published in
-- microseconds since 1970 (or NULL), $6 how long the marker lives, $7 and $8 the clock's window. The primary key decides; the
-- lock of lockClaim only lets a second delivery go at once. Outside of the window nothing is marked or too old: a marker
-- would be dropped before its time, or a floor rise for good.
--
-- A message is too old if it was published longer ago than a marker lives: a marker may have been there, and be gone. A
-- message at or below the floor is too old as well: markers have gone there and messages have been refused, and a release
-- whose markers live longer does not make them fresh again. A marker's life begins at the later of the two clocks, so that a
-- publisher whose clock is ahead cannot outlive it.
--
-- The row that comes back is: lock (NULL: there is a marker), when the marker was made (NULL: it was not), too old, inside the window,
-- the payload's hash of the marker that was there, and when the server was started (NULL without such a marker or without a
-- synchronous standby). With the lock, a message that is fresh, and a marker neither made nor visible, the marker was committed
-- after the statement's snapshot: ask again.
WITH there AS MATERIALIZED (
	SELECT m.payload_hash FROM :"schema".processed_message m
	WHERE m.consumer_group = $1::text AND m.source = $2::text AND m.message_id = $3::text
), c AS MATERIALIZED (
	SELECT :now AS now,
		CASE WHEN NOT EXISTS (SELECT 1 FROM there) THEN :locked END AS lock
), message AS MATERIALIZED (
	SELECT c.now, c.lock, $5::bigint AS published,
		$6::bigint AS keep,
		coalesce($5::bigint, c.now)
			+ $6::bigint <= c.now
		OR EXISTS (SELECT 1 FROM :"schema".processed_message_floor f WHERE f.consumer_group = $1::text
			AND f.source = $2::text AND f.published_at >= $5::bigint) AS too_old,
		c.now >= $7::bigint
			AND c.now <= $8::bigint AS trusted
	FROM c
), won AS (
	INSERT INTO :"schema".processed_message
		(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
	SELECT $1::text, $2::text, $3::text, $4::bytea, m.now, m.published, greatest(m.now, m.published) + m.keep
	FROM message m WHERE m.lock AND NOT m.too_old AND m.trusted
	ON CONFLICT (consumer_group, source, message_id) DO NOTHING RETURNING processed_at
)
SELECT m.lock, won.processed_at, m.too_old, m.trusted, there.payload_hash,
	CASE WHEN there.payload_hash IS NOT NULL AND pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN :server_started END
FROM message m LEFT JOIN won ON true LEFT JOIN there ON true;
