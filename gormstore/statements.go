package gormstore

// The store's statements. A record is found by its primary key in every statement of a request, so that each of them
// touches one shard of a distributed database. $1 is always the record's id.

// recordColumns are read by recordScan, in this order.
const recordColumns = `{backend}, r.id, r.scope, r.realm, r.owner, r.fence, r.state, r.recovery, r.method, r.route,
	r.hash_version, r.command_hash, r.created_at, r.lease_until, r.deadline_at, r.expires_at, r.purge_at, r.status, r.partial,
	r.answer_encoding, r.headers, r.body, r.attempts`

// insertColumns and insertValues make the record of a first attempt out of claimArgs.
const (
	insertColumns = `(id, scope, owner, fence, state, recovery, method, route, hash_version, command_hash, created_at,
	lease_until, deadline_at, realm)`
	insertValues = `$1{bytes}, $2{bytes}, $3{bytes}, 1, 1, $4{int}, $5{text}, $6{text}, $7{int}, $8{bytes}, c.now,
	c.now + $9{µs}, c.now + $10{µs}, $11{bytes}`
)

// isFree is true of a record whose key can be claimed by any command: settled as not applied, or past its tombstone.
const isFree = `(r.state = 5 OR r.state IN (2, 4) AND r.purge_at <= {now})`

// isResumable is true of a Resume attempt whose lease has run out, for a claim of the same command and recovery.
const isResumable = `(r.state = 1 AND r.recovery = 2 AND r.lease_until <= {now} AND $4{int} = 2 AND r.hash_version = $7{int}
	AND r.command_hash = $8{bytes})`

// isUnknown is true of a record whose state is core.Unknown by now, swept or not (T-4).
// A running Rollback record can be seen only by its own attempt, unless the handler has committed it.
const isUnknown = `(r.state = 3 OR r.state = 1 AND (r.recovery = 1 OR r.recovery = 3 AND r.lease_until <= {now}))`

// isLost is true of a Resume attempt that nobody is at any more, isHalfDone of one past its deadline too.
const (
	isLost     = `(r.state = 1 AND r.recovery = 2 AND r.lease_until <= {now})`
	isHalfDone = `(r.state = 1 AND r.recovery = 2 AND r.lease_until <= {now} AND r.deadline_at <= {now})`
)

// clock reads the store's clock once for a whole statement: PostgreSQL asks it anew at every mention of {now}.
const clock = `(SELECT {now} AS now) c`

