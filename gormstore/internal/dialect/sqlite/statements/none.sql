-- What has no use here: nothing is sent.

-- name: waitLock
-- There is one writer.

-- name: withoutJIT

-- name: confirm
-- There is no standby.

-- name: askForCheck
-- No process or host could be gone.

-- name: readGuards

-- name: begun
-- A savepoint is the mark.
