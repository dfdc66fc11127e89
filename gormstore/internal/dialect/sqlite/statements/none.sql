-- What has no use here: nothing is sent.

-- name: waitLock
-- There is one writer.

-- name: withoutJIT

-- name: confirm
-- There is no standby.
