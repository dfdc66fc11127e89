-- Written by: go test ./gormstore/internal/dialect -update

-- name: adopt
UPDATE public.idempotency_record AS r SET scope = $3, realm = $4, method = $5, route = $6, timed = r.timed OR $7::boolean,
	deadline_at = CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN r.deadline_at END
WHERE r.id = $1 AND r.scope = $2 AND r.hash_version = 0;

-- name: annotate
INSERT INTO public.idempotency_note (record_id, token, written_at, written_by, body, kind, fence, decision, encoding)
SELECT r.id, $2::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), $3::text, $4::text, $5::smallint, $6::bigint, $7::bytea, $8::smallint
FROM public.idempotency_record r
WHERE r.id = $1 AND r.state IN (1, 3) AND ($5::smallint = 0 OR r.fence = $6::bigint) AND ($5::smallint <> 1 OR (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)))
	AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $9::bigint AND $10::bigint)
ON CONFLICT DO NOTHING;

-- name: appendSettlement
INSERT INTO public.idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence, before_state,
	after_fence, after_state, after_status, undone)
VALUES ($1, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), $2, $3, $4, $5, $6, $7, $8, $9);

-- name: asBegun
SELECT CAST(CASE WHEN pg_catalog.pg_backend_pid() = $1::integer AND CAST(pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp()) * 1000000 AS bigint) = $2::bigint
		AND (pg_catalog.current_setting('synchronous_commit') = $3::text
			OR pg_catalog.set_config('synchronous_commit', $3::text, true) <> '')
		AND (pg_catalog.current_setting('client_min_messages') <> 'error'
			OR pg_catalog.set_config('client_min_messages', 'warning', true) <> '')
	THEN '1' ELSE 'not ours' END AS integer);

-- name: askForCheck
SELECT pg_catalog.set_config('client_connection_check_interval', '500', true);

-- name: atStandby
SELECT answer.* FROM (SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity a WHERE a.wait_event = 'SyncRep'
	AND (a.pid = $1::bigint OR a.backend_xid = (SELECT r.xmax FROM public.idempotency_record r WHERE r.id = $2)))) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: beginIntent
INSERT INTO public.idempotency_intent AS i
	(intent, idempotency_key, hash_version, command_hash, planned_at, begun_at, begun_by)
SELECT $1::text, $2::text, $3::smallint, $4::bytea, CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END,
	CASE WHEN $3::smallint IS NOT NULL THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END, $5::bytea
WHERE CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $6::bigint AND $7::bigint
ON CONFLICT (intent) DO UPDATE SET
	hash_version = coalesce(i.hash_version, excluded.hash_version),
	command_hash = coalesce(i.command_hash, excluded.command_hash),
	begun_at = coalesce(i.begun_at, excluded.begun_at),
	begun_by = CASE
		WHEN excluded.begun_by IS NULL OR excluded.hash_version IS NULL AND excluded.idempotency_key <> i.idempotency_key THEN i.begun_by
		WHEN i.begun_by IS NULL OR i.begun_by = excluded.begun_by THEN excluded.begun_by
		ELSE ''::bytea END
RETURNING intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END;

-- name: begun
SELECT pg_catalog.pg_backend_pid(), CAST(pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp()) * 1000000 AS bigint),
	CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN 'on'
		ELSE pg_catalog.current_setting('synchronous_commit') END,
	pg_catalog.concat(pg_catalog.set_config('idle_in_transaction_session_timeout', CAST($1::bigint AS text), true),
		pg_catalog.set_config('tcp_user_timeout', CAST($2::bigint AS text), true),
		CASE WHEN $3::bigint IS NOT NULL
			THEN pg_catalog.set_config('client_connection_check_interval', CAST($3::bigint AS text), true) END, CASE WHEN $4::bigint IS NOT NULL THEN CAST(pg_catalog.pg_advisory_xact_lock($4::bigint) AS text) END) IS NULL OR pg_catalog.current_setting('transaction_isolation') <> 'read committed';

-- name: blankNotesOf
UPDATE public.idempotency_note AS n SET body = '', decision = NULL
WHERE n.record_id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id))) AND (n.body <> '' OR n.decision IS NOT NULL);

-- name: bury
UPDATE public.idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false, due_at = r.purge_at
WHERE r.id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id)));

-- name: clock
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: complete
UPDATE public.idempotency_record AS r SET state = 2, status = $4, partial = $5, headers = $6, body = $7, expires_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), r.created_at) + $8,
	purge_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), r.created_at) + $9, due_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), r.created_at) + $8, answer_encoding = $10, deadline_at = CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN r.deadline_at END
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3)
RETURNING pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END;

-- name: confirm
SELECT answer.* FROM (SELECT CASE WHEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) <> $1::bigint THEN false
	WHEN pg_catalog.current_setting('synchronous_standby_names', true) = '' THEN true
	ELSE CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END AND pg_catalog.pg_logical_emit_message(true, 'idem', '') IS NOT NULL END,
	pg_catalog.pg_backend_pid()) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: count
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), o.half_done, o.method, o.route, count(*),
	count(*) FILTER (WHERE o.created_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - 3600 * 1000000::bigint),
	count(*) FILTER (WHERE o.created_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - 24 * 3600 * 1000000::bigint), min(o.created_at)
