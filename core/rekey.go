package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// defaultRekeyWindow and maxRekeyWindow are default and bound of Policy.RekeyWindow.
const (
	defaultRekeyWindow = 10 * time.Minute
	maxRekeyWindow     = 24 * time.Hour
)

// Rekey says what happens to a suspected duplicate: a command under a new key that the same principal sent a short time
// ago under another key. This is the most common cause of a double charge: a client that makes a key for each attempt
// instead of each intent. But the caller may also mean two equal commands. A key that has a record is never suspected.
//
// It detects and does not guarantee: two commands that arrive at the same moment may both pass, and so does a command that
// differs in one byte of meaning. It costs one statement per request.
type Rekey uint8

// What happens to a suspected duplicate.
const (
	RekeyOff    Rekey = iota // commands are not compared
	RekeyReport              // it passes, and the observer is told: EventSuspectedDuplicate
	// RekeyRefuse: 409 suspected_duplicate, with the operation of the earlier key, until RekeyWindow is over. A repeat with
	// the earlier key gets the recorded answer, or runs if nothing was applied. If the store does not answer: 503.
	RekeyRefuse
)

// checkRekey returns what is wrong with the detector of a filled policy.
func (p Policy) checkRekey(store Store, bad func(format string, args ...any)) {
	if p.Rekey > RekeyRefuse {
		bad("Rekey: %d is none of core.RekeyOff, core.RekeyReport, core.RekeyRefuse", p.Rekey)
	}
	if _, ok := store.(Watcher); p.Rekey != RekeyOff && !ok {
		bad("Rekey: needs a store that remembers commands (core.Watcher), and %T does not; use gormstore", store)
	}
}

// detectRekey runs before the claim. It decides no claim: it lets a request go on to it, or refuses it for good.
func (m *Module) detectRekey(r *http.Request, adm *admission) *Problem {
	if adm.route.Rekey == RekeyOff {
		return nil
	}
	refuse, patience := adm.route.Rekey == RekeyRefuse, min(shadowPatience, m.cfg.ClaimTimeout)
	if refuse {
		patience = m.cfg.ClaimTimeout
	}
	seen, err := m.sight(r.Context(), adm, patience)
	if err == nil && seen.Rekeyed && refuse {
		seen.Key, err = m.hasRecord(r.Context(), adm.id)
	}
	switch {
	case err != nil:
		e := adm.event(EventFailed)
		e.Err = fmt.Errorf("rekey: %w", err)
		m.observe(r.Context(), e)
		if refuse {
			return m.unavailable(err)
		}
	case seen.Rekeyed && !seen.Key:
		m.suspect(r, adm, seen)
		if refuse {
			return suspectedDuplicate(seen.Earlier)
		}
	}
	return nil
}

// hasRecord reports whether a key has a record: then the claim knows what to answer.
func (m *Module) hasRecord(ctx context.Context, id ID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ClaimTimeout)
	defer cancel()
	rec, err := m.cfg.Store.Find(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && m.judged(ctx, rec).State() != Free, err
}

// suspectedDuplicate names the operation of the earlier key. It belongs to the same principal.
func suspectedDuplicate(earlier ID) *Problem {
	p := NewProblem(CodeSuspectedDuplicate, "the same command came a short while ago under another key; repeat it with that "+
		"key, or send it again later if it is meant twice")
	if earlier != (ID{}) {
		p.Operation = earlier.String()
	}
	return p
}

// sight asks the store what it has seen of a command, and lets it remember the command. The client going away does not
// cancel it: a client that hangs up and comes again with a new key is what it is there for.
func (m *Module) sight(ctx context.Context, adm *admission, patience time.Duration) (Seen, error) {
	call := new(bounded).until(context.WithoutCancel(ctx), time.Now().Add(patience))
	defer call.cancel(context.Canceled)
	s := Sighting{ID: adm.id, Scope: m.cfg.Scoping.PrincipalScope(adm.principal), Hash: adm.hash, Window: adm.route.RekeyWindow,
		Keep: adm.route.RekeyWindow, Tentative: !adm.shadow && adm.route.Rekey == RekeyRefuse}
	if adm.id != (ID{}) {
		s.Keep = adm.route.Retention // for as long as a repeat would have been replayed
	}
	return m.cfg.Store.(Watcher).Sight(call, s) // New has refused any other store
}

// suspect tells of a command that came a short while ago under another key.
func (m *Module) suspect(r *http.Request, adm *admission, seen Seen) {
	e := adm.event(EventSuspectedDuplicate)
	e.Earlier = seen.Earlier
	m.observe(r.Context(), e)
}
