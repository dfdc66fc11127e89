package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/storetest"
)

// faulty is a sound store whose methods can be exchanged one by one.
type faulty struct {
	*reference
	anywhere string // the method that knows no realms

	begin                                 method[store.Claim, begun]
	claim                                 method[store.Claim, store.Claimed]
	renew, complete                       method[completion, none]
	park, yield                           method[completion, none]
	release                               method[store.Ticket, none]
	find                                  method[store.ID, store.Record]
	list                                  method[store.Query, []store.Record]
	settle                                method[store.Settlement, store.Record]
	sweep                                 method[question, store.Swept]
	inFlight                              method[store.ID, bool]
	steps                                 method[store.ID, []store.StepRecord]
	logCommand                            method[store.LoggedCommand, store.EarlierCommands]
	count                                 method[store.Query, []store.Count]
	ready                                 func(ctx context.Context) error
	countOpen                             method[question, int]
	flow                                  method[question, []store.Hour]
	history                               method[store.ID, []store.SettlementRecord]
	references                            method[[]store.ID, map[store.ID][]store.Ref]
	referred                              method[store.Query, store.ReferredPage]
	annotate                              method[store.Note, none]
	notes                                 method[[]store.ID, map[store.ID][]store.Note]
	propose, withdraw                     method[proposed, none]
	imports                               method[[]store.Record, store.Imported]
	mark                                  method[store.Marking, store.Imported]
	adopt                                 method[store.Claim, none]
	erase                                 method[question, store.ErasedPage]
	keepScoping                           method[question, string]
	keepAge                               method[question, store.AgeLimit]
	refer, adoptScoping, refuseKeysBefore method[question, none]
}

// What methods are asked and answer that have more than one value, or none.
type (
	none  struct{}
	begun struct {
		store.Claimed
		tx *attempt
	}
	completion struct {
		store.Ticket
		store.Completion
		lease time.Duration // of a renewal
		ends  []byte
	}
	proposed struct {
		store.Note
		of     [16]byte // of a withdrawal
		window store.Window
	}
	question struct {
		id          store.ID
		realm       store.Realm
		ref         store.Ref
		scope       store.Scope
		within      []byte // or the service
		name, value string // namespace and fingerprint, a route
		after       store.ID
		limit       int
		at          time.Time
		age         time.Duration
		window      store.Window
	}
)

// newFaulty returns a store without a fault.
func newFaulty(s *reference) *faulty {
	f := &faulty{
		reference: s,
		claim:     s.Claim,
		list:      s.List, settle: s.Settle, inFlight: s.InFlight, steps: s.Steps, logCommand: s.LogCommand,
		count: s.Count, ready: s.Ready, history: s.History, references: s.References, imports: s.Import, mark: s.Mark, adopt: silent(s.Adopt),
	}
	f.begin = func(ctx context.Context, c store.Claim) (begun, error) {
		tx, got, err := s.begin(ctx, c)
		if tx == nil {
			return begun{Claimed: got}, err
		}
		return begun{got, &attempt{tx, tx.Seal, tx.Rollback, tx.Step, tx.Bind}}, err
	}
	f.renew = silent(func(ctx context.Context, c completion) error { return s.Renew(ctx, c.Ticket, c.lease) })
	f.complete = silent(func(ctx context.Context, c completion) error {
		return s.End(ctx, c.Ticket, store.Ending{State: store.Completed, Answer: c.Completion})
	})
	f.park = silent(func(ctx context.Context, c completion) error {
		return s.End(ctx, c.Ticket, store.Ending{State: store.Unknown, Ends: c.ends})
	})
	f.yield = silent(func(ctx context.Context, c completion) error {
		return s.End(ctx, c.Ticket, store.Ending{State: store.Running, Ends: c.ends})
	})
	f.release = silent(func(ctx context.Context, t store.Ticket) error {
		if t.Fence == 0 {
			return s.Release(ctx, []store.Ticket{t})
		}
		return s.End(ctx, t, store.Ending{State: store.Free})
	})
	f.find = func(ctx context.Context, id store.ID) (store.Record, error) {
		return s.Find(ctx, id, store.Viewer{All: true})
	}
	f.sweep = func(ctx context.Context, q question) (store.Swept, error) { return s.Sweep(ctx, q.limit, q.window) }
	f.countOpen = func(ctx context.Context, q question) (int, error) { return s.CountOpen(ctx, q.scope, q.limit) }
	f.flow = func(ctx context.Context, q question) ([]store.Hour, error) { return s.Flow(ctx, q.within, q.limit) }
	f.referred, f.notes = s.Referred, s.Notes
	f.annotate = silent(s.Annotate)
	f.propose = silent(func(ctx context.Context, p proposed) error { return s.Propose(ctx, p.Note, p.window) })
	f.withdraw = silent(func(ctx context.Context, p proposed) error { return s.Withdraw(ctx, p.of, p.Note) })
	f.refer = silent(func(ctx context.Context, q question) error { return s.Refer(ctx, q.id, q.realm, q.ref) })
	f.erase = func(ctx context.Context, q question) (store.ErasedPage, error) {
		return s.Erase(ctx, q.scope, q.after, q.limit)
	}
	f.keepScoping = func(ctx context.Context, q question) (string, error) { return s.KeepScoping(ctx, q.name, q.value) }
	f.adoptScoping = silent(func(ctx context.Context, q question) error { return s.AdoptScoping(ctx, q.name, q.value) })
	f.refuseKeysBefore = silent(func(ctx context.Context, q question) error {
		return s.RefuseKeysBefore(ctx, q.within, store.Refusal{Before: q.at, Window: q.window, Who: q.name, Why: q.value})
	})
	f.keepAge = func(ctx context.Context, q question) (store.AgeLimit, error) {
		return s.KeepAge(ctx, q.within, q.value, q.age, q.window)
	}
	return f
}