FROM (
	SELECT r.state = 1 AND r.recovery = 2 AS half_done, r.method, r.route, r.created_at
	FROM public.idempotency_record r WHERE r.due_at IS NULL AND r.realm >= $2::bytea AND r.realm <= $3::bytea
	AND ($4::boolean AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))) OR ($5::boolean OR $6::boolean AND r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))
	AND ($7::text = '' OR r.method || ' ' || r.route = $7::text) AND (length($8::bytea) = 0 OR r.scope = $8::bytea)
	AND r.created_at >= $9::bigint AND r.created_at < $10::bigint ORDER BY r.created_at, r.id LIMIT $1
) o
GROUP BY o.half_done, o.method, o.route) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: countOpen
SELECT answer.* FROM (SELECT count(*) FROM (
	SELECT 1 FROM public.idempotency_record r WHERE r.scope = $1 AND r.due_at IS NULL AND r.state IN (1, 3)
		AND NOT (r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))
	LIMIT $2
) o) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: doneIntent
UPDATE public.idempotency_intent AS i SET ended_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), i.planned_at, coalesce(i.begun_at, 0))
WHERE $1::text = (SELECT CAST(CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) AS text) || ' ' || pg_catalog.current_setting('port') || ' ' || d.oid::text
	FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()) AND i.intent = $2::text AND i.ended_at IS NULL
	AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $3::bigint AND $4::bigint;

-- name: drop
DELETE FROM public.idempotency_record AS r WHERE r.id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id)));

-- name: dropReferencesOf
DELETE FROM public.idempotency_reference AS f WHERE f.record_id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id)));

-- name: dropSteps
DELETE FROM public.idempotency_step AS s WHERE s.record_id = $1;

-- name: dropStepsOf
DELETE FROM public.idempotency_step AS s WHERE s.record_id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id)));

-- name: due
SELECT CASE
	WHEN r.state IN (2, 4, 5) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) THEN 'dropped'
	WHEN r.state = 2 AND r.expires_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) THEN 'tombstone'
	ELSE '' END, r.id, r.recovery = 2, CASE WHEN r.timed AND r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) THEN r.realm END,
	r.method || ' ' || r.route, r.due_at
FROM public.idempotency_record r
WHERE r.due_at >= $4::bigint AND r.due_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $2::bigint AND $3::bigint
ORDER BY r.due_at LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: durably
SELECT answer.* FROM (SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: endIntent
UPDATE public.idempotency_intent AS i SET ended_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), i.planned_at, coalesce(i.begun_at, 0))
WHERE i.intent = $1::text AND i.ended_at IS NULL AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $2::bigint AND $3::bigint;

-- name: erasable
SELECT answer.* FROM (SELECT p.id, p.state, p.own, p.place = $3::bigint
FROM (
	SELECT q.id, q.state, q.own, row_number() OVER (ORDER BY q.id) AS place
	FROM (
		SELECT r.id, r.state, r.scope = $1 AND r.state <> 4 AS own
		FROM public.idempotency_record r WHERE r.id > $2 ORDER BY r.id LIMIT $3
	) q
) p
WHERE p.own OR p.place = $3::bigint ORDER BY p.id) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: erase
UPDATE public.idempotency_record AS r SET state = CASE WHEN r.state = 2 THEN 4 ELSE r.state END, headers = NULL,
	body = NULL, partial = false, expires_at = CASE WHEN r.expires_at > CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) ELSE r.expires_at END
WHERE r.id = $1 AND r.scope = $2 AND (r.state = 2
	OR r.state = 5 AND (EXISTS (SELECT 1 FROM public.idempotency_step s WHERE s.record_id = $1)
		OR EXISTS (SELECT 1 FROM public.idempotency_reference f WHERE f.record_id = $1)
		OR EXISTS (SELECT 1 FROM public.idempotency_note n WHERE n.record_id = $1
			AND (n.body <> '' OR n.decision IS NOT NULL))));

-- name: fenceOff
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT $1::bytea, $4::bytea, $2::bytea, $7::bigint, 5, 3, '', '', 1, $4::bytea, c.now, c.now, c.now,
	c.now + $3::bigint, $5::bytea, c.now + $3::bigint
FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AS now) c WHERE true
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1, state = 5, headers = NULL, body = NULL,
	purge_at = excluded.purge_at, due_at = excluded.due_at
WHERE r.fence = $6::bigint AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed);

-- name: fenceOffLate
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT j.id, $3::bytea, j.owner, 1, 5, 3, '', '', 1, $3::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $2::bigint, $4::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $2::bigint
FROM (SELECT pg_catalog.decode(j.pair->>0, 'hex') AS id, pg_catalog.decode(j.pair->>1, 'hex') AS owner
	FROM pg_catalog.json_array_elements($1::json) j(pair)) j
WHERE true
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN greatest(r.purge_at, excluded.purge_at) ELSE r.purge_at END,
	due_at = CASE WHEN r.state = 5 THEN greatest(r.due_at, excluded.due_at) ELSE r.due_at END
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed;

-- name: find
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM public.idempotency_record r WHERE r.id = $1) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: findFor
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.headers END,
	CASE WHEN r.scope = $2 OR r.realm BETWEEN $3 AND $4 THEN r.body END
