-- What an attempt writes to its record. $1 is the record's id. Unless a comment says otherwise $2 and $3 are the owner and
-- the fence: they prove that the attempt still owns the record. Times are in microseconds.

-- name: complete
-- It does not ask whether the lease has run out, nor whether the record counts as unknown: an owner that wakes late and
-- unsettled may still complete. The record has no deadline where COMMIT would not wait for the disk: that is refused.
UPDATE :"schema".idempotency_record AS r SET :answered, deadline_at = CASE WHEN :durable THEN r.deadline_at END
WHERE :owned AND r.state IN (1, 3)
RETURNING :server;

-- name: begun
-- The first statement of a segment's or a message's transaction: it guards the transaction, and returns its mark. $4 is a lock
-- that it then waits for, or NULL.
SELECT :mark(CASE WHEN $4::bigint IS NOT NULL THEN CAST(pg_catalog.pg_advisory_xact_lock($4::bigint) AS text) END);

-- name: askForCheck
-- Fails where the server cannot look after its client.
SELECT pg_catalog.set_config('client_connection_check_interval', '500', true);

-- name: readGuards
-- The guards that the role, or the connection, has itself, in milliseconds; 0: none.
SELECT coalesce(pg_catalog.max(s.setting) FILTER (WHERE s.name = 'idle_in_transaction_session_timeout'), '0')::bigint,
	coalesce(pg_catalog.max(s.setting) FILTER (WHERE s.name = 'tcp_user_timeout'), '0')::bigint,
	coalesce(pg_catalog.max(s.setting) FILTER (WHERE s.name = 'client_connection_check_interval'), '0')::bigint
FROM pg_catalog.pg_settings s;

-- name: asBegun
-- Fails with 22P02 unless this is the transaction that was begun, and makes it commit as it would have at its begin: $1 to $3
-- are its mark. A session that asks for errors alone would not hear that a COMMIT has stopped to wait for its standby.
SELECT CAST(CASE WHEN pg_catalog.pg_backend_pid() = $1::integer AND :transaction_now = $2::bigint
		AND (pg_catalog.current_setting('synchronous_commit') = $3::text
			OR pg_catalog.set_config('synchronous_commit', $3::text, true) <> '')
		AND (pg_catalog.current_setting('client_min_messages') <> 'error'
			OR pg_catalog.set_config('client_min_messages', 'warning', true) <> '')
	THEN '1' ELSE 'not ours' END AS integer);

-- name: readSettings
-- The settings that the library's last statement depends on, before a handler changes them.
SELECT session_user::pg_catalog.text, pg_catalog.current_setting('role'), pg_catalog.current_setting('search_path'),
	pg_catalog.current_setting('DateStyle'), pg_catalog.current_setting('client_encoding');

-- name: setSettings
-- Takes back what a handler has changed: $1 the session's user, which takes the role back too, $2 role, $3 search path,
-- $4 the style of dates, in which a driver may get them as text.
SELECT pg_catalog.set_config('session_authorization', $1::text, true), pg_catalog.set_config('role', $2::text, true),
	pg_catalog.set_config('search_path', $3::text, true), pg_catalog.set_config('DateStyle', $4::text, true);

-- name: fenceOff
-- A COMMIT that was to write a record is read back like this (X-4): it waits for what holds the row, and changes nothing where
-- the attempt's record, or another one's, is there. Else the message may still be under way to the server: its insert finds a
-- free record, and what takes a free one finds another fence. $2 owner, $3 how long the row stays, $4 and $5 stand for the hashes,
-- which a free record does not need, $6 the fence of the free record that the attempt saw, 0 for none, $7 its own fence.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT $1::bytea, $4::bytea, $2::bytea, $7::bigint, 5, 3, '', '', 1, $4::bytea, c.now, c.now, c.now,
	c.now + $3::bigint, $5::bytea, c.now + $3::bigint
FROM (SELECT :now AS now) c WHERE true
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1, state = 5, headers = NULL, body = NULL,
	purge_at = excluded.purge_at, due_at = excluded.due_at
WHERE r.fence = $6::bigint AND (:free);

-- name: lockRecord
-- Waits for what holds the record.
SELECT 1 FROM :"schema".idempotency_record r WHERE r.id = $1 FOR UPDATE;

-- name: confirm
-- Returns when the synchronous standby, if there is one, has everything that can be seen on this server: COMMIT waits for a
-- message without text, and for everything before it. It changes nothing and asks for no right. $1 is when the server was
-- started that was read from, or NULL: on another server it does nothing, and is false. Behind it is the backend.
SELECT CASE WHEN :server_started <> $1::bigint THEN false
	WHEN pg_catalog.current_setting('synchronous_standby_names', true) = '' THEN true
	ELSE :durably AND pg_catalog.pg_logical_emit_message(true, 'idem', '') IS NOT NULL END,
	pg_catalog.pg_backend_pid();

-- name: atStandby
-- Says whether a backend waits for the synchronous standby: the one with the process $1, or the one that writes the record
-- $2, whose old version names the transaction.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity a WHERE a.wait_event = 'SyncRep'
	AND (a.pid = $1::bigint OR a.backend_xid = (SELECT r.xmax FROM :"schema".idempotency_record r WHERE r.id = $2)));