const (
	// takeOver gives a record to a new attempt: with isFree or isResumable behind it, as the record was seen, because a
	// resumable one may become free in between. Of the old life of a free one nothing stays but the fence; a resumed one
	// is still the same operation, with its steps. $12 and $14 are the window of the
	// clock, $13 is the fence that was seen.
	takeOver = `UPDATE {schema}.idempotency_record AS r SET scope = $2, realm = $11, owner = $3, fence = r.fence + 1, state = 1,
	recovery = $4{int}, method = $5, route = $6, hash_version = $7{int}, command_hash = $8,
	created_at = CASE WHEN r.state = 1 THEN r.created_at ELSE c.now END,
	attempts = CASE WHEN r.state = 1 THEN r.attempts + 1 ELSE 1 END,
	lease_until = c.now + $9{µs}, deadline_at = c.now + $10{µs}, expires_at = NULL, purge_at = NULL, status = 0,
	partial = false, answer_encoding = 1, headers = NULL, body = NULL
FROM ` + clock + `
WHERE r.id = $1 AND r.fence = $13{long} AND c.now >= {epoch}$12{µs} AND (r.state = 5 OR c.now <= {epoch}$14{µs})
	AND {durably} AND `

	find = `SELECT {now}, ` + recordColumns + ` FROM {schema}.idempotency_record r WHERE r.id = $1`

	renew = `UPDATE {schema}.idempotency_record AS r SET lease_until = CASE
	WHEN c.now + $4{µs} < r.deadline_at THEN c.now + $4{µs} ELSE r.deadline_at END
FROM ` + clock + `
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1`

	// complete does not ask whether the lease has run out, nor whether the record counts as unknown: an owner that
	// wakes late and unsettled may still complete.
	complete = `UPDATE {schema}.idempotency_record AS r SET state = 2, status = $4{int}, partial = $5{bool},
	headers = $6{bytes}, body = $7{bytes}, expires_at = {later}(c.now, r.created_at) + $8{µs},
	purge_at = {later}(c.now, r.created_at) + $9{µs}
FROM ` + clock + `
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3) AND {durably}`

	// completeAsBegun is complete in the transaction of an attempt.
	completeAsBegun = complete + ` AND ` + asBegun

	park = `UPDATE {schema}.idempotency_record AS r SET state = 3
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state IN (1, 3) AND {durably}`

	// release keeps the row, so that the fence goes on rising; the sweep drops it after $4.
	release = `UPDATE {schema}.idempotency_record AS r SET state = 5, purge_at = {now} + $4{µs}
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1`

	// releaseOwner frees the key of a claim whose owner got an error. If that claim went on with a Resume attempt, the
	// steps that are finished must not be lost: its lease ends, and the next repeat goes on. It was no attempt.
	releaseOwner = `UPDATE {schema}.idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, attempts = r.attempts - 1,
	lease_until = c.now, purge_at = c.now + $3{µs}
FROM ` + clock + `
WHERE r.id = $1 AND r.owner = $2 AND r.state = 1`

	// keepOut keeps a claim out that was given up and has not reached the server yet: its insert finds a free record, its
	// takeover another fence. A record that is free by the time alone stays what it is: the clock may be wrong (T-5). $4 and
	// $5 stand for the hashes, which a free record does not need.
	keepOut = `INSERT INTO {schema}.idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route,
	hash_version, command_hash, created_at, lease_until, deadline_at, purge_at, realm)
SELECT $1{bytes}, $4{bytes}, $2{bytes}, 1, 5, 3, '', '', 1, $4{bytes}, c.now, c.now, c.now, c.now + $3{µs}, $5{bytes}
FROM ` + clock + ` WHERE {durably}
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN excluded.purge_at ELSE r.purge_at END
WHERE ` + isFree

	// A page of records that are isUnknown, isLost or isHalfDone, and whose realm begins with $2, is listOf, the condition,
	// after for a page that is not the first, and inOrder.
	listOf = `SELECT {now}, ` + recordColumns + ` FROM {schema}.idempotency_record r WHERE r.state IN (1, 3)
	AND substr(r.realm, 1, length($2{bytes})) = $2{bytes} AND `
	after   = ` AND (r.created_at, r.id) > (SELECT a.created_at, a.id FROM {schema}.idempotency_record a WHERE a.id = $3)`
	inOrder = ` ORDER BY r.created_at, r.id LIMIT $1`

	// countOpen counts up to $2 open records of a principal.
	countOpen = `SELECT count(*) FROM (SELECT 1 FROM {schema}.idempotency_record r WHERE r.scope = $1 AND r.state IN (1, 3)
	AND NOT ` + isHalfDone + ` LIMIT $2) o`

	settle = `UPDATE {schema}.idempotency_record AS r SET state = $3{int}, fence = r.fence + 1, status = $4{int},
	partial = false, headers = $5{bytes}, body = $6{bytes}, expires_at = c.now + $7{µs}, purge_at = c.now + $8{µs}
FROM ` + clock + `
WHERE r.id = $1 AND r.fence = $2 AND ` + isUnknown + ` AND r.lease_until <= {now} AND r.deadline_at <= {now}
	AND c.now >= {epoch}$9{µs} AND c.now <= {epoch}$10{µs} AND {durably}`

	appendSettlement = `INSERT INTO {schema}.idempotency_settlement (record_id, settled_at, settled_by, reason, before_fence,
	before_state, after_fence, after_state, after_status, undone)
VALUES ($1, {now}, $2, $3, $4, $5, $6, $7, $8, $9)`

	// inWindow: no sweep drops anything by a clock that shows another time (T-5).
	inWindow = `{now} >= {epoch}$2{µs} AND {now} <= {epoch}$3{µs}`

	// bury turns completed records past retention into tombstones. Those without a tombstone are dropped by drop. Both
	// return the records whose steps are to go.
	bury = `UPDATE {schema}.idempotency_record AS r SET state = 4, headers = NULL, body = NULL, partial = false
WHERE r.id IN (SELECT e.id FROM {schema}.idempotency_record e
	WHERE e.state = 2 AND e.expires_at <= {now} AND ` + inWindow + `
	ORDER BY e.expires_at LIMIT $1 {skip locked})
RETURNING id, recovery = 2`

	drop = `DELETE FROM {schema}.idempotency_record AS r
WHERE r.id IN (SELECT e.id FROM {schema}.idempotency_record e
	WHERE e.state IN (4, 5) AND e.purge_at <= {now} AND ` + inWindow + `
	ORDER BY e.purge_at LIMIT $1 {skip locked})
RETURNING id, recovery = 2`

	stepsOf = `SELECT {now}, s.name, s.kind, s.state, s.fence, s.started_at, s.encoding, s.result, s.derived
FROM {schema}.idempotency_step s WHERE s.record_id = $1 ORDER BY s.started_at, s.name`

	stepAt = `SELECT {now}, s.name, s.kind, s.state, s.fence, s.started_at, s.encoding, s.result, s.derived
FROM {schema}.idempotency_step s WHERE s.record_id = $1 AND s.name = $2`

	dropSteps = `DELETE FROM {schema}.idempotency_step AS s WHERE s.record_id = $1`

	// forgetSteps asks for the free record itself: once it is taken over, the steps may be those of its new life.
	forgetSteps = `DELETE FROM {schema}.idempotency_step AS s WHERE s.record_id = $1 AND EXISTS (
	SELECT 1 FROM {schema}.idempotency_record r WHERE r.id = $1 AND r.fence = $2 AND ` + isFree + `)`

	// own proves the ownership of a step's attempt, and keeps a takeover out until the transaction ends: that is an
	// update of the same row.
	own = `UPDATE {schema}.idempotency_record AS r SET state = r.state
WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1 AND {durably}`

	// startStep, finishStep and recordStep run with own, in one statement on PostgreSQL: see asOwner.
	startStep = `INSERT INTO {schema}.idempotency_step (record_id, name, kind, state, fence, started_at)
SELECT $1{bytes}, $4{text}, $5{int}, 1, $3{long}, {now} {from own} WHERE true
ON CONFLICT (record_id, name) DO NOTHING`

	finishStep = `UPDATE {schema}.idempotency_step AS s SET state = 2, result = $5{bytes}, derived = $6{bytes} {from own}
WHERE s.record_id = $1 AND s.name = $4 AND s.state = 1`

	// recordStep is the last statement of a database step. One that has failed before may have left its start there.
	recordStep = `INSERT INTO {schema}.idempotency_step AS s (record_id, name, kind, state, fence, started_at, result, derived)
SELECT $1{bytes}, $4{text}, 1, 2, $3{long}, {now}, $5{bytes}, $6{bytes} {from own} WHERE true
ON CONFLICT (record_id, name) DO UPDATE SET state = 2, fence = excluded.fence, result = excluded.result,
	derived = excluded.derived
WHERE s.kind = 1 AND s.state <> 2`

	// traceStep shows on SQLite whether a database step's transaction is still there: see tx.alive.
	traceStep = `INSERT INTO {schema}.idempotency_step (record_id, name, kind, state, fence, started_at)
VALUES ($1, $2, 1, 0, $3, {now}) ON CONFLICT (record_id, name) DO UPDATE SET state = 0,
	fence = excluded.fence WHERE kind = 1 AND state <> 2`
)