FROM public.idempotency_record r WHERE r.id = $1) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: findIntent
SELECT answer.* FROM (SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) FROM public.idempotency_intent i WHERE i.intent = $1::text) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: flow
SELECT answer.* FROM (SELECT f.ago, sum(f.came), sum(f.settled) FROM (
	SELECT (CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - r.created_at) / (3600 * 1000000::bigint) AS ago, 1 AS came, 0 AS settled
	FROM public.idempotency_record r
	WHERE r.due_at IS NULL AND r.created_at > CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - $3::bigint * 3600 * 1000000 AND r.realm >= $1::bytea AND r.realm <= $2::bytea
		AND ((r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))) OR r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))
	UNION ALL
	SELECT (CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - CASE WHEN k.came = 1 THEN s.created_at ELSE s.settled_at END) / (3600 * 1000000::bigint), k.came, 1 - k.came
	FROM (
		SELECT l.settled_at, (SELECT r.created_at FROM public.idempotency_record r
			WHERE r.id = l.record_id AND r.realm >= $1::bytea AND r.realm <= $2::bytea LIMIT 1) AS created_at
		FROM (
			SELECT h.record_id, h.settled_at, h.after_state FROM public.idempotency_settlement h
			WHERE h.settled_at > CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - $3::bigint * 3600 * 1000000 ORDER BY h.settled_at DESC LIMIT 10000
		) l
		WHERE l.after_state IN (2, 5)
	) s CROSS JOIN (SELECT 0 AS came UNION ALL SELECT 1) k
	WHERE s.created_at IS NOT NULL
) f
GROUP BY f.ago) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: forgetCommands
DELETE FROM public.idempotency_sighting AS s WHERE s.id IN (
	SELECT e.id FROM public.idempotency_sighting e
	WHERE e.purge_at >= $4::bigint AND e.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $2::bigint AND $3::bigint
	ORDER BY e.purge_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
RETURNING purge_at;

-- name: forgetIntents
DELETE FROM public.idempotency_intent AS i WHERE i.intent IN (
	SELECT e.intent FROM public.idempotency_intent e
	WHERE e.ended_at >= $4::bigint AND e.ended_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - $5::bigint AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $2::bigint AND $3::bigint
	ORDER BY e.ended_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
RETURNING ended_at;

-- name: forgetMessages
DELETE FROM public.processed_message AS m WHERE (m.consumer_group, m.source, m.message_id) IN (
	SELECT e.consumer_group, e.source, e.message_id FROM public.processed_message e
	WHERE e.expires_at >= $4::bigint AND e.expires_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $2::bigint AND $3::bigint
	ORDER BY e.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
RETURNING expires_at, consumer_group, source, published_at;

-- name: forgetSteps
DELETE FROM public.idempotency_step AS s WHERE s.record_id = $1 AND s.fence < $2::bigint AND EXISTS (
	SELECT 1 FROM public.idempotency_record r WHERE r.id = $1 AND (r.owner = $3 OR r.fence = $2::bigint - 1 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed)));

-- name: held
SELECT answer.* FROM (SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
		AND l.pid <> pg_catalog.pg_backend_pid()
		AND l.classid = $1::bigint::oid AND l.objid = $2::bigint::oid AND l.database = (SELECT d.oid
			FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: history
SELECT answer.* FROM (SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, s.record_id, '', ''
FROM public.idempotency_settlement s WHERE s.record_id = $1 ORDER BY s.settled_at, s.after_fence) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: importRecord
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, expires_at, purge_at, status, partial, headers, body, realm, timed, due_at,
	answer_encoding)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)
ON CONFLICT (id) DO UPDATE SET fence = r.fence + 1, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
WHERE r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed
RETURNING fence;

-- name: insertCommand
;

-- name: insertRecord
INSERT INTO public.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at,
	realm, timed, traceparent)
SELECT $1::bytea, $2::bytea, $3::bytea, 1, 1, $4::smallint, $5::text, $6::text, $7::smallint, $8::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint),
	CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $9::bigint, CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $10::bigint END, $11::bytea, $14::boolean, $15::text
WHERE pg_catalog.current_setting('idem.locked', true) = 'on' AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $12::bigint AND $13::bigint
	AND NOT EXISTS (SELECT 1 FROM public.idempotency_record r WHERE r.id = $1)
ON CONFLICT (id) DO NOTHING RETURNING created_at, pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END;

-- name: insertTimed
INSERT INTO public.idempotency_record (id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash, created_at, lease_until, deadline_at,
	realm, timed, traceparent)
SELECT $1::bytea, $2::bytea, $3::bytea, 1, 1, $4::smallint, $5::text, $6::text, $7::smallint, $8::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint),
	CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $9::bigint, CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $10::bigint END, $11::bytea, $14::boolean, $15::text
WHERE pg_catalog.current_setting('idem.locked', true) = 'on' AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $12::bigint AND $13::bigint
	AND NOT EXISTS (SELECT 1 FROM public.idempotency_record r WHERE r.id = $1)
	AND $16::bigint > coalesce((SELECT CAST(f.value AS bigint) FROM public.idempotency_setting f WHERE f.name = $17::text), -1)
ON CONFLICT (id) DO NOTHING RETURNING created_at, pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END;

-- name: keepFirst
INSERT INTO public.idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO NOTHING;

-- name: keepFirstScoping
INSERT INTO public.idempotency_setting AS s (name, value)
SELECT $1::text, $2::text
WHERE NOT EXISTS (SELECT 1 FROM public.idempotency_setting o WHERE o.name LIKE $3::text)
ON CONFLICT (name) DO NOTHING;

-- name: keepSetting
INSERT INTO public.idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: keyFloor
;

