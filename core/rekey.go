package core

import (
	"context"
	"net/http"
	"time"
)

// DefaultRekeyWindow and MaxRekeyWindow are default and bound of Policy.RekeyWindow.
const (
	DefaultRekeyWindow = 10 * time.Minute
	MaxRekeyWindow     = 24 * time.Hour
)

// sight asks the store what it has seen of a command, and lets it remember the command. The client going away does not
// cancel it: a client that hangs up and comes again with a new key is what it is there for.
func (m *Module) sight(ctx context.Context, adm *admission, patience time.Duration) (Seen, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	s := Sighting{ID: adm.id, Scope: PrincipalScope(adm.principal), Hash: adm.hash, Window: adm.route.RekeyWindow,
		Keep: adm.route.RekeyWindow}
	if adm.id != (ID{}) {
		s.Keep = adm.route.Retention // for as long as a repeat would have been replayed
	}
	return m.cfg.Store.(Watcher).Sight(ctx, s) // New has refused any other store
}

// suspect tells of a command that came a short while ago under another key.
func (m *Module) suspect(r *http.Request, adm *admission, seen Seen) {
	e := adm.event(EventSuspectedDuplicate)
	e.Earlier = seen.Earlier
	m.observe(r.Context(), e)
}

// event is an event of a request that the key guard has seen.
func (a *admission) event(kind EventKind) Event {
	return Event{Kind: kind, Operation: a.id, Method: a.command.method, Route: a.pattern, Recovery: a.route.Recovery}
}
