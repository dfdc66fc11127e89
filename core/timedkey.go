package core

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of timed keys: see [TimedKey].
const (
	DefaultKeyAge = 24 * time.Hour // Policy.KeyAge
	MinKeyAge     = time.Minute    // of Policy.KeyAge
	// MaxKeyAhead is how far the time of a key may be ahead of a clock that judges it.
	MaxKeyAhead = 5 * time.Minute
)

// KeyTime is what a claim says about the time of its key. The zero KeyTime belongs to a key that has no time: it is never
// judged.
type KeyTime struct {
	// Made is the time in the key, in whole milliseconds of the client's clock. Zero where the key is not to be judged.
	Made time.Time
	// Timed: the route takes only timed keys. The record keeps it, and no clock outside of Claim.Window gives the key.
	Timed bool
	// Valid is when, by the store's clock, the key may be claimed without a record. The zero Window is any time.
	Valid Window
}

// Allows reports whether a key without a record may be claimed at now, by the store's clock. floor is the newest time that
// is refused, the zero time where there is none.
func (k KeyTime) Allows(now, floor time.Time) bool {
	return k.Made.IsZero() || k.Valid.Has(now) && k.Made.After(floor)
}

// never is a window that no clock is in: this process has refused the key by its time.
var never = Window{From: time.Unix(1, 0), To: time.Unix(0, 0)}

// Trusts reports whether a store's clock that shows now may give a key that has no record, or a freed one (T-5). One that
// is behind would forget the record too early; a timed key is judged by no clock outside of the window.
func (c Claim) Trusts(now time.Time) bool {
	if c.Key.Timed {
		return c.Window.Has(now)
	}
	return c.Window.Reached(now)
}