-- name: lastAnswered
SELECT answer.* FROM (SELECT r.id FROM (
	SELECT l.id, l.created_at, l.state, l.status, l.partial, l.realm, l.method, l.route FROM public.idempotency_record l
	WHERE l.due_at > CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND l.due_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + 72 * 3600 * 1000000::bigint ORDER BY l.due_at DESC LIMIT 1000
) r
WHERE r.state = 2 AND r.status < 300 AND NOT r.partial AND r.method || ' ' || r.route = $2::text AND substr(r.realm, 1, length($1::bytea)) = $1::bytea
ORDER BY r.created_at DESC LIMIT 1) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: lastSettled
SELECT answer.* FROM (SELECT s.settled_at, s.settled_by, s.reason, s.undone, s.before_fence, s.before_state, s.after_fence, s.after_state,
	s.after_status, r.id, r.method, r.route
FROM (
	SELECT * FROM public.idempotency_settlement s WHERE $2::text = '' OR s.settled_by = $2::text
	ORDER BY s.settled_at DESC LIMIT 10000
) s CROSS JOIN LATERAL (SELECT r.id, r.method, r.route, r.realm FROM public.idempotency_record r WHERE r.id = s.record_id OFFSET 0) r
WHERE substr(r.realm, 1, length($1::bytea)) = $1::bytea
ORDER BY s.settled_at DESC LIMIT $3) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: list
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM public.idempotency_record r
WHERE (r.created_at, r.id) > ($11::bigint, $12::bytea) AND r.due_at IS NULL AND r.realm >= $2::bytea AND r.realm <= $3::bytea
	AND ($4::boolean AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))) OR ($5::boolean OR $6::boolean AND r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))
	AND ($7::text = '' OR r.method || ' ' || r.route = $7::text) AND (length($8::bytea) = 0 OR r.scope = $8::bytea)
	AND r.created_at >= $9::bigint AND r.created_at < $10::bigint
	AND ($13::text = '' OR (SELECT 1 FROM public.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = $13::text AND ($14::text = '' OR o.name = $14::text) LIMIT 1) IS NOT NULL)
	AND ($15::text = '' OR (SELECT 1 FROM public.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = $15::text AND ($16::text = '' OR o.name = $16::text) LIMIT 1) IS NOT NULL)
ORDER BY r.created_at, r.id LIMIT $1) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: listNewest
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body FROM public.idempotency_record r
WHERE (r.created_at, r.id) < ($11::bigint, $12::bytea) AND r.due_at IS NULL AND r.realm >= $2::bytea AND r.realm <= $3::bytea
	AND ($4::boolean AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))) OR ($5::boolean OR $6::boolean AND r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)) AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))
	AND ($7::text = '' OR r.method || ' ' || r.route = $7::text) AND (length($8::bytea) = 0 OR r.scope = $8::bytea)
	AND r.created_at >= $9::bigint AND r.created_at < $10::bigint
	AND ($13::text = '' OR (SELECT 1 FROM public.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = $13::text AND ($14::text = '' OR o.name = $14::text) LIMIT 1) IS NOT NULL)
	AND ($15::text = '' OR (SELECT 1 FROM public.idempotency_reference o WHERE o.record_id = r.id AND o.value || '' = $15::text AND ($16::text = '' OR o.name = $16::text) LIMIT 1) IS NOT NULL)
ORDER BY r.created_at DESC, r.id DESC LIMIT $1) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: lockAlone
SELECT answer.* FROM (SELECT 1 / CASE WHEN pg_catalog.pg_try_advisory_xact_lock($1::bigint) THEN 1 ELSE 0 END) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: lockClaim
SELECT pg_catalog.set_config('idem.locked', CASE WHEN pg_catalog.pg_try_advisory_xact_lock($1::bigint) THEN 'on' ELSE 'off' END, true);

-- name: lockFirst
SELECT pg_catalog.pg_try_advisory_xact_lock($4::bigint),
	CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END,
	pg_catalog.pg_backend_pid(), CAST(pg_catalog.date_part('epoch', pg_catalog.transaction_timestamp()) * 1000000 AS bigint),
	CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN 'on'
		ELSE pg_catalog.current_setting('synchronous_commit') END,
	pg_catalog.concat(pg_catalog.set_config('idle_in_transaction_session_timeout', CAST($1::bigint AS text), true),
		pg_catalog.set_config('tcp_user_timeout', CAST($2::bigint AS text), true),
		CASE WHEN $3::bigint IS NOT NULL
			THEN pg_catalog.set_config('client_connection_check_interval', CAST($3::bigint AS text), true) END, '') IS NULL OR pg_catalog.current_setting('transaction_isolation') <> 'read committed';

-- name: lockGuarded
SELECT pg_catalog.set_config('idem.locked', CASE WHEN pg_catalog.pg_try_advisory_xact_lock($4::bigint) THEN 'on' ELSE 'off' END, true), pg_catalog.concat(pg_catalog.set_config('idle_in_transaction_session_timeout', CAST($1::bigint AS text), true),
		pg_catalog.set_config('tcp_user_timeout', CAST($2::bigint AS text), true),
		CASE WHEN $3::bigint IS NOT NULL
			THEN pg_catalog.set_config('client_connection_check_interval', CAST($3::bigint AS text), true) END, '');

-- name: lockRecord
SELECT 1 FROM public.idempotency_record r WHERE r.id = $1 FOR UPDATE;

-- name: lockSetting
SELECT s.value FROM public.idempotency_setting s WHERE s.name = $1 FOR UPDATE;

