package core

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/auth19/idem/core/store"
)

// never is a window that contains no time. This process uses it for a key that it has refused by its time.
var never = store.Window{From: time.Unix(1, 0), To: time.Unix(0, 0)}

// keyMade is the time of a key that is a UUIDv7; the zero time for any other key.
func keyMade(key string) time.Time {
	if !isUUIDv7(key) {
		return time.Time{}
	}
	var bits [8]byte
	// Cannot fail: these are hex digits.
	_, _ = hex.Decode(bits[2:6], []byte(key[:8]))
	_, _ = hex.Decode(bits[6:], []byte(key[9:13]))
	var ms int64
	for _, b := range bits {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// timed reports whether the route takes only timed keys.
func (p Policy) timed() bool { return p.Recovery != 0 && p.KeyFormat == TimedKey }

// keptAtLeast is how long after the end of an attempt the record of a timed key stays, even if the clocks differ by
// MaxClockSkew. After that time the key is too old, because it was at most store.MaxKeyAhead ahead when it was claimed. The
// deadline is the margin.
func (m *Module) keptAtLeast(p Policy) time.Duration {
	return p.KeyAge + 2*m.cfg.MaxClockSkew + store.MaxKeyAhead + p.Deadline
}

// checkTimedKeys returns what is wrong with the policies that ask for timed keys. It also computes how long all their
// records stay: as long as the longest age requires, because they share a floor.
func (m *Module) checkTimedKeys() error {
	var errs []error
	for _, r := range m.allRoutes() {
		if !r.timed() {
			continue
		}
		name := r.field()
		if m.operatorsOnly(r.Policy) {
			errs = append(errs, fmt.Errorf("%s: KeyFormat: a route of operators takes no timed keys: they have to settle while keys "+
				"are refused; set core.UUIDKey", name))
		}
		if _, ok := m.cfg.Store.(store.Settings); !ok {
			errs = append(errs, fmt.Errorf("%s: KeyFormat: TimedKey needs a store that judges timed keys (store.Settings), and %T "+
				"does not; use gormstore", name, m.cfg.Store))
		}
		least := m.keptAtLeast(r.Policy)
		m.timedFor = max(m.timedFor, least)
		switch {
		case r.KeyAge < store.MinKeyAge:
			errs = append(errs, fmt.Errorf("%s: KeyAge: %v is shorter than %v", name, r.KeyAge, store.MinKeyAge))
		case r.Retention < least:
			errs = append(errs, fmt.Errorf("%s: Retention: %v is shorter than %v, which is KeyAge (%v) + 2 * MaxClockSkew (%v) + "+
				"%v + Deadline (%v); the record of a timed key has to outlive the key: shorten KeyAge, or lengthen Retention, to "+
				"%v at most", name, r.Retention, least, r.KeyAge,
				m.cfg.MaxClockSkew, store.MaxKeyAhead, r.Deadline, store.MaxRetention))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// operatorsOnly reports whether only operators have the roles of a route: it settles, erases, pushes or refuses.
func (m *Module) operatorsOnly(p Policy) bool {
	for _, role := range p.Roles {
		named := func(r IssuerRole) bool { return r.Role == role }
		if !slices.ContainsFunc(m.cfg.OperatorRoles, named) && !slices.ContainsFunc(m.cfg.SupervisorRoles, named) {
			return false
		}
	}
	return len(p.Roles) > 0
}

// tombstone is how long a record that was made under p stays after its retention. The record of a timed key has no
// tombstone: it stays only if another route of the module has a longer age.
func (m *Module) tombstone(p Policy, timed bool) time.Duration {
	switch {
	case !timed:
		return p.Tombstone
	case p.timed():
		return max(0, m.timedFor-p.Retention)
	default: // the route has left TimedKey after the claim
		return max(p.Tombstone, m.timedFor-p.Retention)
	}
}

// keyTime is the KeyTime of the next claim, by this process's clock at this moment.
func (m *Module) keyTime(q *request) store.KeyTime {
	k := store.KeyTime{Made: q.keyMade, Timed: q.route.timed()}
	if k.Timed {
		q.judgedAt = m.cfg.Now()
		k.Valid = store.Window{From: k.Made.Add(-store.MaxKeyAhead), To: k.Made.Add(q.keyAge)}
	}
	if q.unaged || q.tooOld || k.Timed && !k.Valid.Has(q.judgedAt) {
		k.Valid = never
	}
	return k
}

// keyRefused is the problem of a key that has no record and was refused because of its time. now is the store's clock.
func (m *Module) keyRefused(q *request, now time.Time) *Problem {
	switch {
	case q.unaged:
		return m.unavailable(ErrClock)
	case q.route.timed() && q.keyMade.After(earlier(now, q.judgedAt).Add(store.MaxKeyAhead)):
		return NewProblem(CodeKeyInvalid, "the time in this key is ahead of the clock; nothing was run")
	}
	return NewProblem(CodeKeyTooOld, "this key is too old for a first request, and its record may be gone; find out whether "+
		"the command was carried out before it is sent with a new key")
}
