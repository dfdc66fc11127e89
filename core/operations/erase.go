package operations

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/pace"
	"github.com/auth19/idem/core/internal/text"
	"github.com/auth19/idem/core/store"
)

// Erasure is an operator's order to erase what the store keeps of a principal.
type Erasure struct {
	// Principal is the principal whose records are erased. If the client counts ([core.Scoping].RequireClient), these are the
	// records of one client, and a person with two clients needs two erasures.
	Principal core.Principal
	Who       string // who gives the order; required, for the observer
	Why       string // the reason; required, for the observer
}

// Erased is what an erasure did.
type Erased struct {
	// Records counts the records whose answer, or whose results of steps, were erased.
	Records int
	// Open are the operations of the principal that were running or unknown. They were not changed, because without the
	// results of their steps a provider could be called again. Erase again after they have ended.
	Open []core.ID
}

// Erase erases the answers and the results of steps of a principal's completed operations. Each of them becomes a tombstone:
// its id, its command hash and its outcome class stay for as long as they would have stayed. So no key becomes free, and a
// repeat gets 409 key_expired, as it would after the end of retention (M-5). Operations that are not completed are left, and
// named in the result.
//
// Erase walks through all records of the store, in batches. Each batch is a transaction of its own, and what it has
// erased stays erased. After an error, Erased says what was done until then. Call Erase again: it begins with the first
// record, and erases what is left. Any number of calls may run at once. Erase may miss a record that is made while it
// runs, and it cannot see a Rollback attempt that is running. So first take the principal's access away, then wait for
// the longest Policy.Deadline.
//
// Records that were made under another [core.Scoping] are not found. Erase refuses if Config.Scoping is not the one that the
// store has for the namespace. After [core.Module.AdoptScoping] the store has only the new Scoping, so erase before
// that call.
// Later Erase leaves the records of the old Scoping, and does not report them.
//
// The observer gets EventErasing before the first record is erased, and EventErased at the end.
//
// Errors: a required field of the Erasure is missing; the module has no observer; [core.ErrScoping]. Any other
// error means that the store did not answer, or that ctx has ended.
func (m *Operations) Erase(ctx context.Context, e Erasure) (Erased, error) {
	return m.erase(ctx, e, func(ctx context.Context, _ int, work stretchWork) (stretch, error) { return work(ctx) })
}

// erase is Erase; each runs its stretches.
func (m *Operations) erase(ctx context.Context, e Erasure, each func(context.Context, int, stretchWork) (stretch, error)) (
	Erased, error,
) {
	switch {
	case m.in.Lacks(e.Principal) != nil:
		return Erased{}, fmt.Errorf("idem: Erase: Principal: nobody can have records as this one: %w", m.in.Lacks(e.Principal))
	case !m.Observed():
		return Erased{}, errors.New("idem: Erase: Config.Observer is required: nothing else keeps who erased what, and why")
	case strings.TrimSpace(e.Who) == "":
		return Erased{}, errors.New("idem: Erase: Who is required: who gives the order")
	case strings.TrimSpace(e.Why) == "":
		return Erased{}, errors.New("idem: Erase: Why is required: the reason, for the log")
	}
	if err := m.module.CheckScoping(ctx); err != nil { // with another Scoping, Erase would find no record, and report success
		return Erased{}, err
	}
	event := core.Event{Kind: core.EventErasing, Scope: m.cfg.Scoping.PrincipalScope(e.Principal), Who: e.Who, Why: e.Why}
	m.in.Observe(ctx, event)
	erased, err := m.eraseAll(ctx, event.Scope, each)
	event.Kind, event.Count, event.Open, event.Err = core.EventErased, erased.Records, len(erased.Open), err
	m.in.Observe(ctx, event)
	return erased, err
}

// Bounds of a stretch. In an attempt its result is that of a step, which has room for 950 ids.
const (
	stretchFor     = 10 * time.Second
	maxStretchOpen = 800
)

