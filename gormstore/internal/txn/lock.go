package txn

import (
	"encoding/binary"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect"
)

// LockKey is the number of a record's advisory lock: 64 bits of the id's hash, in the library's own namespace. If two
// records share a number, the primary key still tells them apart. At worst, one of two simultaneous commands is refused
// and must try again. To cause that for another principal, an attacker needs 2^64 hashes (K-9).
func LockKey(id store.ID) int64 {
	return int64(binary.BigEndian.Uint64(id.Hash()) ^ dialect.LockSpace) //nolint:gosec // any 64 bits will do
}

// LockHalves are the halves of a lock's number, as pg_locks shows them.
func LockHalves(id store.ID) []any {
	key := uint64(LockKey(id)) //nolint:gosec // any 64 bits will do
	return []any{int64(key >> 32), int64(key & 0xffffffff)}
}