-- name: lockUnknown
SELECT answer.* FROM (SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint), CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: logCommand
WITH c AS MATERIALIZED (
	SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AS now
), there AS MATERIALIZED (
	SELECT f.hash_version, f.command_hash, f.seen_at FROM public.idempotency_sighting f
	WHERE f.id = $1::bytea AND f.purge_at > (SELECT c.now FROM c)
), earlier AS MATERIALIZED (
	SELECT (
		SELECT e.id FROM public.idempotency_sighting e
		WHERE e.scope = $2::bytea AND e.command_hash = $4::bytea
			AND e.seen_at > (SELECT c.now FROM c) - $6::bigint
			AND e.id <> $1::bytea AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
		ORDER BY e.seen_at DESC LIMIT 1
	) AS id FROM c LEFT JOIN there t ON true
), held AS (
	SELECT 1 FROM earlier WHERE $7::boolean AND earlier.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM there)
), noted AS (
	INSERT INTO public.idempotency_sighting AS s (id, scope, hash_version, command_hash, seen_at, purge_at)
	SELECT $1::bytea, $2::bytea, $3::smallint, $4::bytea, c.now, c.now + $5::bigint
	FROM c WHERE NOT EXISTS (SELECT 1 FROM there) AND NOT EXISTS (SELECT 1 FROM held)
	ON CONFLICT (id) DO UPDATE SET hash_version = excluded.hash_version, command_hash = excluded.command_hash,
		seen_at = excluded.seen_at, purge_at = excluded.purge_at
	WHERE s.purge_at <= excluded.seen_at
	RETURNING s.id
)
SELECT n.id IS NOT NULL OR EXISTS (SELECT 1 FROM held), t.hash_version, t.command_hash, e.id
FROM earlier e LEFT JOIN there t ON true LEFT JOIN noted n ON true;

-- name: lookAnswer
SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END,
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END,
	r.owner, r.fence, r.recovery, r.hash_version, r.command_hash, r.expires_at, r.purge_at, r.status, r.partial, r.answer_encoding,
	r.headers, r.body, r.traceparent
FROM public.idempotency_record r
WHERE r.id = $1 AND r.state = 2 AND r.expires_at > CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint);

-- name: lookFirst
SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END,
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body
FROM public.idempotency_record r WHERE r.id = $1;

-- name: lookTimed
SELECT CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END,
	(SELECT f.value FROM public.idempotency_setting f WHERE f.name = $2::text),
	pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END,
	r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route, r.hash_version, r.command_hash,
	r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.attempts, r.timed, r.traceparent, r.ends,
	r.status, r.partial, r.answer_encoding, r.headers, r.body
FROM (SELECT) AS one LEFT JOIN public.idempotency_record r ON r.id = $1;

-- name: loseAnswer
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, ends)
VALUES ($1, $2, $3, $4, 3, $5, $6, $7, $8, $9, $10, $11, $12, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $13, $14)
ON CONFLICT (id) DO UPDATE SET
	fence = CASE WHEN r.owner = excluded.owner THEN r.fence ELSE greatest(r.fence + 1, excluded.fence) END, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
WHERE r.owner = excluded.owner AND r.state = 3 OR r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed;

-- name: loseMarker
INSERT INTO public.processed_message AS m
	(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
SELECT $1::text, $2::text, $3::text, $4::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), $5::bigint, greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), coalesce($5::bigint, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))) + $6::bigint
WHERE true
ON CONFLICT (consumer_group, source, message_id) DO UPDATE SET payload_hash = excluded.payload_hash
WHERE m.processed_at = $7::bigint;

-- name: lostRecords
SELECT answer.* FROM (SELECT r.id, r.owner, r.state, (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed), (r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)), r.fence FROM public.idempotency_record r WHERE r.id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id)))) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: mark
WITH there AS MATERIALIZED (
	SELECT m.payload_hash FROM public.processed_message m
	WHERE m.consumer_group = $1::text AND m.source = $2::text AND m.message_id = $3::text
), c AS MATERIALIZED (
	SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AS now,
		CASE WHEN NOT EXISTS (SELECT 1 FROM there) THEN pg_catalog.current_setting('idem.locked', true) = 'on' END AS lock
), message AS MATERIALIZED (
	SELECT c.now, c.lock, $5::bigint AS published,
		$6::bigint AS keep,
		coalesce($5::bigint, c.now)
			+ $6::bigint <= c.now
		OR EXISTS (SELECT 1 FROM public.processed_message_floor f WHERE f.consumer_group = $1::text
			AND f.source = $2::text AND f.published_at >= $5::bigint) AS too_old,
		c.now >= $7::bigint
			AND c.now <= $8::bigint AS trusted
	FROM c
), won AS (
	INSERT INTO public.processed_message
		(consumer_group, source, message_id, payload_hash, processed_at, published_at, expires_at)
	SELECT $1::text, $2::text, $3::text, $4::bytea, m.now, m.published, greatest(m.now, m.published) + m.keep
	FROM message m WHERE m.lock AND NOT m.too_old AND m.trusted
	ON CONFLICT (consumer_group, source, message_id) DO NOTHING RETURNING processed_at
)
SELECT m.lock, won.processed_at, m.too_old, m.trusted, there.payload_hash,
	CASE WHEN there.payload_hash IS NOT NULL AND pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END
FROM message m LEFT JOIN won ON true LEFT JOIN there ON true;