// Settings: $1 name, $2 value.
const (
	setting     = `SELECT s.value FROM {schema}.idempotency_setting s WHERE s.name = $1`
	keepSetting = `INSERT INTO {schema}.idempotency_setting AS s (name, value) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	// keepFirstScoping does nothing where a name like $3 is there.
	keepFirstScoping = `INSERT INTO {schema}.idempotency_setting AS s (name, value) SELECT $1{text}, $2{text}
WHERE NOT EXISTS (SELECT 1 FROM {schema}.idempotency_setting o WHERE o.name LIKE $3{text})
ON CONFLICT (name) DO NOTHING`
)

// Before a step's statement on PostgreSQL. A database step takes the record's advisory lock as well, until it has
// committed: a repeat is told that it is in flight, instead of waiting for the row.
const (
	withOwn       = `WITH own AS (` + own + ` RETURNING r.id) `
	withLockedOwn = `WITH l AS MATERIALIZED (SELECT pg_catalog.pg_advisory_xact_lock($7::bigint)),
own AS (UPDATE {schema}.idempotency_record AS r SET state = r.state FROM l
	WHERE r.id = $1 AND r.owner = $2 AND r.fence = $3 AND r.state = 1 AND ` + asBegun + ` RETURNING r.id) `
)

// Sightings: $1 id, $2 scope, $3 and $4 version and hash of the command, $5 how long it is kept, $6 the window, $7
// whether it is tentative.
const (
	// sightings asks what had come before: c is the clock, there the first sighting of the key.
	sightings = `WITH c AS MATERIALIZED (SELECT {now} AS now), there AS MATERIALIZED (
	SELECT f.hash_version, f.command_hash, f.seen_at FROM {schema}.idempotency_sighting f
	WHERE f.id = $1{bytes} AND f.purge_at > (SELECT c.now FROM c)
)`

	// earlierSighting is the latest of the same command under another key, before this key came first.
	earlierSighting = `(SELECT e.id FROM {schema}.idempotency_sighting e
	WHERE e.scope = $2{bytes} AND e.command_hash = $4{bytes} AND e.seen_at > (SELECT c.now FROM c) - $6{µs}
		AND e.id <> $1{bytes} AND (t.seen_at IS NULL OR e.seen_at < t.seen_at)
	ORDER BY e.seen_at DESC LIMIT 1)`

	// noteNew and unlessKept note a key that is new, or whose time is over.
	noteNew = `INSERT INTO {schema}.idempotency_sighting AS s (id, scope, hash_version, command_hash, seen_at, purge_at)
	SELECT $1{bytes}, $2{bytes}, $3{int}, $4{bytes}, c.now, c.now + $5{µs}`
	unlessKept = `
	ON CONFLICT (id) DO UPDATE SET hash_version = excluded.hash_version, command_hash = excluded.command_hash,
		seen_at = excluded.seen_at, purge_at = excluded.purge_at
	WHERE s.purge_at <= excluded.seen_at`

	// sightPostgres does not touch the row of a key that has come before. A key that is not new and has no first
	// command was committed after the statement's snapshot: ask again.
	sightPostgres = sightings + `, earlier AS MATERIALIZED (
	SELECT ` + earlierSighting + ` AS id FROM c LEFT JOIN there t ON true
), held AS (
	SELECT 1 FROM earlier WHERE $7::boolean AND earlier.id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM there)
), noted AS (
	` + noteNew + ` FROM c WHERE NOT EXISTS (SELECT 1 FROM there) AND NOT EXISTS (SELECT 1 FROM held)` + unlessKept + `
	RETURNING s.id
)
SELECT n.id IS NOT NULL OR EXISTS (SELECT 1 FROM held), t.hash_version, t.command_hash, e.id
FROM earlier e LEFT JOIN there t ON true LEFT JOIN noted n ON true`

	sightSQLite = sightings + `
