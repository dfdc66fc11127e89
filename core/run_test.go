package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/pace"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// start runs Run until the function returned is called.
func (a *app) start() (stop func()) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.module.Run(ctx) }()
	synctest.Wait()
	return func() {
		a.t.Helper()
		cancel()
		require.NoError(a.t, <-done)
	}
}

// runFor runs Run for a while.
func (a *app) runFor(d time.Duration) {
	a.t.Helper()
	stop := a.start()
	time.Sleep(d)
	stop()
}

// of lists the events of a kind so far.
func (a *app) of(kind core.EventKind) (events []core.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}

// postMany sends commands with the keys k-0, k-1 …
func (a *app) postMany(key string, n int) {
	a.t.Helper()
	for i := range n {
		a.post(key+"-"+strconv.Itoa(i), `{}`)
	}
}

// countOf counts how often each item was added.
func countOf[T comparable](l *list[T]) map[T]int {
	times := map[T]int{}
	for _, item := range l.all() {
		times[item]++
	}
	return times
}

// ends lists the events that end an attempt.
func (a *app) ends() []core.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.events), func(e core.Event) bool { return !e.Kind.EndsAttempt() })
}

// CONTRACT T-3
func TestRunSweeps(t *testing.T) {
	inBubble(t, "Run sweeps in batches", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		var sweeps list[time.Time]
		st.on("sweep", func(context.Context) error { sweeps.add(time.Now()); return nil })
		a := newApp(t, core.Config{Store: st, SweepBatch: 2, SweepEvery: time.Hour}, created)
		a.postMany("k", 5)
		stop := a.start()
		require.Len(t, sweeps.all(), 1, "at once")
		require.Empty(t, a.of(core.EventSwept), "there is nothing to tell")

		time.Sleep(store.DefaultRetention + 2*time.Hour)
		synctest.Wait()
		var counts []int
		for _, e := range a.of(core.EventSwept) {
			counts = append(counts, e.Count)
		}
		require.Equal(t, []int{2, 2, 1}, counts, "batch after batch")
		requireProblem(t, a.post("k-0", `{}`), 409, core.CodeKeyExpired)

		time.Sleep(store.DefaultTombstone)
		synctest.Wait()
		swept := a.of(core.EventSwept)
		require.Len(t, swept, 6)
		_, err := st.Find(t.Context(), core.Scoping{}.RecordID(alice, "k-0"), store.Viewer{All: true})
		require.ErrorIs(t, err, core.ErrNotFound)
		stop()

		times := sweeps.all()
		for i := range len(times) - 1 {
			if pause := times[i+1].Sub(times[i]); pause != 0 { // the next batch
				require.InDelta(t, time.Hour, pause, float64(3*time.Minute), "with a jitter of a tenth")
			}
		}
		time.Sleep(2 * time.Hour)
		require.Equal(t, times, sweeps.all(), "stopped")
	})
	inBubble(t, "what can be swept is swept, and the error is told once and not with each batch", func(t *testing.T) {
		a := newApp(t, core.Config{Store: halfSwept{memstore.New(), 0}, SweepBatch: 2, SweepEvery: time.Hour}, created)
		a.postMany("k", 5)
		time.Sleep(store.DefaultRetention + time.Minute)
		a.runFor(time.Minute)
		var count int
		for _, e := range a.of(core.EventSwept) {
			count += e.Count
		}
		require.Equal(t, 5, count)
		failed := a.of(core.EventFailed)
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, errHalf)
		require.Empty(t, a.of(core.EventCaughtUp))
	})
	inBubble(t, "after an error nobody says that all is swept, although the last batch had none", func(t *testing.T) {
		a := newApp(t, core.Config{Store: halfSwept{memstore.New(), 2}, SweepBatch: 2, SweepEvery: time.Hour}, created)
		a.postMany("k", 5)
		time.Sleep(store.DefaultRetention + time.Minute)
		a.runFor(time.Minute)
		require.Len(t, a.of(core.EventFailed), 1)
		require.Empty(t, a.of(core.EventCaughtUp))
		a.runFor(time.Minute)
		require.Len(t, a.of(core.EventCaughtUp), 1)
	})
	inBubble(t, "Run rests between batches", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		var sweeps list[time.Time]
		a := newApp(t, core.Config{Store: st, SweepBatch: 2, SweepEvery: time.Hour}, created)
		a.postMany("k", 5)
		time.Sleep(store.DefaultRetention + time.Minute)
		st.on("sweep", func(context.Context) error {
			sweeps.add(time.Now())
			time.Sleep(3 * time.Second)
			return nil
		})
		a.runFor(time.Minute)
		times := sweeps.all()
		require.Len(t, times, 3)
		require.Equal(t, 12*time.Second, times[1].Sub(times[0]), "the batch, and three times as long")
		require.Equal(t, 12*time.Second, times[2].Sub(times[1]))

		st.on("sweep", func(context.Context) error { time.Sleep(time.Hour); return nil })
		a.postMany("l", 2)
		time.Sleep(store.DefaultRetention + time.Minute)
		stop := a.start()
		time.Sleep(90 * time.Minute)
		began := time.Now()
		stop()
		require.Equal(t, began, time.Now(), "Run ends also while it rests")
	})
	t.Run("batches follow the store", func(t *testing.T) {
		const us, ms = time.Microsecond, time.Millisecond
		for _, tt := range []struct {
			all, each time.Duration // what the store needs for a batch, and for each record of it
			least     int           // of the batches at the end
			most      int
		}{
			{0, 10 * us, 500, 500}, {0, 50 * us, 200, 200}, {0, ms, 10, 10}, {0, time.Second, 10, 10},
			{5 * ms, 50 * us, 95, 105}, {50 * ms, ms, 12, 25},
			// Smaller batches take as long: with 10 records each, a backlog would take ten times as long.
			{100 * ms, 10 * us, 50, 100}, {30 * ms, 100 * us, 50, 100}, {time.Second, 0, 50, 100},
		} {
			size, batch := 100, pace.Pace{Size: 100}
			for i := range 50 {
				batch.Next(tt.all+time.Duration(size)*tt.each, 500)
				next := batch.Size
				require.LessOrEqual(t, next, 2*size+1)
				require.GreaterOrEqual(t, next, min(10, size/2))
				if size = next; i > 10 {
					require.GreaterOrEqual(t, size, tt.least, "%s for a batch, %s for each record", tt.all, tt.each)
					require.LessOrEqual(t, size, tt.most, "%s for a batch, %s for each record", tt.all, tt.each)
				}
			}
		}
		small := pace.Pace{Size: 2}
		small.Next(time.Hour, 2)
		require.Equal(t, 2, small.Size)
	})
	inBubble(t, "Run survives errors", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("sweep", away)
		var asked list[core.ID]
		a := newApp(t, core.Config{Store: st, Reconcile: func(_ context.Context, r core.Record) (*core.Decision, error) {
			asked.add(r.ID)
			return nil, errors.New("no answer from the provider")
		}}, status(502))
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		stop := a.start()
		failed := a.of(core.EventFailed)
		require.Len(t, failed, 2)
		both := errors.Join(failed[0].Err, failed[1].Err)
		require.ErrorIs(t, both, errAway)
		require.ErrorContains(t, both, core.Scoping{}.RecordID(alice, "k-1").String()+": no answer from the provider")

		st.on("sweep", nil)
		time.Sleep(2 * time.Minute)
		stop()
		require.Greater(t, len(asked.all()), 1, "it asks again")
		require.Len(t, a.of(core.EventFailed), 1+len(asked.all()))
	})
	inBubble(t, "Run is stopped by its context", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("sweep", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		a := newApp(t, core.Config{Store: store}, created)
		stop := a.start()
		require.ErrorContains(t, a.module.Run(t.Context()), "idem: Run is under way already")
		stop()
		require.Empty(t, a.kinds(), "being stopped is no failure")

		store.on("sweep", nil)
		a.start()() // and may be started again

		over, cancel := context.WithCancel(t.Context())
		cancel()
		store.on("sweep", func(context.Context) error { panic("with a context that is over") })
		require.NoError(t, a.module.Run(over))
	})
	inBubble(t, "Run while the list is away", func(t *testing.T) {
		a := newApp(t, core.Config{Store: listAway{memstore.New()}, Reconcile: func(context.Context, core.Record) (*core.Decision, error) {
			t.Error("there is nothing to ask about")
			return nil, nil
		}}, created)
		a.start()()
		failed := a.of(core.EventFailed)
		require.Len(t, failed, 1)
		require.ErrorIs(t, failed[0].Err, errAway)
	})
}