func silent[A any](sound func(context.Context, A) error) method[A, none] {
	return func(ctx context.Context, a A) (none, error) { return none{}, sound(ctx, a) }
}

func onlyErr(_ none, err error) error { return err }

func (f *faulty) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	got, err := f.begin(ctx, c)
	if got.tx == nil {
		return nil, got.Claimed, err
	}
	return got.tx, got.Claimed, err
}

func (f *faulty) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return f.claim(ctx, c)
}

func (f *faulty) Renew(ctx context.Context, t store.Ticket, lease time.Duration) error {
	return onlyErr(f.renew(ctx, completion{Ticket: t, lease: lease}))
}

func (f *faulty) End(ctx context.Context, t store.Ticket, e store.Ending) error {
	switch e.State {
	case store.Completed:
		return onlyErr(f.complete(ctx, completion{Ticket: t, Completion: e.Answer}))
	case store.Free:
		return onlyErr(f.release(ctx, t))
	case store.Running:
		return onlyErr(f.yield(ctx, completion{Ticket: t, ends: e.Ends}))
	}
	return onlyErr(f.park(ctx, completion{Ticket: t, ends: e.Ends}))
}

func (f *faulty) Release(ctx context.Context, lost []store.Ticket) (err error) {
	for _, t := range lost {
		err = cmp.Or(onlyErr(f.release(ctx, store.Ticket{ID: t.ID, Owner: t.Owner})), err)
	}
	return err
}

func (f *faulty) Find(ctx context.Context, id store.ID, v store.Viewer) (store.Record, error) {
	rec, err := f.find(ctx, id)
	if err == nil && !v.Sees(rec) {
		rec.Answer.Header, rec.Answer.Body = nil, nil
	}
	return rec, err
}

func (f *faulty) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	return f.list(ctx, q)
}

func (f *faulty) Settle(ctx context.Context, d store.Settlement) (store.Record, error) {
	return f.settle(ctx, d)
}

func (f *faulty) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	return f.sweep(ctx, question{limit: limit, window: w})
}

func (f *faulty) InFlight(ctx context.Context, id store.ID) (bool, error) { return f.inFlight(ctx, id) }

func (f *faulty) Steps(ctx context.Context, id store.ID) ([]store.StepRecord, error) {
	return f.steps(ctx, id)
}

func (f *faulty) LogCommand(ctx context.Context, s store.LoggedCommand) (store.EarlierCommands, error) {
	return f.logCommand(ctx, s)
}

func (f *faulty) Count(ctx context.Context, q store.Query) ([]store.Count, error) {
	return f.count(ctx, q)
}

func (f *faulty) Flow(ctx context.Context, within []byte, hours int) ([]store.Hour, error) {
	return f.flow(ctx, question{within: f.realm("Flow", within), limit: hours})
}

func (f *faulty) CountOpen(ctx context.Context, s store.Scope, limit int) (int, error) {
	return f.countOpen(ctx, question{scope: s, limit: limit})
}

func (f *faulty) realm(method string, within []byte) []byte {
	if f.anywhere == method {
		return nil
	}
	return within
}

