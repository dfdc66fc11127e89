// Package operations is for those who look after operations: clients that have lost an answer, and operators, who find,
// settle, push, erase and import. It stands on a [core.Module]:
//
//	ops := operations.New(idem)
//	record, err := ops.Settle(ctx, id, core.Decision{Applied: true, Answer: answer, Who: "olga", Why: "the provider has it"})
//
// Over HTTP an adapter mounts it, one route for each [Handler]:
//
//	v1.POST("/operations/:id/settle", ginidem.Operations(idem, operations.Settle))
package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Operations are the operations of a module. It is safe for use by any number of goroutines.
type Operations struct {
	module  *core.Module
	in      core.Internals
	cfg     core.Config
	store   store.Operations // of cfg.Store
	service []byte           // the beginning of its realms
}

// New returns the operations of a module.
func New(m *core.Module) *Operations {
	in := m.Internals()
	return &Operations{m, in, in.Config, in.Config.Store.(store.Operations), in.Service} // core.New has refused any other store
}

// Operator returns the access that p has as an operator. denied is why the app has found no principal, or nil; the observer
// is told of it, with the pattern of r and the operation of its parameter "id" (O-7). The problem is 401 if p is not a
// principal that Config.Scoping accepts, and 403 if p has none of Config.OperatorRoles and Config.SupervisorRoles.
func (m *Operations) Operator(r *http.Request, p core.Principal, denied error) (*Operator, *core.Problem) {
	switch lacks := m.in.Lacks(p); {
	case denied != nil || lacks != nil:
		_, pattern, _ := strings.Cut(r.Pattern, " ")
		id, _ := core.ParseID(r.PathValue("id"))
		m.in.Observe(r.Context(), core.Event{Kind: core.EventRefused, Operation: id, Method: r.Method, Route: pattern,
			Code: core.CodeUnauthenticated, Err: cmp.Or(causeOf(denied), lacks)})
		return nil, core.NewProblem(core.CodeUnauthenticated, "operations need an authenticated caller")
	case !m.isOperator(p):
		return nil, core.NewProblem(core.CodeForbidden, "only operators may look at operations: "+m.operatorRoles())
	}
	return &Operator{m, p}, nil
}

// causeOf is why a login was not accepted, without the error's text, which may quote the token: authctx says its own reason.
func causeOf(denied error) error {
	if denied == nil {
		return nil
	}
	if own, ok := errors.AsType[interface {
		error
		Reason() string
	}](denied); ok {
		return errors.New("idem: " + own.Reason())
	}
	if errors.Is(denied, http.ErrNoCookie) {
		return errors.New("idem: the request has no cookie with a login")
	}
	return fmt.Errorf("idem: the app found no principal: %T", denied)
}

// operatorRoles says which roles an operator needs one of.
func (m *Operations) operatorRoles() string {
	var roles []string
	for _, r := range slices.Concat(m.cfg.OperatorRoles, m.cfg.SupervisorRoles) {
		text := strconv.Quote(r.Role)
		if r.Issuer != "" {
			text += " from " + r.Issuer
		}
		roles = append(roles, text)
	}
	if len(roles) == 0 {
		return "this service has none, see Config.OperatorRoles"
	}
	return "the login needs the role " + strings.Join(roles, ", or ")
}

func (m *Operations) isOperator(p core.Principal) bool {
	return hasOneOf(p, m.cfg.OperatorRoles) || m.isSupervisor(p)
}

func (m *Operations) isSupervisor(p core.Principal) bool { return hasOneOf(p, m.cfg.SupervisorRoles) }

// hasOneOf reports whether p has one of the roles from the issuer that may give it.
func hasOneOf(p core.Principal, roles []core.IssuerRole) bool {
	return slices.ContainsFunc(roles, func(r core.IssuerRole) bool {
		return r.Issuer == p.Issuer && slices.Contains(p.Roles, r.Role)
	})
}

// operated returns the beginning of the realms whose operations an operator may see and settle (S-5).
func (m *Operations) operated(p core.Principal) []byte {
	if m.isSupervisor(p) {
		return m.service
	}
	realm := m.cfg.Scoping.PrincipalRealm(p)
	return realm[:]
}

// viewer is p as one who asks for an operation.
func (m *Operations) viewer(p core.Principal) store.Viewer {
	v := store.Viewer{Scope: m.cfg.Scoping.PrincipalScope(p)}
	if m.isOperator(p) {
		v.Realm = m.operated(p)
	}
	return v
}

// operates reports whether p is an operator of a record.
func (m *Operations) operates(p core.Principal, rec core.Record) bool {
	return m.isOperator(p) && rec.Realm.Within(m.operated(p))
}

// brief bounds a question to the store.
func (m *Operations) brief(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, m.cfg.ClaimTimeout)
}

// findOr finds a record, or a running attempt whose record is not visible yet. At the end it looks for the record again,
// because the attempt may have ended in between. A record that the viewer may not see costs the same questions as none: the
// time must not tell which keys are in use (S-5). Nor does the lock say then that an attempt is running.
func (m *Operations) findOr(ctx context.Context, id core.ID, v store.Viewer,
	find func(ctx context.Context, id core.ID, v store.Viewer) (core.Record, error),
) (rec core.Record, running bool, err error) {
	hidden := false
	look := func() (core.Record, error) {
		rec, err := find(ctx, id, v)
		if err == nil && !v.Sees(rec) {
			hidden = true
			return core.Record{}, core.ErrNotFound
		}
		return rec, err
	}
	if rec, err = look(); !isGone(rec, err) {
		return rec, false, err
	}
	attempts, ok := m.cfg.Store.(store.Attempts)
	if !ok {
		return rec, false, err
	}
	running, err = attempts.InFlight(ctx, id)
	if err != nil || running && !hidden {
		return core.Record{}, running, err
	}
	rec, err = look()
	return rec, false, err
}

// findLive is Find for a client: a record that is past its tombstone is not found, even before a sweep.
func (m *Operations) findLive(ctx context.Context, id core.ID, v store.Viewer) (core.Record, error) {
	rec, err := m.cfg.Store.Find(ctx, id, v)
	rec = m.in.Judged(ctx, rec)
	if err == nil && rec.State() == store.Free && rec.Stored != store.Free {
		err = core.ErrNotFound
	}
	return rec, err
}

// isGone reports whether a key can be claimed. An attempt that has not committed, and cannot be seen, may then hold it.
func isGone(rec core.Record, err error) bool {
	return errors.Is(err, core.ErrNotFound) || err == nil && rec.State() == store.Free
}

// Outlook says what becomes of a half-done operation if nobody does anything.
type Outlook struct {
	Known   bool      // this release knows its route; otherwise nothing here goes on with it, or gives it up
	Resumed bool      // Config.Resume goes on with it; otherwise only its client does, by a repeat
	Until   time.Time // from then on it is unknown, if it is known and was not gone on with to its end
}

// Outlook returns what becomes of a half-done operation, by this release's configuration.
func (m *Operations) Outlook(rec core.Record) Outlook {
	policy, known := m.in.PolicyOf(rec.Method, rec.Route)
	return Outlook{known, known && m.in.Resumed(rec.Method, rec.Route), rec.CreatedAt.Add(policy.ResumeFor)}
}