-- name: near
SELECT answer.* FROM (SELECT r.id FROM public.idempotency_record r
WHERE r.id >= $1 AND r.id <= $2 AND substr(r.id, 33 - length($3::bytea), 32) = $3::bytea AND substr(r.realm, 1, length($4::bytea)) = $4::bytea
ORDER BY r.id LIMIT $5) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: notesOf
SELECT answer.* FROM (SELECT n.record_id, n.token, n.written_at, n.written_by, n.body, n.kind, n.fence, n.decision, n.encoding
FROM public.idempotency_note n WHERE n.record_id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id))) ORDER BY n.record_id, n.written_at, n.token) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: openSteps
SELECT answer.* FROM (SELECT o.id, coalesce(s.name, '')
FROM (
	SELECT r.id FROM public.idempotency_record r
	WHERE r.due_at IS NULL AND r.state IN (1, 3) AND substr(r.realm, 1, length($2::bytea)) = $2::bytea LIMIT $1
) o
LEFT JOIN public.idempotency_step s ON s.record_id = o.id AND s.kind = 2) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: outrun
UPDATE public.idempotency_record AS r SET fence = r.fence + 1 WHERE r.id = $1 AND r.fence = $2 AND r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint);

-- name: ownsRecord
SELECT answer.* FROM (SELECT 1 FROM public.idempotency_record r WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3)) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: park
UPDATE public.idempotency_record AS r SET state = 3, ends = coalesce($4::bytea, r.ends),
	deadline_at = CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN r.deadline_at END
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3);

-- name: payloadHash
SELECT answer.* FROM (SELECT m.payload_hash FROM public.processed_message m
WHERE m.consumer_group = $1::text AND m.source = $2::text AND m.message_id = $3::text) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: pendingIntents
SELECT answer.* FROM (SELECT intent, idempotency_key, hash_version, command_hash, begun_at, begun_by, ended_at IS NOT NULL, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) FROM public.idempotency_intent i
WHERE i.ended_at IS NULL AND i.intent > $1::text ORDER BY i.intent LIMIT $2) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: planIntent
INSERT INTO public.idempotency_intent (intent, idempotency_key, planned_at)
SELECT $2::text, $3::text, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) WHERE $1::text = (SELECT CAST(CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) AS text) || ' ' || pg_catalog.current_setting('port') || ' ' || d.oid::text
	FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
ON CONFLICT (intent) DO NOTHING;

-- name: putOff
UPDATE public.idempotency_record AS r SET due_at = CASE WHEN r.state = 2 THEN r.expires_at ELSE r.purge_at END
WHERE r.id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id)));

-- name: putSteps
WITH put AS (
	INSERT INTO public.idempotency_step AS s (record_id, name, kind, state, fence, started_at, finished_at, result, derived, encoding)
	SELECT $1::bytea, n.name, n.kind, n.state, n.fence, c.now + n.place,
		CASE WHEN n.state = 2 THEN c.now + n.place END, n.result, n.derived,
		CASE WHEN n.state = 2 THEN $14::smallint ELSE 1 END
	FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AS now) c, (VALUES
		(0, $2::bigint, $3::text, $4::smallint, $5::smallint, $6::bytea, $7::bytea),
		(1, $8::bigint, $9::text, $10::smallint, $11::smallint, $12::bytea, $13::bytea)) AS n (place, fence, name, kind, state, result, derived)
	WHERE n.name IS NOT NULL
	ON CONFLICT (record_id, name) DO UPDATE SET state = greatest(s.state, excluded.state),
		finished_at = CASE WHEN s.state = 2 THEN s.finished_at ELSE excluded.finished_at END,
		result = CASE WHEN s.state = 2 THEN s.result ELSE excluded.result END,
		derived = CASE WHEN s.state = 2 THEN s.derived ELSE excluded.derived END,
		encoding = CASE WHEN s.state = 2 THEN s.encoding ELSE excluded.encoding END
	WHERE s.kind = excluded.kind AND s.fence = excluded.fence AND (s.state < 2 OR excluded.state = 2)
	RETURNING s.name
)
SELECT 1 / CASE WHEN pg_catalog.count(*) = CASE WHEN $9::text IS NULL THEN 1 ELSE 2 END THEN 1 ELSE 0 END FROM put;

-- name: raiseAgedFloors
INSERT INTO public.idempotency_setting AS s (name, value)
SELECT $2::text || substr(a.name, $4::int + 1), $3::text
FROM public.idempotency_setting a WHERE a.name LIKE $1::text
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: raiseFloor
INSERT INTO public.processed_message_floor AS f (consumer_group, source, published_at) VALUES ($1, $2, $3)
ON CONFLICT (consumer_group, source) DO UPDATE SET published_at = excluded.published_at
WHERE f.published_at < excluded.published_at;

-- name: raiseKeyFloor
INSERT INTO public.idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE CAST(s.value AS bigint) < CAST(excluded.value AS bigint);

-- name: raiseKeyFloors
UPDATE public.idempotency_setting AS s SET value = $2::text
WHERE s.name LIKE $1::text AND CAST(s.value AS bigint) < CAST($2::text AS bigint);

-- name: readGuards
SELECT answer.* FROM (SELECT coalesce(pg_catalog.max(s.setting) FILTER (WHERE s.name = 'idle_in_transaction_session_timeout'), '0')::bigint,
	coalesce(pg_catalog.max(s.setting) FILTER (WHERE s.name = 'tcp_user_timeout'), '0')::bigint,
	coalesce(pg_catalog.max(s.setting) FILTER (WHERE s.name = 'client_connection_check_interval'), '0')::bigint
FROM pg_catalog.pg_settings s) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: readSettings
SELECT session_user::pg_catalog.text, pg_catalog.current_setting('role'), pg_catalog.current_setting('search_path'),
	pg_catalog.current_setting('DateStyle'), pg_catalog.current_setting('client_encoding');

