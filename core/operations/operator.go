package operations

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// Operator gives one operator access to the operations of its own issuer and tenant, or of the whole service for a
// supervisor (S-5). For other operations its methods return ErrNotFound. Package inspect shows them as pages. A method
// waits for the store at most for Config.ClaimTimeout; FindKey may wait twice as long.
type Operator struct {
	ops       *Operations
	principal core.Principal
}

// Observed reports whether the module has a Config.Observer. Without an observer it is not known who has read an answer.
func (m *Operations) Observed() bool { return m.cfg.Observer != nil }

// KeyHeader returns the name of the header that has the key (K-7).
func (m *Operations) KeyHeader() string { return m.cfg.Header }

// Supervises reports whether the operator may look at the operations of every issuer and tenant of the service.
func (o *Operator) Supervises() bool { return o.ops.isSupervisor(o.principal) }

// Name is the operator's name in the history of settlements: issuer, tenant and subject, each quoted.
func (o *Operator) Name() string { return o.principal.Name() }

// List returns the operations that q selects, of those that the operator may look at: see [store.Operations]. It ignores
// q.Within. Any error means that the store did not answer.
func (o *Operator) List(ctx context.Context, q store.Query) ([]core.Record, error) {
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	q.Within = o.within()
	return o.ops.store.List(ctx, q)
}

// LastSettled returns the last settlements of operations that the operator may look at, the newest first: its own, or all.
func (o *Operator) LastSettled(ctx context.Context, own bool, limit int) ([]store.SettledOperation, error) {
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	by := ""
	if own {
		by = o.Name()
	}
	return o.ops.store.LastSettled(ctx, o.within(), by, limit)
}

// LastAnswered returns the record with the last success of a route: see [store.Operations]. It may be of any caller:
// show no more than the form of its answer, and of another caller's not the names of its members, which may be data.
func (o *Operator) LastAnswered(ctx context.Context, method, route string) (core.Record, error) {
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	return o.ops.store.LastAnswered(ctx, o.within(), method, route)
}

// Count counts the operations that q selects, of those that the operator may look at: see [store.Operations]. It ignores
// q.Within. Any error means that the store did not answer.
func (o *Operator) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	q.Within = o.within()
	return o.ops.store.Count(ctx, q)
}

// Flow says what happened to the operations that the operator may look at, hour by hour, first the hour that ends now: see
// [store.Operations]. Any error means that the store did not answer.
func (o *Operator) Flow(ctx context.Context, hours int) ([]store.Hour, error) {
	ctx, cancel := o.ops.brief(ctx)
	defer cancel()
	return o.ops.store.Flow(ctx, o.within(), hours)
}

// Life is what is known of an operation. Only [Operator.Reveal] fills in its answer and the results of its steps.
type Life struct {
	Record  core.Record              // from [Operator.Life], its Answer has only Status and Partial
	Steps   []store.StepRecord       // in the order in which they were started; only Resume operations have steps
	History []store.SettlementRecord // oldest first, including those of earlier lives of the key
	Notes   []store.Note             // likewise, with what was proposed and withdrawn
	// Proposal is a settlement that is proposed and open, nil if there is none. Its answer is for those who may carry it out.
	Proposal *Proposal
	// Size is the length of the answer in bytes, and Media its Content-Type.
	Size  int
	Media string
}

// Life returns what is known of an operation, without its answer and the results of its steps: see [Operator.Reveal].
func (o *Operator) Life(ctx context.Context, id core.ID) (Life, error) {
	life, err := o.life(ctx, id)
	life.Record.Answer.Header, life.Record.Answer.Body = nil, nil
	for i := range life.Steps {
		life.Steps[i].Result = nil
	}
	return life, err
}

// Reveal is Life with the answer and the results of the steps. These may contain data that only the caller should know.
// Before Reveal returns, the observer gets EventAnswerRead. If the operation has expired, both are gone, even before a
// sweep.
func (o *Operator) Reveal(ctx context.Context, id core.ID) (Life, error) {
	life, err := o.life(ctx, id)
	if err == nil {
		o.ops.answerRead(ctx, o.principal, life.Record)
	}
	return life, err
}

// answerRead tells the observer that an operator has read an answer that is not its own.
func (m *Operations) answerRead(ctx context.Context, p core.Principal, rec core.Record) {
	m.in.Observe(ctx, core.Event{Kind: core.EventAnswerRead, Operation: rec.ID, Method: rec.Method, Route: rec.Route,
		Recovery: rec.Recovery, Fence: rec.Fence, Who: p.Name()})
}

func (o *Operator) life(ctx context.Context, id core.ID) (life Life, err error) {
	short, cancel := o.ops.brief(ctx)
	defer cancel()
	life.Record, err = o.ops.findLive(short, id, o.viewer())
	if err == nil && !o.ops.operates(o.principal, life.Record) {
		err = core.ErrNotFound
	}
	if err != nil {
		return Life{}, err
	}
	life.Size, life.Media = len(life.Record.Answer.Body), life.Record.Answer.Header.Get("Content-Type")
	if life.History, err = o.ops.store.History(short, id); err == nil {
		life.Steps, err = o.ops.in.StepsOf(ctx, life.Record)
	}
	if err == nil {
		var notes map[core.ID][]store.Note
		notes, err = o.Notes(ctx, id)
		life.Notes = notes[id]
	}
	if err == nil {
		life.Proposal = openIn(life.Notes, life.Record)
	}
	if err != nil {
		return Life{}, err
	}
	if life.Record.State() == store.Expired { // the answer is gone for every reader, even before a sweep (T-4)
		life.Record.Answer.Header, life.Record.Answer.Body = nil, nil
		for i := range life.Steps {
			life.Steps[i].Result = nil
		}
	}
	return life, nil
}

// FindKey returns the id of a principal's operation with a key. The key may be quoted (K-2). running is true if a
// Rollback attempt is running whose record cannot be seen yet. The key is not stored, and no error repeats it.
//
// Errors: ErrNotFound, also for a principal of another realm (S-5); a *[core.Problem] if the key is invalid
// (CodeKeyInvalid), or the principal lacks what Config.Scoping requires (CodeBadRequest); [core.ErrScoping], see
// [core.Module.CheckScoping].
func (o *Operator) FindKey(ctx context.Context, owner core.Principal, key string) (id core.ID, running bool, err error) {
	m := o.ops
	parsed, problem := m.in.KeyOf(&http.Request{URL: &url.URL{}, Header: http.Header{m.cfg.Header: {key}}})
	if problem != nil {
		return core.ID{}, false, problem
	}
	// With another scope the id would be another one, and ErrNotFound would be false.
	if err := m.in.Lacks(owner); err != nil {
		return core.ID{}, false, core.NewProblem(core.CodeBadRequest, strings.TrimPrefix(err.Error(), "idem: "))
	}
	if err := m.module.CheckScoping(ctx); err != nil {
		return core.ID{}, false, err
	}
	if realm := m.cfg.Scoping.PrincipalRealm(owner); !realm.Within(m.operated(o.principal)) {
		return core.ID{}, false, core.ErrNotFound
	}
	ctx, cancel := m.brief(ctx)
	defer cancel()
	id = m.cfg.Scoping.RecordID(owner, parsed)
	_, running, err = m.findOr(ctx, id, o.viewer(), m.findLive)
	return id, running, err
}
