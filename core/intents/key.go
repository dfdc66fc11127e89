package intents

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/auth19/idem/core/store"
)

// NewKey returns a new random key: a UUID, version 7 (RFC 9562, section 5.7). It begins with the time, so that new
// records are close together in the index of a server of this library (K-9).
func NewKey() string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:], uint64(time.Now().UnixMilli())<<16)
	rand.Read(u[6:]) // never fails since Go 1.24
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MinSecret is the shortest secret of [NewSecret], in bytes.
const MinSecret = 32

// Secret derives the keys of intents from their names: see KeysOf of gormstore/journal. It is safe for use by any number
// of goroutines.
type Secret struct{ of []byte }

// NewSecret returns a Secret of at least [MinSecret] random bytes. Without these bytes, nobody can compute the key of an
// intent from its name, and use the key first.
func NewSecret(of []byte) (*Secret, error) {
	if len(of) < MinSecret {
		return nil, errors.New("idem: intents.NewSecret: the secret is shorter than 32 bytes; take them from crypto/rand")
	}
	return &Secret{append([]byte(nil), of...)}, nil
}

// Key is the key of an intent: a UUID, version 8. It never changes, because its layout is frozen.
func (s *Secret) Key(intent string) string {
	mac := hmac.New(sha256.New, s.of)
	mac.Write([]byte("intent/1"))
	mac.Write([]byte(intent))
	return store.DerivedKey(mac.Sum(nil)).UUID()
}
