// Package digest makes the hash of which record ids, scopes, realms and derived keys are made.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
)

// Fields is SHA-256 over the fields. Each field follows its length, so that no two lists of fields collide.
func Fields(fields ...string) [sha256.Size]byte {
	buf := make([]byte, 0, 512) // a constant, to stay off the heap in the common case
	for _, f := range fields {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(f)))
		buf = append(buf, f...)
	}
	return sha256.Sum256(buf)
}