-- name: recordAnswer
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
VALUES ($1, $2, $3, $4, 2, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) >= $13 THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint),
	CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END, $14, $15, $16, $17, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $18, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $19, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $18, $20);

-- name: recordOver
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at, status, partial, headers, body,
	expires_at, purge_at, due_at, answer_encoding)
VALUES ($1, $2, $3, $4, 2, $5, $6, $7, $8, $9, $10, $11, $12, CASE WHEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) >= $13 THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint),
	CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END, $14, $15, $16, $17, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $18, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $19, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $18, $20)
ON CONFLICT (id) DO UPDATE SET fence = excluded.fence / CASE WHEN r.fence = $21 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed) THEN 1 ELSE 0 END, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
RETURNING created_at;

-- name: recordRunning
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint),
	CASE WHEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $15 AND $16 THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + least($13::bigint, $14::bigint) END, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $14)
RETURNING created_at;

-- name: refer
INSERT INTO public.idempotency_reference (record_id, name, value, realm, referred_at)
SELECT $1::bytea, $2::text, $3::text, $4::bytea, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)
WHERE ($5::boolean OR EXISTS (SELECT 1 FROM public.idempotency_record r WHERE r.id = $1::bytea))
	AND (SELECT count(*) FROM public.idempotency_reference o WHERE o.record_id = $1::bytea) < $6::bigint
ON CONFLICT (record_id, name, value) DO NOTHING;

-- name: referencesOf
SELECT answer.* FROM (SELECT r.record_id, r.name, r.value FROM public.idempotency_reference r
WHERE r.record_id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id))) ORDER BY r.record_id, r.referred_at, r.name, r.value) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: referred
SELECT answer.* FROM (SELECT p.record_id, p.referred_at, p.wanted, p.place = $11::bigint FROM (
	SELECT q.record_id, q.referred_at, row_number() OVER (ORDER BY q.referred_at DESC, q.record_id DESC) AS place,
		($2::text = '' OR q.name = $2::text)
		AND ($3::text = '' OR (SELECT 1 FROM public.idempotency_reference o WHERE o.record_id = q.record_id AND o.value || '' = $3::text AND ($4::text = '' OR o.name = $4::text) LIMIT 1) IS NOT NULL)
		AND NOT ((SELECT 1 FROM public.idempotency_reference o WHERE o.record_id = q.record_id AND o.value || '' = $1::text AND ($2::text = '' OR o.name = $2::text)
			AND (o.referred_at, o.name) > (q.referred_at, q.name) AND o.referred_at < $6::bigint LIMIT 1) IS NOT NULL)
		AND (NOT $13::boolean OR (SELECT 1 FROM public.idempotency_record c
			WHERE c.id = q.record_id AND c.state = 2 AND c.expires_at > CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) LIMIT 1) IS NOT NULL) AS wanted
	FROM (
		SELECT r.record_id, r.referred_at, r.name FROM public.idempotency_reference r
		WHERE r.value = $1::text AND r.referred_at >= $5::bigint
			AND (r.referred_at, r.record_id) < ($7::bigint, $8::bytea) AND r.realm >= $9::bytea AND r.realm <= $10::bytea
		ORDER BY r.referred_at DESC, r.record_id DESC LIMIT $11::bigint
	) q
) p
WHERE p.wanted OR p.place = $11::bigint ORDER BY p.referred_at DESC, p.record_id DESC LIMIT $12::bigint) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: release
UPDATE public.idempotency_record AS r SET state = 5, purge_at = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $4::bigint, due_at = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $4::bigint
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;

-- name: releaseOwners
UPDATE public.idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, fence = r.fence + 1,
	owner = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN $4::bytea ELSE r.owner END,
	attempts = greatest(r.attempts - 1, 1), lease_until = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), purge_at = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $3::bigint,
	due_at = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $3::bigint END
WHERE r.id = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($1::json) j(id))) AND r.owner = ANY (ARRAY(SELECT pg_catalog.decode(j.id, 'hex') FROM pg_catalog.json_array_elements_text($2::json) j(id))) AND r.state = 1
RETURNING id;

-- name: renew
UPDATE public.idempotency_record AS r SET lease_until = least(r.deadline_at, greatest(r.lease_until, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $4::bigint))
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;

-- name: runOver
INSERT INTO public.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, realm, timed, traceparent, created_at, lease_until, deadline_at)
VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint),
	CASE WHEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $15 AND $16 THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + least($13::bigint, $14::bigint) END, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $14)
ON CONFLICT (id) DO UPDATE SET fence = excluded.fence / CASE WHEN r.fence = $17 AND (r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed) THEN 1 ELSE 0 END, scope = excluded.scope, owner = excluded.owner, state = excluded.state, recovery = excluded.recovery,
	method = excluded.method, route = excluded.route, hash_version = excluded.hash_version,
	command_hash = excluded.command_hash, realm = excluded.realm, timed = r.timed OR excluded.timed,
	traceparent = excluded.traceparent, created_at = excluded.created_at, lease_until = excluded.lease_until,
	deadline_at = excluded.deadline_at, attempts = 1, status = excluded.status, partial = excluded.partial,
	answer_encoding = excluded.answer_encoding, headers = excluded.headers, body = excluded.body, expires_at = excluded.expires_at,
	purge_at = excluded.purge_at, due_at = excluded.due_at, ends = excluded.ends