// halfSwept is a store of which a part of each sweep fails that sweeps so many records.
type halfSwept struct {
	store.Operations
	least int
}

var errHalf = errors.New("a part of the sweep failed")

func (s halfSwept) Sweep(ctx context.Context, limit int, w store.Window) (store.Swept, error) {
	swept, err := s.Operations.Sweep(ctx, limit, w)
	if swept.Tombstones < s.least {
		return swept, err
	}
	return swept, errors.Join(err, errHalf)
}

// CONTRACT F-1, X-2
func TestOrphans(t *testing.T) {
	inBubble(t, "Run releases what could not be released", func(t *testing.T) {
		store := newFaultStore(memstore.New()).on("after claim", away)
		store.on("release", away)
		a := newApp(t, core.Config{Store: store}, created)
		for i := range 3 {
			requireProblem(t, a.post("k-"+strconv.Itoa(i), `{}`), 503, core.CodeStoreUnavailable)
		}
		synctest.Wait() // they were tried once
		store.on("after claim", nil)
		requireProblem(t, a.post("k-0", `{}`), http.StatusConflict, core.CodeInFlight)
		var released list[bool]
		store.on("release", func(context.Context) error {
			if released.add(true); len(released.all()) <= 2 {
				return errAway
			}
			return nil
		})
		stop := a.start()
		require.Len(t, released.all(), 2, "all, and one alone: the store is away, and there is no use in asking for the next")
		time.Sleep(2 * time.Minute)
		stop()
		require.Len(t, released.all(), 3, "all at once")
		for i := range 3 {
			require.Equal(t, "created", a.post("k-"+strconv.Itoa(i), `{}`).Header().Get("Idempotency-Result"))
		}
	})
	inBubble(t, "release of an orphan that is anothers by now", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		store.on("claim", away) // it has not landed
		store.on("release", away)
		a := newApp(t, core.Config{Store: store}, created)
		requireProblem(t, a.post("k-1", `{}`), 503, core.CodeStoreUnavailable)
		store.on("claim", nil)
		store.on("after claim", away)
		requireProblem(t, a.post("k-2", `{}`), 503, core.CodeStoreUnavailable)
		store.on("after claim", nil)
		require.Equal(t, 201, a.post("k-1", `{}`).Code)
		store.on("release", nil)
		a.start()()
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"), "the answer stays")
		require.Equal(t, "created", a.post("k-2", `{}`).Header().Get("Idempotency-Result"), "the next one is released")
		require.Len(t, a.of(core.EventFailed), 1, "of the claims in this second; and that is as it should be")
	})
}