// KeyMade returns the time of the record's key in whole milliseconds, the zero time where Timed is false.
func (r Record) KeyMade() time.Time {
	if !r.Timed {
		return time.Time{}
	}
	var ms int64
	for _, b := range r.ID[:timeLen] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// Spent reports whether the record is a timed one past its time, which a sweep will drop. Its key stays refused, swept or
// not (T-6).
func (r Record) Spent() bool { return r.Timed && r.Stored != Free && r.State() == Free }

// keyMade is the time of a key that is a UUIDv7, the zero time of any other.
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

// RefuseKeysBefore is for an operator, after the database has lost commits: it was restored from a backup, or an
// asynchronous standby took over. From then on every instance refuses timed keys that were made before t and have no
// record, with 409 key_too_old, because their records may be lost. The database keeps t, and a later call can only raise it.
// Call RefuseKeysBefore before the app serves again. Pass the present time plus [MaxKeyAhead], because a client whose clock
// is ahead may have used a key with a later time. Keys without a time cannot be judged.
//
// Errors: t is more than 5 minutes ahead of this process's clock, which would refuse every key; [ErrClock] where that clock
// and the store's are too far apart to trust one of them with what cannot be taken back; the store keeps no times
// (core.KeyTimer); any other error means that the store did not answer, and the call can be repeated.
func (m *Module) RefuseKeysBefore(ctx context.Context, t time.Time) error {
	store, ok := m.cfg.Store.(KeyTimer)
	switch {
	case !ok:
		return fmt.Errorf("idem: RefuseKeysBefore: %T judges no timed keys (core.KeyTimer); use gormstore", m.cfg.Store)
	case t.After(m.cfg.Now().Add(MaxKeyAhead)):
		return fmt.Errorf("idem: RefuseKeysBefore: %s is more than %v ahead; every key would be refused",
			t.Format(time.RFC3339), MaxKeyAhead)
	}
	if err := store.RefuseKeysBefore(ctx, m.service, t, m.window()); err != nil {
		return fmt.Errorf("idem: RefuseKeysBefore: %w", err)
	}
	return nil
}

// timed reports whether the route takes only timed keys.
func (p Policy) timed() bool { return p.Recovery != 0 && p.KeyFormat == TimedKey }

// keptAtLeast is how long after the end of an attempt the record of a timed key stays, whatever the store's clock does
// within the bound. Until then the key is too old: it was at most MaxKeyAhead ahead when it was claimed. The deadline is
// the margin.
func (m *Module) keptAtLeast(p Policy) time.Duration {
	return p.KeyAge + 2*m.cfg.MaxClockSkew + MaxKeyAhead + p.Deadline
}

// checkTimedKeys returns what is wrong with the policies that ask for timed keys, and notes how long the records of all of
// them stay: as long as the longest age asks for, since they share a floor.
func (m *Module) checkTimedKeys() error {
	routes := map[string]*route{"Policy": m.own}
	for key, r := range m.routes {
		routes[fmt.Sprintf("Routes[%q]", key.method+" "+key.pattern)] = r
	}
	var errs []error
	for name, r := range routes {
		if r == nil || !r.timed() {
			continue
		}
		if _, ok := m.cfg.Store.(KeyTimer); !ok {
			errs = append(errs, fmt.Errorf("%s: KeyFormat: TimedKey needs a store that judges timed keys (core.KeyTimer), and %T "+
				"does not; use gormstore", name, m.cfg.Store))
		}
		least := m.keptAtLeast(r.Policy)
		m.timedFor = max(m.timedFor, least)
		switch {
		case r.KeyAge < MinKeyAge:
			errs = append(errs, fmt.Errorf("%s: KeyAge: %v is shorter than %v", name, r.KeyAge, MinKeyAge))
		case r.Retention < least:
			errs = append(errs, fmt.Errorf("%s: Retention: %v is shorter than %v, which is KeyAge (%v) + 2 * MaxClockSkew (%v) + "+
				"%v + Deadline (%v); the record of a timed key has to outlive the key (T-6)", name, r.Retention, least, r.KeyAge,
				m.cfg.MaxClockSkew, MaxKeyAhead, r.Deadline))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// tombstone is how long after retention a record stays that was made under p. That of a timed key has none: it stays only
// where another route of the module has a longer age.
func (m *Module) tombstone(p Policy, timed bool) time.Duration {
	switch {
	case !timed:
		return p.Tombstone
	case p.timed():
		return max(0, m.timedFor-p.Retention)
	default: // the route has left TimedKey since
		return max(p.Tombstone, m.timedFor-p.Retention)
	}
}

// completion says for how long an attempt's answer is kept. The record of a timed key has to outlive its key, whatever the
// answer is.
func (a *Attempt) completion(v verdict, answer Answer) Completion {
	if a.timed {
		return Completion{Answer: answer, Retention: a.route.Retention, Tombstone: a.m.tombstone(a.route.Policy, true)}
	}
	return a.route.completion(v, answer)
}

// keyTime is what the next claim says about the time of its key, by this process's clock at this moment.
func (m *Module) keyTime(adm *admission) KeyTime {
	k := KeyTime{Made: adm.keyMade, Timed: adm.route.timed()}
	if k.Timed {
		adm.judgedAt = m.cfg.Now()
		k.Valid = Window{From: k.Made.Add(-MaxKeyAhead), To: k.Made.Add(adm.keyAge)}
	}
	if adm.unaged || adm.tooOld || k.Timed && !k.Valid.Has(adm.judgedAt) {
		k.Valid = never
	}
	return k
}

// untimely is the problem of a key that has no record, and was refused by its time. now is the store's clock.
func (m *Module) untimely(adm *admission, now time.Time) *Problem {
	switch {
	case adm.unaged:
		return m.unavailable(ErrClock)
	case adm.route.timed() && adm.keyMade.After(earlier(now, adm.judgedAt).Add(MaxKeyAhead)):
		return NewProblem(CodeKeyInvalid, "the time in this key is ahead of the clock; nothing was run")
	}
	return NewProblem(CodeKeyTooOld, "this key is too old for a first request, and its record may be gone; find out whether "+
		"the command was carried out before it is sent with a new key")
}

// untimelyInShadow is the code that a key of a route in shadow would be refused with for its time, "" for none. Only this
// process's clock and policy are asked.
func (m *Module) untimelyInShadow(adm *admission) Code {
	if !adm.route.timed() || adm.keyMade.IsZero() {
		return ""
	}
	adm.keyAge = adm.route.KeyAge
	if m.keyTime(adm).Valid != never {
		return ""
	}
	return m.untimely(adm, adm.judgedAt).Code
}