// stretch is a part of an erasure.
type stretch struct {
	Next    core.ID   `json:"next"` // behind it the next stretch begins; the zero ID at the end of the records
	Records int       `json:"records"`
	Open    []core.ID `json:"open,omitempty"`
}

// stretchWork runs a stretch.
type stretchWork = func(ctx context.Context) (stretch, error)

// eraseAll erases in stretches. each runs them, one after the other, with their numbers.
func (m *Operations) eraseAll(ctx context.Context, scope store.Scope,
	each func(context.Context, int, stretchWork) (stretch, error),
) (erased Erased, err error) {
	walk := erasureWalk{store: m.store, scope: scope, batch: pace.Pace{Size: 100}}
	after := core.ID{}
	for n := 1; ; n++ {
		part, err := each(ctx, n, func(ctx context.Context) (stretch, error) { return walk.stretch(ctx, after) })
		erased.Records += part.Records
		erased.Open = append(erased.Open, part.Open...)
		if err == nil {
			err = walk.failed
		}
		switch {
		case err != nil:
			return erased, fmt.Errorf("idem: Erase: it stopped on its way, call it again: %w", err)
		case part.Next == (core.ID{}):
			return erased, nil
		}
		after = part.Next
	}
}

// erasureWalk walks through the records of a store.
type erasureWalk struct {
	store  store.Operations
	scope  store.Scope
	batch  pace.Pace // of the records that are read; most of them belong to other principals
	failed error     // what has ended a stretch that had erased something before
}

// stretch erases in batches of about sweepFor. After each batch it rests as long as the batch took. If a batch fails, what
// the batches before it have done is the stretch's result, so that it can be kept.
func (w *erasureWalk) stretch(ctx context.Context, after core.ID) (part stretch, err error) {
	part.Next = after
	for begun := time.Now(); ; {
		batchBegun := time.Now()
		page, err := w.store.Erase(ctx, w.scope, part.Next, min(w.batch.Size, maxStretchOpen-len(part.Open)))
		if err != nil {
			return part, w.broke(err, part.Next != after)
		}
		part.Next, part.Records, part.Open = page.Next, part.Records+page.Records, append(part.Open, page.Open...)
		if part.Next == (core.ID{}) {
			return part, nil
		}
		took := time.Since(batchBegun)
		w.batch.Next(took, maxStretchOpen)
		pace.Rest(ctx, took)
		if time.Since(begun) > stretchFor || len(part.Open) > maxStretchOpen/2 {
			return part, nil
		}
	}
}

// broke returns the error of a stretch that err has ended, or nil if the stretch has erased something before.
func (w *erasureWalk) broke(err error, erased bool) error {
	if !erased {
		return err
	}
	w.failed = err
	return nil
}

// eraseRequest is the body of an erasure.
type eraseRequest struct {
	Principal principalView `json:"principal"`
	Reason    string        `json:"reason"`
}

// erasedView is the answer to an erasure. It is recorded, so it does not name the principal.
type erasedView struct {
	Records int       `json:"records"`
	Open    []core.ID `json:"open"`
	// AgainAt is when the Rollback attempts that were under way have ended.
	AgainAt *time.Time `json:"again_at,omitempty"`
	// Detail says that nothing was found, and the first digits of the scope's hash, by which lists show a caller.
	Detail string `json:"detail,omitempty"`
}

