package operations

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// refusedKeysView is the answer of [RefuseKeys].
type refusedKeysView struct {
	Before  time.Time `json:"before"`
	Routes  int       `json:"routes"`  // that take timed keys only
	Clients string    `json:"clients"` // what they are told
}

// refusedClients is what clients are told whose keys are refused.
const refusedClients = "409 key_too_old with safe_new_key false, for a key that was made before and has no record"

// timedRoutes counts the routes that take timed keys only.
func (m *Operations) timedRoutes() (n int) {
	for _, policy := range m.in.Policies() {
		if isTimed(policy) {
			n++
		}
	}
	return n
}

// isTimed reports whether a route of a policy takes timed keys only.
func isTimed(p core.Policy) bool { return p.Recovery != 0 && p.KeyFormat == core.TimedKey }

// TakesTimedKeys reports whether a guarded route takes timed keys only, by the table or the module's own policy.
func (m *Operations) TakesTimedKeys(method, pattern string) bool {
	policy, ok := m.in.Guarded(method, pattern)
	return ok && isTimed(policy)
}

// Refusals is what a supervisor has to know to refuse keys: see [RefuseKeys].
type Refusals struct {
	Routes  int       // that take timed keys only
	Clients string    // what their clients are told
	Latest  time.Time // the latest time before which keys can be refused
	History []store.SettlementRecord
}

// Refusals returns what a supervisor has to know to refuse keys. It is ErrNotFound for any other operator.
func (o *Operator) Refusals(ctx context.Context) (Refusals, error) {
	if !o.Supervises() {
		return Refusals{}, core.ErrNotFound
	}
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	history, err := o.ops.store.History(ctx, store.RefusalsID(o.ops.service))
	return Refusals{o.ops.timedRoutes(), refusedClients, o.ops.latestRefusal(), history}, err
}

// RefuseKeysBefore is for an operator, after the database has lost commits: after a restore from a backup, or after a
// failover to an asynchronous standby. From then on every instance refuses timed keys that were made before t and have no
// record, with 409 key_too_old, because their records may be lost. The database keeps t, and a later call can only raise
// it. Call RefuseKeysBefore before the app serves again. Pass the present time plus [store.MaxKeyAhead] (5 minutes), because
// a client whose clock is ahead may have used a key with a later time. Keys without a time cannot be judged. Only
// [RefuseKeys] knows who decides, and leaves a row of the history.
//
// Errors: t is more than 5 minutes ahead of this process's clock, which would refuse every key; [core.ErrClock] if that
// clock and the store's are too far apart, because the call cannot be undone; the store is not a [store.Settings]. Any other
// error means that the store did not answer: repeat the call.
func (m *Operations) RefuseKeysBefore(ctx context.Context, t time.Time) error {
	return m.refuseBefore(ctx, store.Refusal{Before: t})
}

func (m *Operations) refuseBefore(ctx context.Context, r store.Refusal) error {
	st, ok := m.cfg.Store.(store.Settings)
	switch {
	case !ok:
		return fmt.Errorf("idem: RefuseKeysBefore: %T judges no timed keys (store.Settings); use gormstore", m.cfg.Store)
	case r.Before.After(m.latestRefusal()):
		return fmt.Errorf("idem: RefuseKeysBefore: %s is more than %v ahead; every key would be refused",
			r.Before.Format(time.RFC3339), store.MaxKeyAhead)
	}
	r.Window = m.in.Window()
	if err := st.RefuseKeysBefore(ctx, m.service, r); err != nil {
		return fmt.Errorf("idem: RefuseKeysBefore: %w", err)
	}
	return nil
}

// latestRefusal is the latest time before which keys can be refused.
func (m *Operations) latestRefusal() time.Time { return m.cfg.Now().Add(store.MaxKeyAhead) }

// refuseKeys is [RefuseKeys].
func (q *request) refuseKeys() (*core.Reply, *core.Problem) {
	var req struct {
		Before time.Time `json:"before"`
		Reason string    `json:"reason"`
	}
	err := unmarshalStrict(q.body, &req)
	switch {
	case err != nil || req.Before.IsZero() || strings.TrimSpace(req.Reason) == "" || len(req.Reason) > maxWhy ||
		!text.Storable(req.Reason):
		return nil, core.NewProblem(core.CodeBadRequest, fmt.Sprintf("want a JSON object with before, a time of RFC 3339, and "+
			"reason, of at most %d bytes", maxWhy))
	case req.Before.After(q.latestRefusal()):
		return nil, core.NewProblem(core.CodeBadRequest, "before: it may be at most 5 minutes ahead; every key would be refused")
	}
	if _, ok := q.cfg.Store.(store.Settings); !ok {
		return nil, core.NewProblem(core.CodeMisconfigured, "the store judges no timed keys (store.Settings); use gormstore")
	}
	refusal := store.Refusal{Before: req.Before, Who: q.by.Name(), Why: req.Reason}
	if err := q.refuseBefore(q.Context(), refusal); err != nil {
		q.in.TellClock(q.Context(), err)
		return nil, q.in.Unavailable(err)
	}
	view := refusedKeysView{Before: req.Before.UTC(), Routes: q.timedRoutes(), Clients: refusedClients}
	q.in.Observe(q.Context(), core.Event{Kind: core.EventKeysRefused, Until: view.Before, Count: view.Routes,
		Who: q.by.Name(), Why: req.Reason})
	return jsonReply(http.StatusOK, view)
}