SELECT t.hash_version IS NULL, t.hash_version, t.command_hash, ` + earlierSighting + `
FROM c LEFT JOIN there t ON true`
	noteSQLite = noteNew + ` FROM ` + clock + ` WHERE true` + unlessKept

	forgetSightings = `DELETE FROM {schema}.idempotency_sighting AS s WHERE s.id IN (
	SELECT e.id FROM {schema}.idempotency_sighting e
	WHERE e.purge_at <= {now} AND ` + inWindow + ` ORDER BY e.purge_at LIMIT $1 {skip locked})`
)

// insertSQLite claims on SQLite, where there is one writer and nothing to be raced.
const insertSQLite = `INSERT INTO {schema}.idempotency_record ` + insertColumns + `
SELECT ` + insertValues + ` FROM (SELECT {now} AS now) c WHERE c.now >= {epoch}$12{µs}
ON CONFLICT (id) DO NOTHING`

// lockSpace is the namespace of the advisory locks of records: mixed into their numbers, it keeps them away from those
// of the app, which may be made of hashes as well. Migrate has the number itself.
const lockSpace = 0x6964656d7265636f // "idemreco"

// claimPostgres claims in one statement, and returns the row that is there already otherwise. The primary key is the
// judge. The advisory lock only lets a loser go at once, instead of waiting for the owner's uncommitted row with a
// connection in its hand; it is taken only where no row is visible, so that repeats of a completed command take none.
//
// It returns one row: lock (NULL: not tried), won, now, the backend, and the columns of the row that was there. With the
// lock and neither a row won nor one visible, the row was committed after the statement's snapshot: claim again.
const claimPostgres = `WITH there AS MATERIALIZED (
	SELECT r.id FROM {schema}.idempotency_record r WHERE r.id = $1
), c AS MATERIALIZED (
	SELECT pg_catalog.clock_timestamp() AS now,
		CASE WHEN NOT EXISTS (SELECT 1 FROM there) THEN pg_catalog.pg_try_advisory_xact_lock($13::bigint) END AS lock,
		{durably} AS durably
		/*guard*/
), won AS (
	INSERT INTO {schema}.idempotency_record ` + insertColumns + `
	SELECT ` + insertValues + ` FROM c WHERE c.lock AND c.now >= {epoch}$12{µs}
	ON CONFLICT (id) DO NOTHING RETURNING id
)
SELECT c.lock, won.id IS NOT NULL, c.now, ` + recordColumns + `
FROM c LEFT JOIN won ON true LEFT JOIN {schema}.idempotency_record r ON r.id = $1`

// claimGuard bounds how long the server keeps the transaction of an attempt whose process or host is gone, for this
// transaction only (a session may belong to a pooler). client_connection_check_interval is there from PostgreSQL 14 on
// and not on every system.
const (
	claimGuard = `, pg_catalog.set_config('idle_in_transaction_session_timeout', $14::text, true),
		pg_catalog.set_config('tcp_user_timeout', '10000', true), ` + keepCommit
	claimGuardCheck = `, pg_catalog.set_config('client_connection_check_interval', '500', true)`
)

// takeOverPostgres does a takeOver under the record's advisory lock: another one's transaction may hold the row.
const takeOverPostgres = `WITH l AS MATERIALIZED (
	SELECT pg_catalog.pg_try_advisory_xact_lock($15::bigint) AS lock
), won AS (
	` + takeOver + `/*seen*/ AND (SELECT l.lock FROM l) RETURNING r.fence, r.attempts, r.created_at, c.now
)
SELECT l.lock, won.fence, won.attempts, won.created_at, won.now FROM l LEFT JOIN won ON true`

// look reads a record, or else tries its lock: both as they are at the snapshot of one statement.
const look = `SELECT CASE WHEN r.id IS NULL THEN pg_catalog.pg_try_advisory_xact_lock($2::bigint) END, {now}, ` +
	recordColumns + ` FROM (SELECT) AS one LEFT JOIN {schema}.idempotency_record r ON r.id = $1`

// tryLock takes the record's advisory lock if nobody holds it; only the primary's word counts.
const tryLock = `SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint), pg_catalog.pg_is_in_recovery()`

// touch changes nothing. Its COMMIT is confirmed by the synchronous standby, if there is one, and then so is everything
// that was committed before.
const touch = `UPDATE {schema}.idempotency_record AS r SET fence = r.fence WHERE r.id = $1 AND {durably}`

// touchRead is the touch of an answer that was read, if it still is the same.
const touchRead = touch + ` AND r.owner = $2 AND r.fence = $3 AND r.state = 2`

// atStandby looks for a backend that waits for the synchronous standby: by its process, or by the record that it writes,
// whose old version names its transaction.
const atStandby = `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity a WHERE a.wait_event = 'SyncRep'
	AND (a.pid = $1::bigint OR a.backend_xid = (SELECT r.xmax FROM {schema}.idempotency_record r WHERE r.id = $2)))`

// waitLock waits for the record's advisory lock.
const waitLock = `SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)`
