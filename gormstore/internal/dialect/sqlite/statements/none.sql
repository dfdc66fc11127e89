-- What has no use here: nothing is sent.

-- name: insertTimed
-- insertRecord asks for the floor.

-- name: lookAnswer

-- name: lockClaim

-- name: lockGuarded

-- name: lockFirst
-- The lock is this process's.

-- name: lockAlone

-- name: lockUnknown

-- name: waitLocks

-- name: held

-- name: lockRecord

-- name: fenceOff

-- name: begun
-- A savepoint is the mark, and no process or host could be gone.

-- name: asBegun

-- name: askForCheck

-- name: readGuards

-- name: readSettings
-- None is changed for a transaction.

-- name: setSettings

-- name: withoutJIT

-- name: confirm
-- There is no standby.

-- name: atStandby
