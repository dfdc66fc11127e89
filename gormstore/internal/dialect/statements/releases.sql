-- Claims whose owners got an error, and so know no fence: see Release of gormstore. $1 is a JSON array, of ids, unless a
-- comment says otherwise.

-- name: releaseOwners
-- Frees the keys of those that have won, and returns the ids: $2 is a JSON array of their owners, $3 how long the rows stay. If a
-- claim took over a Resume attempt, its finished steps must not be lost: the lease ends, and the next repeat goes on. It was no
-- attempt, and the record is nobody's, $4: sent again, this finds nothing. With 1 attempt the next claim would be a first one, and
-- run its steps again. The fence rises, so that a takeover that comes late finds another one (X-15).
UPDATE :"schema".idempotency_record AS r SET
	state = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN 1 ELSE 5 END, fence = r.fence + 1,
	owner = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN $4::bytea ELSE r.owner END,
	attempts = :latest(r.attempts - 1, 1), lease_until = :now, purge_at = :now + $3::bigint,
	due_at = CASE WHEN r.recovery = 2 AND r.fence > 1 THEN NULL ELSE :now + $3::bigint END
WHERE r.id :ids($1) AND r.owner :ids($2) AND r.state = 1
RETURNING id;

-- name: lostRecords
-- What is there: the owner, the state, whether the key is free by now, whether nobody runs this Resume operation, and its fence.
SELECT r.id, r.owner, r.state, (:free), (:resumable), r.fence FROM :"schema".idempotency_record r WHERE r.id :ids($1);

-- name: fenceOffLate
-- Keeps out claims that were given up and may still be under way to the server: their inserts find a free record, and what takes
-- a free one finds another fence. $1 is a JSON array of ids with owners, $2 how long the rows stay. $3 and $4 stand for the hashes,
-- which a free record does not need. A record that is free only because its time is over stays what it is: the clock may be wrong.
INSERT INTO :"schema".idempotency_record AS r (id, scope, owner, fence, state, recovery, method, route, hash_version,
	command_hash, created_at, lease_until, deadline_at, purge_at, realm, due_at)
SELECT j.id, $3::bytea, j.owner, 1, 5, 3, '', '', 1, $3::bytea, :now, :now, :now, :now + $2::bigint, $4::bytea, :now + $2::bigint
FROM :pairs($1) j
WHERE true
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, fence = r.fence + 1,
	purge_at = CASE WHEN r.state = 5 THEN :latest(r.purge_at, excluded.purge_at) ELSE r.purge_at END,
	due_at = CASE WHEN r.state = 5 THEN :latest(r.due_at, excluded.due_at) ELSE r.due_at END
WHERE :free;