func (f *faulty) Ready(ctx context.Context) error { return f.ready(ctx) }

func (f *faulty) OpenSteps(ctx context.Context, within []byte, limit int) ([]store.OpenStep, error) {
	return f.reference.OpenSteps(ctx, f.realm("OpenSteps", within), limit)
}

func (f *faulty) Near(ctx context.Context, within []byte, n store.Near, limit int) ([]store.ID, error) {
	return f.reference.Near(ctx, f.realm("Near", within), n, limit)
}

func (f *faulty) LastAnswered(ctx context.Context, within []byte, method, route string) (store.Record, error) {
	return f.reference.LastAnswered(ctx, f.realm("LastAnswered", within), method, route)
}

func (f *faulty) History(ctx context.Context, id store.ID) ([]store.SettlementRecord, error) {
	return f.history(ctx, id)
}

func (f *faulty) LastSettled(ctx context.Context, within []byte, by string, limit int) ([]store.SettledOperation, error) {
	return f.reference.LastSettled(ctx, f.realm("LastSettled", within), by, limit)
}

func (f *faulty) Refer(ctx context.Context, id store.ID, realm store.Realm, ref store.Ref) error {
	return onlyErr(f.refer(ctx, question{id: id, realm: realm, ref: ref}))
}

func (f *faulty) References(ctx context.Context, ids []store.ID) (map[store.ID][]store.Ref, error) {
	return f.references(ctx, ids)
}

func (f *faulty) Annotate(ctx context.Context, n store.Note) error {
	return onlyErr(f.annotate(ctx, n))
}

func (f *faulty) Propose(ctx context.Context, n store.Note, w store.Window) error {
	return onlyErr(f.propose(ctx, proposed{Note: n, window: w}))
}

func (f *faulty) Withdraw(ctx context.Context, token [16]byte, n store.Note) error {
	return onlyErr(f.withdraw(ctx, proposed{Note: n, of: token}))
}

func (f *faulty) Notes(ctx context.Context, ids []store.ID) (map[store.ID][]store.Note, error) {
	return f.notes(ctx, ids)
}

func (f *faulty) Referred(ctx context.Context, q store.Query) (store.ReferredPage, error) {
	q.Within = f.realm("Referred", q.Within)
	return f.referred(ctx, q)
}

func (f *faulty) Import(ctx context.Context, records []store.Record) (store.Imported, error) {
	return f.imports(ctx, records)
}

func (f *faulty) Mark(ctx context.Context, m store.Marking) (store.Imported, error) {
	return f.mark(ctx, m)
}

func (f *faulty) Adopt(ctx context.Context, c store.Claim) error { return onlyErr(f.adopt(ctx, c)) }

func (f *faulty) Erase(ctx context.Context, s store.Scope, after store.ID, limit int) (store.ErasedPage, error) {
	return f.erase(ctx, question{scope: s, after: after, limit: limit})
}

func (f *faulty) KeepScoping(ctx context.Context, namespace, fingerprint string) (string, error) {
	return f.keepScoping(ctx, question{name: namespace, value: fingerprint})
}

func (f *faulty) AdoptScoping(ctx context.Context, namespace, fingerprint string) error {
	return onlyErr(f.adoptScoping(ctx, question{name: namespace, value: fingerprint}))
}

func (f *faulty) RefuseKeysBefore(ctx context.Context, service []byte, r store.Refusal) error {
	return onlyErr(f.refuseKeysBefore(ctx, question{within: service, at: r.Before, window: r.Window, name: r.Who, value: r.Why}))
}

func (f *faulty) KeepAge(ctx context.Context, of []byte, route string, age time.Duration, w store.Window) (store.AgeLimit, error) {
	return f.keepAge(ctx, question{within: of, value: route, age: age, window: w})
}

// attempt is a sound one, of which the same is true.
type attempt struct {
	*referenceTx
	seal     method[store.Seal, time.Time]
	rollback func() error
	step     func(ctx context.Context, work func(context.Context) error) error
	bind     func(ctx context.Context, opening func() error) context.Context
}

func (a *attempt) Seal(ctx context.Context, s store.Seal) (time.Time, error) { return a.seal(ctx, s) }
func (a *attempt) Rollback() error                                           { return a.rollback() }

func (a *attempt) Step(ctx context.Context, work func(context.Context) error) error {
	return a.step(ctx, work)
}

func (a *attempt) Bind(ctx context.Context, opening func() error) context.Context {
	return a.bind(ctx, opening)
}

