-- What an attempt writes to its record. $1 is the record's id. Unless a comment says otherwise $2 and $3 are the owner and
-- the fence: they prove that the attempt still owns the record. Times are in microseconds.

-- name: renew
-- $4 lease.
UPDATE :"schema".idempotency_record AS r SET lease_until = CASE
	WHEN c.now + $4::bigint * interval '1 microsecond' < r.deadline_at THEN c.now + $4::bigint * interval '1 microsecond'
	ELSE r.deadline_at END
FROM (SELECT pg_catalog.clock_timestamp() AS now) c
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;

-- name: complete
-- $4 status, $5 partial, $6 headers, $7 body, $8 retention, $9 retention and tombstone. It does not ask whether the lease
-- has run out, nor whether the record counts as unknown: an owner that wakes late and unsettled may still complete.
--
-- The sweep looks at the record when the claim has said, if that is not before the end of retention, and at most 5/4 of the
-- retention after the claim. Then no indexed column changes, and the UPDATE is HOT. Otherwise, and where the record was
-- listed as open, the sweep looks at it at the end of retention.
--
-- statement_timestamp() is when the server got this statement. Unlike clock_timestamp() it stays the same in the statement,
-- so that PostgreSQL puts it in the place of c.now, and has nothing to join.
UPDATE :"schema".idempotency_record AS r SET state = 2, status = $4::smallint, partial = $5::boolean, headers = $6::bytea,
	body = $7::bytea, expires_at = greatest(c.now, r.created_at) + $8::bigint * interval '1 microsecond',
	purge_at = greatest(c.now, r.created_at) + $9::bigint * interval '1 microsecond',
	sweep_after = CASE WHEN r.sweep_after <= $8::bigint / 800000
			AND greatest(c.now, r.created_at) <= r.sweep_from + (r.sweep_after * 1000000::bigint - $8::bigint) * interval '1 microsecond'
		THEN r.sweep_after ELSE 0 END,
	sweep_from = CASE WHEN r.sweep_after <= $8::bigint / 800000
			AND greatest(c.now, r.created_at) <= r.sweep_from + (r.sweep_after * 1000000::bigint - $8::bigint) * interval '1 microsecond'
		THEN r.sweep_from ELSE greatest(c.now, r.created_at) + $8::bigint * interval '1 microsecond' END
FROM (SELECT pg_catalog.statement_timestamp() AS now) c
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3)
	AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

-- name: completeAsBegun
-- complete in the transaction of a Rollback attempt, which then commits as it would have at its begin. In another
-- transaction it changes nothing. Where it changes nothing it divides by zero: COMMIT may be on its way already.
WITH recorded AS (
UPDATE :"schema".idempotency_record AS r SET state = 2, status = $4::smallint, partial = $5::boolean, headers = $6::bytea,
	body = $7::bytea, expires_at = greatest(c.now, r.created_at) + $8::bigint * interval '1 microsecond',
	purge_at = greatest(c.now, r.created_at) + $9::bigint * interval '1 microsecond',
	sweep_after = CASE WHEN r.sweep_after <= $8::bigint / 800000
			AND greatest(c.now, r.created_at) <= r.sweep_from + (r.sweep_after * 1000000::bigint - $8::bigint) * interval '1 microsecond'
		THEN r.sweep_after ELSE 0 END,
	sweep_from = CASE WHEN r.sweep_after <= $8::bigint / 800000
			AND greatest(c.now, r.created_at) <= r.sweep_from + (r.sweep_after * 1000000::bigint - $8::bigint) * interval '1 microsecond'
		THEN r.sweep_from ELSE greatest(c.now, r.created_at) + $8::bigint * interval '1 microsecond' END
FROM (SELECT pg_catalog.statement_timestamp() AS now) c
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3)
	AND CASE WHEN coalesce(pg_catalog.current_setting('idem.synchronous_commit', true), '') <> ''
		THEN pg_catalog.set_config('synchronous_commit', pg_catalog.current_setting('idem.synchronous_commit'), true) <> ''
		ELSE false END
RETURNING r.id
)
SELECT 1 / pg_catalog.count(*) FROM recorded;

-- name: asBegun
-- Says whether this is the transaction that was begun, and makes it commit as it would have at its begin.
SELECT CASE WHEN coalesce(pg_catalog.current_setting('idem.synchronous_commit', true), '') <> ''
	THEN pg_catalog.set_config('synchronous_commit', pg_catalog.current_setting('idem.synchronous_commit'), true) <> ''
	ELSE false END;

