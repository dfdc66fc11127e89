package core

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/auth19/idem/core/store"
)

// The default and the largest value of Policy.RekeyWindow.
const (
	defaultRekeyWindow = 10 * time.Minute
	maxRekeyWindow     = 24 * time.Hour
)

// checkRekey reports to bad what is wrong with RefuseRekeyed in a filled policy.
func (p Policy) checkRekey(st Store, bad func(format string, args ...any)) {
	if _, ok := st.(store.CommandLog); p.RefuseRekeyed && !ok {
		bad("RefuseRekeyed: needs a store that remembers commands (store.CommandLog), and %T does not; use gormstore", st)
	}
}

// refuseRekeyed is a gate. It refuses a suspected duplicate. A key that has a record is never suspected.
func (m *Module) refuseRekeyed(r *http.Request, q *request) *Problem {
	earlier, err := m.logCommand(r.Context(), q, m.cfg.ClaimTimeout)
	if err == nil && earlier.Rekeyed {
		earlier.Key, err = m.hasRecord(r.Context(), q.id)
	}
	switch {
	case err != nil:
		m.storeFailed(r.Context(), q.event(EventFailed), fmt.Errorf("rekey: %w", err))
		return m.unavailable(err)
	case earlier.Rekeyed && !earlier.Key:
		m.suspect(r, q, earlier)
		return suspectedDuplicate(earlier.Earlier)
	}
	return nil
}

// suspectedDuplicate is the problem that names the operation of the earlier key, which belongs to the same principal.
func suspectedDuplicate(earlier ID) *Problem {
	p := NewProblem(CodeSuspectedDuplicate, "the same command came a short while ago under another key; repeat it with that "+
		"key, or send it again later if it is meant twice")
	if earlier != (ID{}) {
		p.Operation = earlier.String()
	}
	return p
}

// logCommand asks the store what has come before a command, and stores the command. It is not cancelled if the client goes
// away, because it must detect a client that hangs up and comes again with a new key.
func (m *Module) logCommand(ctx context.Context, q *request, patience time.Duration) (store.EarlierCommands, error) {
	call := new(lazyContext).until(context.WithoutCancel(ctx), time.Now().Add(patience))
	defer call.cancel(context.Canceled)
	s := store.LoggedCommand{ID: q.id, Scope: m.cfg.Scoping.PrincipalScope(q.principal), Hash: q.hash,
		Window: q.route.RekeyWindow, Keep: q.route.RekeyWindow, Tentative: !q.shadow}
	if q.id != (ID{}) {
		s.Keep = q.route.Retention // for as long as a repeat would have been replayed
	}
	return m.cfg.Store.(store.CommandLog).LogCommand(call, s) // New has refused any other store
}

// suspect sends the event of a command that came a short time ago with another key.
func (m *Module) suspect(r *http.Request, q *request, earlier store.EarlierCommands) {
	e := q.event(EventSuspectedDuplicate)
	e.Earlier = earlier.Earlier
	m.observe(r.Context(), e)
}
