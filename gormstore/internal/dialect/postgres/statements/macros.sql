-- Times are microseconds since 1970. A double is exact enough for them until the year 2106.

-- macro: now
-- When the server got the statement. It stays the same in the statement, also behind a wait.
CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)

-- macro: transaction_now
CAST(pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp()) * 1000000 AS bigint)

-- macro: taken
-- What the new attempt has to know.
RETURNING fence, attempts, created_at, :now, :server

-- macro: server_started
CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint)

-- macro: server
-- The backend, and when the server was started: NULL without a synchronous standby. See standby.go of package txn.
pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN :server_started END

-- macro: durably
-- True. A statement that is a transaction by itself says it where its COMMIT decides whether a command runs again: COMMIT is
-- then confirmed as if nobody had left synchronous_commit off on the connection.
CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END

-- macro: durable
-- COMMIT waits for the disk: nobody has left synchronous_commit off on the connection.
pg_catalog.current_setting('synchronous_commit') <> 'off'

-- macro: latest
greatest(:it)

-- macro: earliest
least(:it)

-- macro: must_one
-- Fails with 22012 where :it, which returns a time, has changed no row.
WITH one AS (:it) SELECT coalesce(pg_catalog.max(one.at), 0) / pg_catalog.count(*) FROM one

-- macro: try_lock
-- Takes the lock :it, if nobody holds it, until the end of the transaction.
pg_catalog.pg_try_advisory_xact_lock(:it)

-- macro: locked
-- lockClaim, in the same transaction, has got its lock.
pg_catalog.current_setting('idem.locked', true) = 'on'

-- macro: skip_locked
FOR UPDATE SKIP LOCKED

-- macro: for_update
FOR UPDATE

-- macro: this_database
-- Tells databases of all servers apart, copies of each other included: a running server by its start and its port, and the
-- database in it. It names no file, and needs no right.
SELECT CAST(:server_started AS text) || ' ' || pg_catalog.current_setting('port') || ' ' || d.oid::text
	FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()

-- macro: ids
-- One of those in the JSON array :it. By an array the index is used, however large the table is; a join might read all of it.
= ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text(:it::json) j(id)))

-- macro: pairs
-- Those in the JSON array :it, id and owner.
(SELECT pg_catalog.decode(j.pair->>0, 'hex') AS id, pg_catalog.decode(j.pair->>1, 'hex') AS owner
	FROM pg_catalog.json_array_elements(:it::json) j(pair))

-- macro: mark
-- Of a transaction: see mark.go of package txn. Who reads it guards the transaction, too; the text of :guards(:it) is never NULL.
pg_catalog.pg_backend_pid(), :transaction_now,
	CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN 'on'
		ELSE pg_catalog.current_setting('synchronous_commit') END,
	:guards(:it) IS NULL OR pg_catalog.current_setting('transaction_isolation') <> 'read committed'

-- macro: guards
-- They are set in each transaction: behind a pooler the server changes under the connection. $1 to $3 are their values in
-- milliseconds, the stricter ones of the library's and of the role's, see serverguard.go of package txn; $3 is NULL where the server cannot look
-- after its client. concat runs all that it is given; || may run nothing where one is NULL.
pg_catalog.concat(pg_catalog.set_config('idle_in_transaction_session_timeout', CAST($1::bigint AS text), true),
		pg_catalog.set_config('tcp_user_timeout', CAST($2::bigint AS text), true),
		CASE WHEN $3::bigint IS NOT NULL
			THEN pg_catalog.set_config('client_connection_check_interval', CAST($3::bigint AS text), true) END, :it)