// commitRows commits the rows of a transaction, and nothing else.
func (a *attempt) commitRows() {
	a.store.mu.Lock()
	defer a.store.mu.Unlock()
	a.store.effects += a.effects
	a.effects = 0
}

// attempts makes a fault of each attempt that has won.
func (f *faulty) attempts(fault func(tx *attempt, c store.Claim)) {
	f.begin.answers(func(c store.Claim, got *begun) {
		if got.tx != nil {
			fault(got.tx, c)
		}
	})
}

// background is the context of what a fault does on its own.
var background = context.Background()

// there reads a record past all faults; zero if there is none.
func (f *faulty) there(id store.ID) store.Record {
	r, _ := f.reference.Find(background, id, store.Viewer{All: true})
	return r
}

// method is a method of a store, with what it is asked and what it answers.
type method[A, R any] func(ctx context.Context, asked A) (R, error)

// asks makes the method ask something else.
func (m *method[A, R]) asks(change func(asked *A)) {
	sound := *m
	*m = func(ctx context.Context, a A) (R, error) {
		change(&a)
		return sound(ctx, a)
	}
}

// answers makes it answer something else, unless it has failed.
func (m *method[A, R]) answers(change func(asked A, got *R)) {
	m.ends(func(a A, got *R, err *error) {
		if *err == nil {
			change(a, got)
		}
	})
}

// ends makes it answer something else, or fail otherwise.
func (m *method[A, R]) ends(change func(asked A, got *R, err *error)) {
	sound := *m
	*m = func(ctx context.Context, a A) (R, error) {
		got, err := sound(ctx, a)
		change(a, &got, &err)
		return got, err
	}
}

// forgives makes success of an error.
func (m *method[A, R]) forgives(which error) {
	m.ends(func(_ A, _ *R, err *error) {
		if errors.Is(*err, which) {
			*err = nil
		}
	})
}

// skips leaves the call out sometimes.
func (m *method[A, R]) skips(got R, err error, when func(asked A) bool) {
	sound := *m
	*m = func(ctx context.Context, a A) (R, error) {
		if when(a) {
			return got, err
		}
		return sound(ctx, a)
	}
}

// says leaves it out always.
func (m *method[A, R]) says(got R) {
	*m = func(ctx context.Context, _ A) (R, error) { return got, ctx.Err() }
}

// regardless makes it work after its context has ended.
func (m *method[A, R]) regardless() {
	sound := *m
	*m = func(ctx context.Context, a A) (R, error) { return sound(context.WithoutCancel(ctx), a) }
}

// Methods that ask something else.

func onClaim(change func(*store.Claim)) func(*faulty) {
	return func(s *faulty) { s.claim.asks(change) }
}

func onComplete(change func(*completion)) func(*faulty) {
	return func(s *faulty) { s.complete.asks(change) }
}

func onList(change func(*store.Query)) func(*faulty) { return func(s *faulty) { s.list.asks(change) } }

func onCount(change func(*store.Query)) func(*faulty) {
	return func(s *faulty) { s.count.asks(change) }
}

func onLogCommand(change func(*store.LoggedCommand)) func(*faulty) {
	return func(s *faulty) { s.logCommand.asks(change) }
}

func onSeal(change func(*store.Seal)) func(*faulty) {
	return func(s *faulty) { s.attempts(func(tx *attempt, _ store.Claim) { tx.seal.asks(change) }) }
}

// Changes of what is asked and answered, for more than one method.

func byAnyClock(q *question) { q.window = store.Window{} }

func reversed[A, E any](_ A, all *[]E) { slices.Reverse(*all) }

func each[A, E any](change func(e *E)) func(A, *[]E) {
	return func(_ A, all *[]E) {
		for i := range *all {
			change(&(*all)[i])
		}
	}
}

// memory is what a fault remembers of each record.
type memory[V any] struct{ sync.Map }

func (m *memory[V]) of(id store.ID) (v V, ok bool) {
	got, ok := m.Load(id)
	v, _ = got.(V)
	return v, ok
}

// newMutant is a store with a fault, with the abilities that view leaves it.
func newMutant(fault func(*faulty), view func(*faulty) store.Operations) func(*testing.T) storetest.Subject {
	return func(t *testing.T) storetest.Subject {
		subject := newReference(t)
		f := newFaulty(subject.Store.(*reference))
		fault(f)
		subject.Store = view(f)
		subject.Twin = func(*testing.T) store.Operations { return subject.Store }
		return subject
	}
}
