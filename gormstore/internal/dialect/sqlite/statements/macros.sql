-- Times are microseconds since 1970. SQLite's clock counts milliseconds.

-- macro: now
CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000

-- macro: server
-- There is no backend to be named.
0, NULL

-- macro: durably
true

-- macro: durable
true

-- macro: latest
max(:it)

-- macro: earliest
min(:it)

-- macro: must_one
-- The caller looks whether a row has come.
:it

-- macro: taken
-- The rows are counted, and a driver may count none where rows come back (mattn/go-sqlite3). A look follows.

-- macro: locked
true

-- macro: skip_locked
-- There is one writer.

-- macro: for_update

-- macro: this_database
-- The path of the file; empty for a database in memory.
SELECT file FROM pragma_database_list WHERE name = 'main'

-- macro: ids
-- One of those in the JSON array :it.
IN (SELECT unhex(j.value) FROM json_each(:it) j)

-- macro: pairs
-- Those in the JSON array :it, id and owner.
(SELECT unhex(j.value->>0) AS id, unhex(j.value->>1) AS owner FROM json_each(:it) j)
