-- The steps of Resume attempts. $1 is the record's id.

-- name: forgetOlder
-- Drops the steps of a free record behind the statement that has taken it, $2 its new fence. Sweep and erasure come to the
-- record first, too.
DELETE FROM :"schema".idempotency_step AS s WHERE s.record_id = $1 AND s.fence < $2;
