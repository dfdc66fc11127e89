package core

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core/internal/names"
	"github.com/auth19/idem/core/store"
)

// Internals are what package operations needs of a module. An app has no use for them.
type Internals struct {
	Config  Config // with its defaults
	Service []byte // the beginning of the realms of this service (S-5)
	// KeptFor is how long the records of timed keys stay after the end of their attempt, at least; 0 without such keys.
	KeptFor           time.Duration
	Calls, References *names.Seen // that this process has seen

	m *Module
}

// Internals returns what package operations needs.
func (m *Module) Internals() Internals {
	return Internals{m.cfg, m.service, m.timedFor, &m.calls, &m.refNames, m}
}

// Observe tells the observer of e.
func (in Internals) Observe(ctx context.Context, e Event) { in.m.observe(ctx, e) }

// Refuse renders a problem as the reply to r.
func (in Internals) Refuse(r *http.Request, p *Problem) *Reply { return in.m.refuse(r, p) }

// Unauthenticated refuses a principal that lacks something, and tells the observer what (O-7).
func (in Internals) Unauthenticated(r *http.Request, p Principal, detail string) *Problem {
	return in.m.unauthenticated(r, p, detail)
}

// Unavailable is the problem of an error of the store.
func (in Internals) Unavailable(err error) *Problem { return in.m.unavailable(err) }

// Lacks says what a principal lacks to have records; nil if nothing.
func (in Internals) Lacks(p Principal) error { return in.m.cfg.Scoping.lacks(p) }

// CheckScoping is [Module.CheckScoping] for a request.
func (in Internals) CheckScoping(r *http.Request) *Problem { return in.m.checkScoping(r, "") }

// KeyOf returns the key in the header of a request, of any format.
func (in Internals) KeyOf(r *http.Request) (string, *Problem) { return in.m.keyOf(r, AnyKey) }

// Sendable reports whether a client can send a key. It returns it as a route of p wants it to be sent, and when it was made;
// the zero time if it has no time.
func (in Internals) Sendable(p Policy, key string) (sent string, made time.Time, ok bool) {
	if lower := strings.ToLower(key); p.KeyFormat != AnyKey && isUUID(lower) {
		key = lower
	}
	return key, keyMade(key), key != "" && len(key) <= maxKeyLen && isVisibleASCII(key)
}

// Policies returns the policies of the table, or the module's own if there is no table.
func (in Internals) Policies() (policies []Policy) {
	for _, r := range in.m.allRoutes() {
		policies = append(policies, r.Policy)
	}
	return policies
}

// Guarded returns the policy of a guarded route, by the pattern that it has now.
func (in Internals) Guarded(method, pattern string) (policy Policy, ok bool) {
	if r, _ := in.m.route(method, pattern); r != nil && r.guarded() {
		return r.Policy, true
	}
	return Policy{}, false
}

// PolicyOf returns the policy of a record's route, also under a former pattern. If this release does not know the route,
// known is false, and the policy has the defaults.
func (in Internals) PolicyOf(method, pattern string) (policy Policy, known bool) {
	return in.m.policyOf(method, pattern)
}

// Reviewed reports whether the answer of a record may be shown to a caller: it has none, or Policy.Review allows it (O-3).
func (in Internals) Reviewed(ctx context.Context, p Policy, caller Principal, rec *Record) bool {
	return p.reviewed(ctx, caller, rec)
}

// Recorded returns the headers of h that are recorded.
func (in Internals) Recorded(h http.Header) http.Header { return in.m.recordedHeader(h) }

// NewOwner returns the owner of a new record of this instance.
func (in Internals) NewOwner() store.Owner { return in.m.newOwner() }

// Judged returns a record from which a question is answered, by the clock that is behind if the clocks are too far apart.
func (in Internals) Judged(ctx context.Context, rec Record) Record { return in.m.judged(ctx, rec) }

// Window is what the store's clock may show now.
func (in Internals) Window() store.Window { return in.m.window() }

// TellClock tells the observer of clocks that are too far apart, if that is what err says.
func (in Internals) TellClock(ctx context.Context, err error) {
	if errors.Is(err, ErrClock) {
		in.m.tellClock(ctx, err)
	}
}

// StepsOf reads the steps of an operation, which may take as long as an attempt.
func (in Internals) StepsOf(ctx context.Context, rec Record) ([]store.StepRecord, error) {
	return in.m.stepsOf(ctx, rec)
}

// MayBeUndone returns store.ErrStepsFinished for a decision that says not applied where steps have finished, and not what
// has undone them.
func (in Internals) MayBeUndone(ctx context.Context, rec Record, d Decision) error {
	return in.m.mayBeUndone(ctx, rec, d)
}

// Settle settles what rec shows as d says, which was checked. proposal is the token of the one that it carries out, and
// proposer who has made it, both zero without one.
func (in Internals) Settle(ctx context.Context, rec Record, d Decision, proposal [16]byte, proposer string) (Record, error) {
	return in.m.settle(ctx, rec, d, proposal, proposer)
}

// Resumed reports whether Config.Resume goes on with operations of a route.
func (in Internals) Resumed(method, pattern string) bool {
	return in.m.resumerOf(method, pattern) != nil
}

// Wake lets Run look for half-done operations at once; in an attempt, as soon as it has committed.
func (in Internals) Wake(ctx context.Context) {
	if a := attemptFrom(ctx); a != nil {
		a.wakes = true
	} else {
		in.m.wakeRun()
	}
}
