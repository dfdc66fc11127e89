-- What has no use here: nothing is sent.

-- name: insertTimed
-- insertRecord asks for the floor.

-- name: lockUnknown
-- A stranger may have the slot, and the primary key judges.

-- name: lockClaim
-- insertRecord and takeOver take the slot.

-- name: lockGuarded

-- name: waitLocks
-- The rows are waited for.

-- name: begun
-- A savepoint is the mark.

-- name: asBegun

-- name: askForCheck

-- name: readGuards

-- name: readSettings

-- name: setSettings

-- name: withoutJIT

-- name: confirm

-- name: atStandby