// erase is [Erase].
func (q *request) erase() (*core.Reply, *core.Problem) {
	recovery, attempt := core.RecoveryOf(q.Context())
	switch {
	case attempt && recovery != core.Resume:
		core.NotApplied(q.Context()) // so that the key is free when a later release has corrected the route
		return nil, core.NewProblem(core.CodeMisconfigured, "the route of erasures needs the recovery Resume")
	case !q.Observed():
		return nil, core.NewProblem(core.CodeMisconfigured, "to erase, the module needs an observer")
	}
	order, problem := q.parseErasure(q.body)
	if problem != nil {
		return nil, problem
	}
	if realm := q.cfg.Scoping.PrincipalRealm(order.Principal); !realm.Within(q.operated(q.by)) {
		return nil, core.NewProblem(core.CodeNotFound, "there is no such principal that this operator may erase")
	}
	order.Who = q.by.Name()
	erased, err := q.eraseIn(q.Context(), order, attempt)
	switch {
	case errors.Is(err, core.ErrScoping):
		return nil, core.NewProblem(core.CodeMisconfigured, "Config.Scoping is not the one that the store has; nothing was erased")
	case err != nil:
		return nil, q.withRetry(core.NewProblem(core.CodeStoreUnavailable,
			"the erasure broke off, and what it has erased stays erased: send it again with the same key"))
	}
	view := erasedView{Records: erased.Records, Open: erased.Open}
	if view.Open == nil {
		view.Open = []core.ID{}
	}
	if erased.Records == 0 && len(erased.Open) == 0 {
		scope := q.cfg.Scoping.PrincipalScope(order.Principal)
		view.Detail = fmt.Sprintf("nothing was found under this principal that is to be erased; look at its issuer, tenant, "+
			"client and subject: its scope begins with %x", scope[:4])
	}
	longest := time.Duration(0) // deadline of a Rollback route
	for _, policy := range q.in.Policies() {
		if policy.Recovery == core.Rollback {
			longest = max(longest, policy.Deadline)
		}
	}
	if longest > 0 {
		view.AgainAt = new(time.Now().Add(longest + afterDeadline).UTC().Truncate(time.Second))
	}
	return jsonReply(http.StatusOK, view)
}

// maxWhy is how long the reason of an erasure, of marks or of refused keys may be, in bytes: the log has it, and the history
// of each mark.
const maxWhy = 4 << 10

// afterDeadline is how long an attempt may take to end after its deadline.
const afterDeadline = 15 * time.Second

// eraseIn is Erase. In an attempt each stretch is a call, so that no transaction is open while it erases, and the next
// attempt goes on behind the last one. To erase twice does no harm, so a stretch that broke off may always be repeated.
func (m *Operations) eraseIn(ctx context.Context, e Erasure, attempt bool) (Erased, error) {
	if !attempt {
		return m.Erase(ctx, e)
	}
	return m.erase(ctx, e, func(ctx context.Context, n int, work stretchWork) (stretch, error) {
		return core.Call(ctx, "erase "+strconv.Itoa(n),
			func(ctx context.Context, _ core.DerivedKey) (stretch, error) { return work(ctx) }, core.Dedup(math.MaxInt64))
	})
}

// parseErasure is strict: an erasure is final, and a misspelt member must not erase another person.
func (m *Operations) parseErasure(body []byte) (Erasure, *core.Problem) {
	var req eraseRequest
	if err := unmarshalStrict(body, &req); err != nil {
		return Erasure{}, core.NewProblem(core.CodeBadRequest,
			"want a JSON object with principal (issuer, subject and, if there are any, tenant and client) and reason")
	}
	e := Erasure{Why: req.Reason, Principal: req.Principal.principal()}
	switch err := m.in.Lacks(e.Principal); {
	case err != nil:
		return e, core.NewProblem(core.CodeBadRequest, "principal: "+strings.TrimPrefix(err.Error(), "idem: "))
	case e.Principal.Client != "" && !m.cfg.Scoping.RequireClient:
		return e, core.NewProblem(core.CodeBadRequest, "principal.client: clients do not count in this service; leave "+
			"it out to erase all")
	case strings.TrimSpace(e.Why) == "", len(e.Why) > maxWhy:
		return e, core.NewProblem(core.CodeBadRequest, "reason: is required, for the log; at most 4096 bytes")
	case !text.Storable(e.Why):
		return e, core.NewProblem(core.CodeBadRequest, "reason: no NUL")
	}
	return e, nil
}