// releases is a store that notes which tickets are released together. It holds what is held, and lets nobody wait for it.
type releases struct {
	store.Operations
	claim func(error) error // what a claim's owner is told
	held  core.ID
	calls list[[]store.Ticket]
	first func() // called in the first release
}

func (s *releases) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := s.Operations.Claim(ctx, c)
	if s.claim != nil {
		err = s.claim(err)
	}
	return claimed, err
}

func (s *releases) Release(ctx context.Context, lost []store.Ticket) error {
	s.calls.add(lost)
	if first := s.first; first != nil {
		s.first = nil
		first()
	}
	if slices.ContainsFunc(lost, func(t store.Ticket) bool { return t.ID == s.held }) {
		return errAway
	}
	return s.Operations.Release(ctx, lost)
}

// What a flood of failed claims leaves behind is released a hundred at a time, and behind the answers. No key waits for
// another one, nor for Run.
//
// CONTRACT F-1
func TestReleasesOfMany(t *testing.T) {
	lostClaims := func(t *testing.T, s *releases) *app {
		s.Operations, s.claim = memstore.New(), func(error) error { return errAway }
		return newApp(t, core.Config{Store: s, SweepEvery: time.Hour}, created)
	}
	requireRun := func(t *testing.T, a *app, s *releases, key string) {
		t.Helper()
		s.claim = nil
		require.Equal(t, "created", a.post(key, `{}`).Header().Get("Idempotency-Result"), key)
	}
	inBubble(t, "a hundred at once", func(t *testing.T) {
		s := &releases{}
		a := lostClaims(t, s)
		s.first = func() { a.postMany("k", 250) } // they fail while the first one is released
		a.post("k", `{}`)
		synctest.Wait()
		var sizes []int
		for _, call := range s.calls.all() {
			sizes = append(sizes, len(call))
		}
		require.Equal(t, []int{1, 100, 100, 50}, sizes)
		requireRun(t, a, s, "k")
		requireRun(t, a, s, "k-0")
		requireRun(t, a, s, "k-249")
	})
	inBubble(t, "one that is held", func(t *testing.T) {
		s := &releases{held: core.Scoping{}.RecordID(alice, "k-1")}
		a := lostClaims(t, s)
		s.first = func() { a.postMany("k", 5) }
		a.post("k", `{}`)
		synctest.Wait()
		a.start()()
		for _, key := range []string{"k", "k-0", "k-2", "k-3", "k-4"} {
			requireRun(t, a, s, key)
		}
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeInFlight)
		s.held = core.ID{}
		a.start()()
		requireRun(t, a, s, "k-1")
	})
	inBubble(t, "nothing was sent", func(t *testing.T) {
		for _, nothing := range []error{store.ErrNotSent, store.ErrCrowded, store.ErrFull, store.ErrUnfit, core.ErrClock} {
			s := &releases{}
			a := lostClaims(t, s)
			s.claim = func(error) error { return fmt.Errorf("%w: no connection", nothing) }
			requireProblem(t, a.post("k", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
			a.start()()
			require.Empty(t, s.calls.all(), nothing)

			s.claim = func(error) error { return fmt.Errorf("%w: %w", store.ErrUnconfirmed, nothing) }
			a.post("k-1", `{}`)
			synctest.Wait()
			require.Len(t, s.calls.all(), 1, "it was sent, and nobody knows whether the standby has it")
		}
	})
}

// Two services share a store, and have a route of one name. Each goes on with its own operations, and asks about its own.
//
// CONTRACT S-4
func TestRunLeavesOtherServicesAlone(t *testing.T) {
	inBubble(t, "two services", func(t *testing.T) {
		st := memstore.New()
		service := func(name string) (a *app, met *list[core.ID]) {
			met = new(list[core.ID])
			cfg := core.Config{Store: st, SweepEvery: time.Minute, Scoping: core.Scoping{Namespace: name},
				Routes: core.Routes{"POST " + pattern: {Recovery: core.Resume}, "POST /park": {Recovery: core.Park}}}
			cfg.Reconcile = func(_ context.Context, r core.Record) (*core.Decision, error) {
				met.add(r.ID)
				return nil, nil
			}
			cfg.Resume = resumes(func(_ context.Context, r core.Record) (*core.Answer, error) {
				met.add(r.ID)
				return nil, errAway
			})
			return newApp(t, cfg, sealed(status(http.StatusBadGateway))), met
		}
		first, own := service("first")
		second, others := service("second")
		require.NoError(t, first.module.AdoptScoping(t.Context()))
		require.NoError(t, second.module.AdoptScoping(t.Context()))
		first.post("k-1", `{}`)
		first.pattern = "/park"
		first.handler = status(http.StatusBadGateway)
		first.post("k-2", `{}`)
		time.Sleep(store.DefaultDeadline)
		second.runFor(10 * time.Minute)
		require.Empty(t, others.all())
		first.runFor(10 * time.Minute)
		require.Len(t, countOf(own), 2)
	})
}

// CONTRACT X-7, T-4
func TestReconcilers(t *testing.T) {
	inBubble(t, "reconciler", func(t *testing.T) {
		st := memstore.New()
		var asked list[core.ID]
		decisions := map[core.ID]*core.Decision{}
		a := newApp(t, core.Config{Store: st, SweepBatch: 2, SweepEvery: time.Minute,
			Reconcile: func(ctx context.Context, r core.Record) (*core.Decision, error) {
				if ctx.Err() != nil || r.State() != store.Unknown {
					t.Error(ctx.Err(), r.State())
				}
				asked.add(r.ID)
				return decisions[r.ID], nil
			}}, status(502))
		var ids []core.ID
		for i := range 5 {
			key := "k-" + strconv.Itoa(i)
			a.post(key, `{}`)
			ids = append(ids, core.Scoping{}.RecordID(alice, key))
		}
		decisions[ids[1]] = &core.Decision{Applied: true, Who: "reconciler", Why: "the provider has it", Answer: &core.Answer{Status: 200}}
		decisions[ids[3]] = &core.Decision{Who: "reconciler", Why: "the provider refuses the key from now on"}
		decisions[ids[4]] = &core.Decision{Who: "reconciler"} // no reason
		stop := a.start()
		require.Empty(t, asked.all(), "their handlers may still be at work")

		time.Sleep(4 * time.Minute)
		stop()
		times := countOf(&asked)
		require.Len(t, times, 5, "page after page")
		for i, id := range ids {
			require.Equal(t, i == 1 || i == 3, times[id] == 1, "those that are settled are not asked about again")
		}
		a.handler = created
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, "created", a.post("k-3", `{}`).Header().Get("Idempotency-Result"))
		requireProblem(t, a.post("k-0", `{}`), 409, core.CodeOutcomeUnknown)
		require.Len(t, a.of(core.EventSettled), 2)
		for _, e := range a.of(core.EventFailed) {
			require.ErrorContains(t, e.Err, ids[4].String())
			require.ErrorContains(t, e.Err, "Why is required")
		}
		require.NotEmpty(t, a.of(core.EventFailed))
		history := st.Settlements(ids[1])
		require.Len(t, history, 1)
		require.Equal(t, "the provider has it", history[0].Why)
	})
	inBubble(t, "reconciler waits for lease and deadline", func(t *testing.T) {
		st := memstore.New()
		// The process that ran this attempt is gone.
		claimed, err := st.Claim(t.Context(), store.Claim{ID: core.Scoping{}.RecordID(alice, "k-1"), Owner: store.Owner{1},
			Realm: core.Scoping{}.PrincipalRealm(alice), Recovery: core.Park, Lease: 10 * time.Second, Deadline: time.Minute})
		require.NoError(t, err)
		var asked list[core.Record]
		a := newApp(t, core.Config{Store: st, SweepEvery: time.Second,
			Reconcile: func(_ context.Context, r core.Record) (*core.Decision, error) {
				asked.add(r)
				return nil, nil
			}}, created)
		stop := a.start()
		time.Sleep(30 * time.Second)
		require.Empty(t, asked.all(), "past its lease, but its handler may still be at work")
		time.Sleep(32 * time.Second)
		stop()
		require.NotEmpty(t, asked.all())
		require.False(t, asked.all()[0].Now.Before(claimed.Record.Deadline))
		require.Empty(t, a.of(core.EventFailed))
	})
	// A decision of the reconciler is about the attempt that it was asked about. While it asks the provider, an operator
	// frees the key, and a repeat runs: its outcome is unknown, too, but nobody has asked for it.
	inBubble(t, "reconciler decides about one attempt", func(t *testing.T) {
		st := memstore.New()
		var other *app
		asked := 0
		cfg := core.Config{Store: st, SweepEvery: time.Hour, Policy: core.Policy{Recovery: core.Park, Deadline: 10 * time.Minute},
			Reconcile: func(ctx context.Context, r core.Record) (*core.Decision, error) {
				if asked++; asked > 1 {
					return nil, nil
				}
				decision := core.Decision{Who: "operator", Why: "unknown to the provider"}
				_, err := operations.New(other.module).Settle(ctx, r.ID, decision)
				require.NoError(t, err)
				other.post("k-1", `{}`)
				time.Sleep(store.DefaultDeadline)
				return &decision, nil
			}}
		a := newApp(t, cfg, status(502))
		other = newApp(t, core.Config{Store: st}, status(502)) // its deadline is shorter
		other.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		a.runFor(2 * store.DefaultDeadline)
		require.Equal(t, 1, asked)
		requireProblem(t, other.post("k-1", `{}`), 409, core.CodeOutcomeUnknown)
		require.Equal(t, 2, other.runs, "a third would be an execution without proof")
		require.Empty(t, a.of(core.EventFailed), "it is asked again")
	})
	inBubble(t, "reconcilers of two instances", func(t *testing.T) {
		st := memstore.New()
		var other *app
		decision := &core.Decision{Who: "reconciler", Why: "unknown to the provider"}
		cfg := core.Config{Store: st, Reconcile: func(ctx context.Context, r core.Record) (*core.Decision, error) {
			_, err := operations.New(other.module).Settle(ctx, r.ID, *decision) // the other instance is quicker
			require.NoError(t, err)
			return decision, nil
		}}
		a := newApp(t, cfg, status(502))
		other = newApp(t, core.Config{Store: st}, nil)
		a.post("k-1", `{}`)
		time.Sleep(store.DefaultDeadline)
		a.start()()
		require.Empty(t, a.of(core.EventFailed), "another instance having settled it is how this is meant to be")
		require.Empty(t, a.of(core.EventSettled))
		require.Len(t, other.of(core.EventSettled), 1)
		require.Len(t, st.Settlements(core.Scoping{}.RecordID(alice, "k-1")), 1)
	})
}

