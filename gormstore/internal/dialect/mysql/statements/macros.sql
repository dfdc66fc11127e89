-- Times are microseconds since 1970, by the statement's clock, in no time zone.

-- macro: now
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- macro: server
-- There is no standby that a COMMIT could be proven to wait for.
0, NULL

-- macro: durably
true

-- macro: durable
true

-- macro: latest
GREATEST(:it)

-- macro: earliest
LEAST(:it)

-- macro: or_fail
-- Returns the time where :it is true, and fails with 1242 where it is not.
SELECT IF(:it, :now, (SELECT v.n FROM :"schema".idempotency_never v))

-- macro: must_one
:it;
:or_fail(ROW_COUNT() = 1)

-- macro: skip_locked
FOR UPDATE SKIP LOCKED

-- macro: for_update
FOR UPDATE

-- macro: this_database
SELECT CONCAT(@@hostname, ' ', @@port, ' ', DATABASE())

-- macro: ids
-- One of those in the JSON array :it, which literal.go writes as a list: by a subquery an UPDATE would read the whole table.
IN (each(:it))

-- macro: pairs
-- Those in the JSON array :it, id and owner.
(SELECT UNHEX(k.id) AS id, UNHEX(k.owner) AS owner FROM JSON_TABLE(:it, '$[*]' COLUMNS (id varchar(64) PATH '$[0]', owner varchar(32) PATH '$[1]')) k)

-- macro: slot
-- The slot of a lock's number :it.
(:it & 65535)
