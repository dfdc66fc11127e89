-- Reading, settling and sweeping records, and the settings of all instances.

-- name: clock
SELECT pg_catalog.clock_timestamp();

-- name: find
-- $1 id.
SELECT pg_catalog.clock_timestamp(),
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN pg_catalog.pg_postmaster_start_time() END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding, r.headers,
	r.body, r.attempts, r.timed
FROM :"schema".idempotency_record r WHERE r.id = $1;

-- name: list
-- A page of at most $1 records whose realm begins with $2, behind the record that was created at $3 with the id $4. $5 says
-- which: those whose state is unknown by now, swept or not; Resume attempts that nobody runs any more; of these, the ones
-- past their deadline. A running Rollback record can be seen only by its own attempt, unless the handler has committed it.
SELECT pg_catalog.clock_timestamp(),
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN pg_catalog.pg_postmaster_start_time() END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding, r.headers,
	r.body, r.attempts, r.timed
FROM :"schema".idempotency_record r
WHERE r.state IN (1, 3) AND (r.created_at, r.id) > ($3::timestamptz, $4::bytea)
	AND substr(r.realm, 1, length($2::bytea)) = $2::bytea
	AND CASE $5::text
		WHEN 'unknown' THEN
			r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= pg_catalog.clock_timestamp())
		WHEN 'resumable' THEN
			r.state = 1 AND r.recovery = 2 AND r.lease_until <= pg_catalog.clock_timestamp()
		WHEN 'half done' THEN
			r.state = 1 AND r.recovery = 2 AND r.lease_until <= pg_catalog.clock_timestamp()
				AND r.deadline_at <= pg_catalog.clock_timestamp()
		END
ORDER BY r.created_at, r.id LIMIT $1;

-- name: countOpen
-- Counts up to $2 open records of the principal $1. A Resume attempt past its deadline is not open.
SELECT count(*) FROM (
	SELECT 1 FROM :"schema".idempotency_record r WHERE r.scope = $1 AND r.state IN (1, 3)
		AND NOT (r.state = 1 AND r.recovery = 2 AND r.lease_until <= pg_catalog.clock_timestamp()
			AND r.deadline_at <= pg_catalog.clock_timestamp())
	LIMIT $2
) o;

-- name: settle
-- Ends an operation whose state is unknown, after its lease and deadline: $1 id, $2 the fence that was seen, $3 state, $4
-- status, $5 headers, $6 body, $7 retention, $8 retention and tombstone, $9 and $10 the clock's window.
UPDATE :"schema".idempotency_record AS r SET state = $3::smallint, fence = r.fence + 1, status = $4::smallint,
	partial = false, headers = $5::bytea, body = $6::bytea, expires_at = c.now + $7::bigint * interval '1 microsecond',
	purge_at = c.now + $8::bigint * interval '1 microsecond'
FROM (SELECT pg_catalog.clock_timestamp() AS now) c
WHERE r.id = $1 AND r.fence = $2
	AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= pg_catalog.clock_timestamp()))
	AND r.lease_until <= pg_catalog.clock_timestamp() AND r.deadline_at <= pg_catalog.clock_timestamp()
	AND c.now >= timestamptz 'epoch' + $9::bigint * interval '1 microsecond'
	AND c.now <= timestamptz 'epoch' + $10::bigint * interval '1 microsecond'
	AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

-- name: appendSettlement
INSERT INTO :"schema".idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES ($1, pg_catalog.clock_timestamp(), $2, $3, $4, $5, $6, $7, $8, $9);

-- name: bury
-- Turns at most $1 completed records past retention into tombstones. $2 and $3 are the clock's window: by a clock that shows
-- another time nothing is dropped. It returns the records, and whether they may have steps, which are to go too.
UPDATE :"schema".idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false
WHERE r.id IN (
	SELECT e.id FROM :"schema".idempotency_record e
	WHERE e.state = 2 AND e.expires_at <= pg_catalog.clock_timestamp()
		AND pg_catalog.clock_timestamp() >= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
		AND pg_catalog.clock_timestamp() <= timestamptz 'epoch' + $3::bigint * interval '1 microsecond'
	ORDER BY e.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
RETURNING id, recovery = 2, NULL, NULL;

-- name: drop
-- Drops tombstones and free records whose time is over, as bury does. It returns realm and route of the records of timed
-- keys that were used: their floors have to rise in the same transaction.
DELETE FROM :"schema".idempotency_record AS r
WHERE r.id IN (
	SELECT e.id FROM :"schema".idempotency_record e
	WHERE e.state IN (4, 5) AND e.purge_at <= pg_catalog.clock_timestamp()
		AND pg_catalog.clock_timestamp() >= timestamptz 'epoch' + $2::bigint * interval '1 microsecond'
		AND pg_catalog.clock_timestamp() <= timestamptz 'epoch' + $3::bigint * interval '1 microsecond'
	ORDER BY e.purge_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
RETURNING id, recovery = 2, CASE WHEN timed AND state <> 5 THEN realm END, method || ' ' || route;

-- name: setting
SELECT s.value FROM :"schema".idempotency_setting s WHERE s.name = $1;

-- name: keepSetting
INSERT INTO :"schema".idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: keepFirstScoping
-- Does nothing where there is a setting whose name is like $3.
INSERT INTO :"schema".idempotency_setting AS s (name, value)
SELECT $1::text, $2::text
WHERE NOT EXISTS (SELECT 1 FROM :"schema".idempotency_setting o WHERE o.name LIKE $3::text)
ON CONFLICT (name) DO NOTHING;
