package contracttest

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

var timedKeyChecks = []check{
	{"T-6", "only UUIDs of version 7 are timed keys", onlyUUIDv7, isTimed},
	{"T-6", "a key that is too old is refused", oldKeysAreRefused, isTimed},
	{"T-6", "a key from the future is refused", futureKeysAreRefused, isTimed},
}

func isTimed(r Route) bool { return r.KeyFormat == core.TimedKey }

// clocksApart is how far the app's clock may be from the suite's, for the suite to know what is too old.
const clocksApart = time.Minute

// newKey returns a key that was not used before.
func newKey() string { return keyMadeAt(time.Now()) }

// keyMadeAt returns a new UUID of version 7 (RFC 9562, section 5.7).
func keyMadeAt(t time.Time) string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:], uint64(t.UnixMilli())<<16)
	rand.Read(u[6:]) // never fails since Go 1.24
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// CONTRACT T-6, K-3
func onlyUUIDv7(p *probe) {
	key := newKey()
	for _, bad := range []string{key[:14] + "4" + key[15:], key[:14] + "1" + key[15:], key[:19] + "c" + key[20:], "order-1"} {
		p.refused(p.valid().withKey(bad), core.CodeKeyInvalid)
	}
}

// CONTRACT T-6, M-3
func oldKeysAreRefused(p *probe) {
	for range 2 {
		r := p.valid().withKey(keyMadeAt(time.Now().Add(-p.KeyAge - clocksApart)))
		for range 2 {
			found := p.refused(r, core.CodeKeyTooOld)
			require.Empty(p, found.retryAfter, "Retry-After of key_too_old: repeating would not help (T-6)")
			if p.ProblemCode == nil {
				require.NotNil(p, found.SafeNewKey, "the member safe_new_key of key_too_old (T-6)")
				require.False(p, *found.SafeNewKey, "the member safe_new_key of key_too_old (T-6)")
			}
		}
	}
	r := p.valid().withKey(keyMadeAt(time.Now().Add(-p.KeyAge / 2)))
	p.replays(p.apply(r), r)
}

// CONTRACT T-6
func futureKeysAreRefused(p *probe) {
	p.refused(p.valid().withKey(keyMadeAt(time.Now().Add(store.MaxKeyAhead+clocksApart))), core.CodeKeyInvalid)
	r := p.valid().withKey(keyMadeAt(time.Now().Add(store.MaxKeyAhead - clocksApart)))
	p.replays(p.apply(r), r)
}
