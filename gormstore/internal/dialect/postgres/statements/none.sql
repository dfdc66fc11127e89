-- What has no use here: nothing is sent.

-- name: insertCommand
-- logCommand has noted it.

-- name: keyFloor
-- lookTimed returns it.