-- name: rollbackOurs
-- Divides by zero, and rolls nothing back, unless this is the transaction that was begun.
SELECT 1 / (coalesce(pg_catalog.current_setting('idem.synchronous_commit', true), '') <> '')::int; ROLLBACK;

-- name: readSettings
-- The settings that the library's last statement depends on, before a handler changes them.
SELECT session_user::pg_catalog.text, pg_catalog.current_setting('role'), pg_catalog.current_setting('search_path');

-- name: setSettings
-- Takes back what a handler has changed: $1 the session's user, which takes the role back too, $2 role, $3 search path.
SELECT pg_catalog.set_config('session_authorization', $1::text, true), pg_catalog.set_config('role', $2::text, true),
	pg_catalog.set_config('search_path', $3::text, true);

-- name: park
UPDATE :"schema".idempotency_record AS r SET state = 3, sweep_after = NULL
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3)
	AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

-- name: release
-- Frees the key. It keeps the row, so that the fence goes on rising; the sweep drops the row after $4.
UPDATE :"schema".idempotency_record AS r SET state = 5,
	purge_at = c.now + $4::bigint * interval '1 microsecond',
	sweep_after = 0, sweep_from = c.now + $4::bigint * interval '1 microsecond'
FROM (SELECT pg_catalog.clock_timestamp() AS now) c
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;

-- name: releaseOwner
-- Frees the key of a claim whose owner got an error, and so knows no fence; $3 as $4 of release. If that claim took over a
-- Resume attempt, its finished steps must not be lost: the lease ends, and the next repeat goes on. It was no attempt.
UPDATE :"schema".idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, attempts = r.attempts - 1,
	lease_until = c.now, purge_at = c.now + $3::bigint * interval '1 microsecond',
	sweep_after = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE 0 END,
	sweep_from = c.now + $3::bigint * interval '1 microsecond'
FROM (SELECT pg_catalog.clock_timestamp() AS now) c
WHERE r.id = $1 AND r.owner = $2 AND r.state = 1;

-- name: keepOut
-- Keeps out a claim that was given up and has not reached the server yet: its insert finds a free record, its takeover
-- another fence. $2 owner, $3 how long the row stays. $4 and $5 stand for the hashes, which a free record does not need. A
-- record that is free only because its time is over stays what it is: the clock may be wrong.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, sweep_after, sweep_from)
SELECT $1::bytea, $4::bytea, $2::bytea, 1, 5, 3, '', '', 1, $4::bytea, c.now, c.now, c.now,
	c.now + $3::bigint * interval '1 microsecond', $5::bytea, 0, c.now + $3::bigint * interval '1 microsecond'
FROM (SELECT pg_catalog.clock_timestamp() AS now) c
WHERE CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
	THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN excluded.purge_at ELSE r.purge_at END,
	sweep_after = CASE WHEN r.state = 5 THEN 0 ELSE r.sweep_after END,
	sweep_from = CASE WHEN r.state = 5 THEN excluded.sweep_from ELSE r.sweep_from END
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= pg_catalog.clock_timestamp() AND NOT r.timed;

-- name: traceAnswer
-- Finds the attempt's claim, which is there until its transaction has ended; $1 id, $2 owner.
SELECT 1 FROM :"schema".idempotency_record WHERE id = $1 AND owner = $2 AND state = 1;

-- name: touch
-- Changes nothing. The synchronous standby, if there is one, confirms its COMMIT, and with it everything that was committed
-- before. $1 alone.
UPDATE :"schema".idempotency_record AS r SET fence = r.fence
WHERE r.id = $1 AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
	THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

-- name: touchRead
-- touch for an outcome that was read, if it still is the same. An answer may have become a tombstone since.
UPDATE :"schema".idempotency_record AS r SET fence = r.fence
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (2, 4)
	AND CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END;

-- name: atStandby
-- Says whether a backend waits for the synchronous standby: the one with the process $1, or the one that writes the record
-- $2, whose old version names the transaction.
SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity a WHERE a.wait_event = 'SyncRep'
	AND (a.pid = $1::bigint OR a.backend_xid = (SELECT r.xmax FROM :"schema".idempotency_record r WHERE r.id = $2)));
