-- What has no use here: nothing is sent.

-- name: noteSighting
-- sight has noted it.

-- name: keyFloor
-- lookTimed returns it.