// listAway is a store that cannot be listed.
type listAway struct{ store.Operations }

func (listAway) List(context.Context, store.Query) ([]core.Record, error) {
	return nil, errAway
}

// CONTRACT F-1
func TestClaimsOfAFlood(t *testing.T) {
	// A request whose claim failed helps to release what a flood has left behind, for as long as it would wait for any other
	// call of the store and no longer.
	inBubble(t, "answer does not wait for the releases of others", func(t *testing.T) {
		st := newFaultStore(memstore.New()).on("after claim", away)
		st.on("release", away)
		a := newApp(t, core.Config{Store: st}, created)
		for i := range 100 {
			requireProblem(t, a.post("k-"+strconv.Itoa(i), `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		}
		st.on("release", func(ctx context.Context) error { // the store is back, and slow
			time.Sleep(300 * time.Millisecond)
			return ctx.Err()
		})
		asked := time.Now()
		requireProblem(t, a.post("k-100", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.LessOrEqual(t, time.Since(asked), store.DefaultClaimTimeout+300*time.Millisecond)
		time.Sleep(time.Minute) // a hundred slow releases; the last key may be left to Run

		st.on("after claim", nil)
		st.on("release", nil)
		a.start()()
		for i := range 101 {
			require.Equal(t, "created", a.post("k-"+strconv.Itoa(i), `{}`).Header().Get("Idempotency-Result"), i)
		}
	})
	inBubble(t, "won claim is released where its steps find no room", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		status := http.StatusInternalServerError // yields: the next claim reads the steps
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}},
			sealed(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		require.Equal(t, status, a.post("k-1", `{}`).Code)

		st.on("steps", func(context.Context) error { return fmt.Errorf("%w: no connection", store.ErrCrowded) })
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		st.on("steps", nil)
		synctest.Wait()
		status = http.StatusCreated
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"), "nobody waits for a lease")
	})
}