RETURNING created_at;

-- name: sealAnswer
WITH one AS (UPDATE public.idempotency_record AS r SET state = 2, status = $4, partial = $5, headers = $6, body = $7, expires_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), r.created_at) + $8,
	purge_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), r.created_at) + $9, due_at = greatest(CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), r.created_at) + $8, answer_encoding = $10
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3)
RETURNING CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AS at) SELECT coalesce(pg_catalog.max(one.at), 0) / pg_catalog.count(*) FROM one;

-- name: sealRunning
WITH one AS (UPDATE public.idempotency_record AS r SET lease_until = CASE WHEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $5 AND $6
	THEN least(r.deadline_at, greatest(r.lease_until, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $4)) END
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, $7::integer)
RETURNING CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AS at) SELECT coalesce(pg_catalog.max(one.at), 0) / pg_catalog.count(*) FROM one;

-- name: setSettings
SELECT pg_catalog.set_config('session_authorization', $1::text, true), pg_catalog.set_config('role', $2::text, true),
	pg_catalog.set_config('search_path', $3::text, true), pg_catalog.set_config('DateStyle', $4::text, true);

-- name: setting
SELECT answer.* FROM (SELECT s.value FROM public.idempotency_setting s WHERE s.name = $1) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: settle
UPDATE public.idempotency_record AS r SET state = $3::smallint, fence = r.fence + 1, status = $4::smallint,
	partial = false, headers = $5::bytea, body = $6::bytea, expires_at = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $7::bigint, purge_at = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $8::bigint,
	due_at = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $7::bigint, ends = CASE WHEN r.state = 1 THEN coalesce($11::bytea, r.ends) ELSE r.ends END,
	answer_encoding = $12::smallint
WHERE r.id = $1 AND r.fence = $2 AND (r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint))) AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND r.deadline_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint)
	AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $9::bigint AND $10::bigint;

-- name: stepAt
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM public.idempotency_step s WHERE s.record_id = $1 AND s.name = $2) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: stepsOf
SELECT answer.* FROM (SELECT CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), s.name, s.kind, s.state, s.fence, s.started_at, s.finished_at, s.encoding, s.result, s.derived
FROM public.idempotency_step s WHERE s.record_id = $1 ORDER BY s.started_at, s.name) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: takeOver
UPDATE public.idempotency_record AS r SET scope = $2, realm = $11, owner = $3, fence = r.fence + 1, state = 1,
	recovery = $4::smallint, method = $5, route = $6, hash_version = $7::smallint, command_hash = $8,
	created_at = CASE WHEN r.state = 1 THEN r.created_at ELSE CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) END,
	attempts = CASE WHEN r.state = 1 THEN r.attempts + 1 ELSE 1 END,
	lease_until = CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $9::bigint, deadline_at = CASE WHEN pg_catalog.current_setting('synchronous_commit') <> 'off' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) + $10::bigint END,
	expires_at = NULL, purge_at = NULL, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL,
	traceparent = $21::text, timed = r.timed OR $17::boolean AND r.state <> 1, ends = $22::bytea,
	due_at = NULL
WHERE r.id = $1 AND r.fence = $18::bigint AND pg_catalog.current_setting('idem.locked', true) = 'on' AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) >= $12::bigint
	AND (r.state = 5 OR CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) <= $19::bigint)
	AND (r.state = 1 OR $15::text = ''
		OR $16::bigint > coalesce((SELECT CAST(f.value AS bigint) FROM public.idempotency_setting f
			WHERE f.name = $15::text), -1)
		AND CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) BETWEEN $13::bigint AND $14::bigint)
	AND CASE WHEN $20::boolean THEN r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND NOT r.timed
		ELSE r.state = 1 AND r.recovery = 2 AND r.lease_until <= CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) AND $4::smallint = 2 AND r.hash_version = $7::smallint AND r.command_hash = $8::bytea END
RETURNING fence, attempts, created_at, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint), pg_catalog.pg_backend_pid(), CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> ''
		THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END;

-- name: tryLock
SELECT answer.* FROM (SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint),
	CASE WHEN pg_catalog.current_setting('synchronous_standby_names', true) <> '' THEN CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) END, CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: turnProposal
UPDATE public.idempotency_note AS n SET kind = $5::smallint
WHERE n.record_id = $1 AND n.token = $2 AND n.fence = $3 AND n.kind = $4::smallint AND n.written_by <> $6::text;

-- name: waitLocks
SELECT pg_catalog.pg_advisory_xact_lock(j.lock::bigint), CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END
FROM pg_catalog.json_array_elements_text($1::json) j(lock);

-- name: whichDatabase
SELECT answer.* FROM (SELECT CAST(CAST(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) * 1000000 AS bigint) AS text) || ' ' || pg_catalog.current_setting('port') || ' ' || d.oid::text
	FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()) AS answer
WHERE CAST(CASE pg_catalog.current_setting('transaction_read_only') WHEN 'off' THEN 'true' ELSE 'the server is a standby in recovery, or read-only: it takes no writes' END AS boolean);

-- name: withoutJIT
SELECT pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('enable_sort', 'off', true);

-- name: yield
UPDATE public.idempotency_record AS r SET lease_until = least(r.deadline_at, CAST(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()) * 1000000 AS bigint) - $5::bigint),
	ends = coalesce($4::bytea, r.ends)
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1;
