-- Claims that take a record over. $1 is the record's id.

-- name: takeOver
-- Gives a record to a new attempt, as the record was seen: free where $20 is true, else a Resume attempt whose lease has run
-- out, for the same command. A resumable record may become free in between. A free record keeps only its fence, which rises.
-- A resumed record is still the same operation, with its steps; the time of its key was not judged, so that it does not
-- become a timed one. No row comes back where the record has changed, or where somebody holds the lock. There is no deadline
-- where COMMIT would not wait for the disk: that is refused.
--
-- $2 scope, $3 owner, $4 recovery, $5 method, $6 route, $7 and $8 command hash, $9 lease, $10 deadline, $11 realm, $12 begin
-- of the clock's window. A key that is judged by its time has in $15 the name of its floor, else ''. It may be claimed from
-- $13 to $14 by the clock, if $16, the time in it, is above the floor. $17 says whether the record is one of a timed key. $18 the
-- fence that was seen, $19 end of the clock's window. $21 is the trace of the new attempt, $22 how the attempts before it have ended.
UPDATE :"schema".idempotency_record AS r SET scope = $2, realm = $11, owner = $3, fence = r.fence + 1, state = 1,
	recovery = $4::smallint, method = $5, route = $6, hash_version = $7::smallint, command_hash = $8,
	created_at = CASE WHEN r.state = 1 THEN r.created_at ELSE :now END,
	attempts = CASE WHEN r.state = 1 THEN r.attempts + 1 ELSE 1 END,
	lease_until = :now + $9::bigint, deadline_at = CASE WHEN :durable THEN :now + $10::bigint END,
	expires_at = NULL, purge_at = NULL, status = 0, partial = false, answer_encoding = 1, headers = NULL, body = NULL,
	traceparent = $21::text, timed = r.timed OR $17::boolean AND r.state <> 1, ends = $22::bytea,
	due_at = NULL
WHERE r.id = $1 AND r.fence = $18::bigint AND :locked AND :now >= $12::bigint
	AND (r.state = 5 OR :now <= $19::bigint)
	AND (r.state = 1 OR $15::text = ''
		OR $16::bigint > coalesce((SELECT CAST(f.value AS bigint) FROM :"schema".idempotency_setting f
			WHERE f.name = $15::text), -1)
		AND :now BETWEEN $13::bigint AND $14::bigint)
	AND CASE WHEN $20::boolean THEN :free
		ELSE :resumable AND $4::smallint = 2 AND r.hash_version = $7::smallint AND r.command_hash = $8::bytea END
:taken;
