package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/store"
)

// keys is a kind of keys that clients send. It decides where records lie in the primary key.
type keys struct {
	name  string
	timed bool // the id of a record begins with the time of its key
	fresh func() string
}

var (
	uuidv7 = keys{name: "UUIDv7", timed: true, fresh: intents.NewKey}
	random = keys{name: "random", fresh: func() string { return hex.EncodeToString(randomBytes(16)) }}
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails since Go 1.24
	return b
}

// newID is the id of a command that a client sends now.
func (k keys) newID() store.ID {
	return core.Scoping{}.RecordID(core.Principal{Issuer: "https://issuer.example", Subject: "customer-1"}, k.fresh())
}

// idOf is the id of a generated record, of a key that was made with it. A hash cannot be told from any other.
func (k keys) idOf(i int64, made time.Time) store.ID {
	id := store.ID(sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i))))
	if k.timed {
		ms := binary.BigEndian.AppendUint64(nil, uint64(made.UnixMilli()))
		copy(id[:], ms[2:])
	}
	return id
}
