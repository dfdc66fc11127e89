-- What a database without locks, and without a mark that can be compared, says otherwise than PostgreSQL.

-- macro: try_lock
-- Nobody holds one.
(:it IS NOT NULL)

-- macro: mark
-- The savepoint is the mark. Another attempt may run beside.
0, 0::bigint, ''::text, :guards(:it) IS NOT NULL

-- name: begun
SELECT :mark('');

-- name: asBegun

-- name: lockAlone

-- name: waitLocks

-- name: held

-- name: ownsRecord
-- The record's row keeps takeovers out.
SELECT 1 FROM :"schema".idempotency_record r WHERE :owned AND r.state IN (1, 3) FOR UPDATE;
