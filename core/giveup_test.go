package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
)

// halfDoneApp has a half-done operation under k-1, whose step "reserve" has finished. From then on its handler fails.
func halfDoneApp(t *testing.T, st core.Store, policy core.Policy, resume core.Resumer) *app {
	t.Helper()
	policy.Recovery = core.Resume
	s := &take{fail: "charge"}
	a := newOpsApp(t, core.Config{Store: st, Policy: policy, Resume: resumes(resume)}, flow(func(ctx context.Context) (int, error) {
		return http.StatusCreated, s.steps(ctx, "reserve", "charge")
	}).ServeHTTP)
	require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
	time.Sleep(store.DefaultDeadline)
	return a
}

// CONTRACT
func TestGivingUp(t *testing.T) {
	// A failing Resumer does not try for ever, and not faster and faster: the pause grows with each attempt, and the time ends it.
	inBubble(t, "resumer backs off and gives up", func(t *testing.T) {
		var tries list[time.Time]
		a := halfDoneApp(t, memstore.New(), core.Policy{}, func(context.Context, core.Record) (*core.Answer, error) {
			tries.add(time.Now())
			return nil, errProvider
		})
		for range 4 { // restarts change nothing
			a.runFor(8 * time.Hour)
		}
		times := tries.all()
		require.Less(t, len(times), store.DefaultMaxAttempts)
		for i := range len(times) - 1 {
			pause := min(store.DefaultPause<<min(max(i-1, 0), 10), store.MaxPause) // behind the client's own attempt, and the first of Run, none
			require.InDelta(t, pause, times[i+1].Sub(times[i]), float64(2*core.DefaultSweepEvery+time.Second))
		}
		require.Len(t, a.of(core.EventUnknown), 1)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
	inBubble(t, "changed steps are given up", func(t *testing.T) {
		const attempts = 10
		s := take{fail: "book"}
		names := []string{"charge", "book"}
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume, MaxAttempts: attempts}},
			flow(func(ctx context.Context) (int, error) { return http.StatusCreated, s.steps(ctx, names...) }).ServeHTTP)
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		names = []string{"pay"}
		for range attempts - 2 {
			requireProblem(t, a.post("k-1", `{}`), http.StatusInternalServerError, core.CodeStepsChanged)
			time.Sleep(store.MaxPause)
		}
		for range 2 {
			w := a.post("k-1", `{}`)
			requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
			require.Equal(t, "k-1", w.Header().Get("Idempotency-Key"))
			require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
		}
		require.Equal(t, attempts, a.ran())
	})
	inBubble(t, "nobody repeats the command: Run does not wait for the operation's time, as no attempt is left", func(t *testing.T) {
		a, _ := lostLastApp(t)
		told := len(a.of(core.EventUnknown)) // by the attempt, which could not park
		a.runFor(time.Hour)
		require.Len(t, a.of(core.EventUnknown), told+1)
		require.Equal(t, 1, a.ran())
	})
	// The process dies in the last attempt: the next one that claims parks the operation, and runs nothing.
	inBubble(t, "lost last attempt is given up", func(t *testing.T) {
		a, _ := lostLastApp(t)
		a.handler = created
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, "k-1", w.Header().Get("Idempotency-Key"))
		require.Equal(t, 1, a.ran())
	})
	inBubble(t, "a repeat after the time is one too many, whether Run is there or not", func(t *testing.T) {
		a := halfDoneApp(t, memstore.New(), core.Policy{}, nil)
		ran := a.ran()
		time.Sleep(core.DefaultResumeFor)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Equal(t, ran, a.ran())
	})
}

// The row says how many attempts there were: a repeat counts as one, and after the last one the handler does not run.
//
// CONTRACT X-10
func TestRepeatsGiveUp(t *testing.T) {
	eachInBubble(t, map[string]http.HandlerFunc{
		"5xx":   sealed(status(http.StatusBadGateway)),
		"panic": sealed(func(http.ResponseWriter, *http.Request) { panic("boom") }),
		"4xx while a step is unfinished": flow(func(ctx context.Context) (int, error) {
			_ = core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { return errProvider },
				core.Dedup(24*time.Hour))
			return http.StatusBadRequest, nil
		}).ServeHTTP,
	}, func(t *testing.T, fails http.HandlerFunc) {
		const attempts = 10
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume, MaxAttempts: attempts}}, fails)
		for range attempts + 2 {
			a.postRecovered("k-1", `{}`)
			time.Sleep(store.MaxPause)
		}
		require.Equal(t, attempts, a.ran())
		require.Len(t, a.of(core.EventUnknown), 1)
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
	})
}

// lostLastApp has an operation under k-1 whose process died in its last attempt.
func lostLastApp(t *testing.T) (*app, *faultStore) {
	t.Helper()
	st := newFaultStore(memstore.New())
	a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, MaxAttempts: 1}}, nil)
	a.handler = sealed(func(http.ResponseWriter, *http.Request) {
		st.on("park", away) // nobody says how it ended
		st.on("renew", away)
		panic("the process dies here")
	})
	a.postRecovered("k-1", `{}`)
	st.on("park", nil)
	st.on("renew", nil)
	time.Sleep(store.DefaultLease)
	return a, st
}

// Nobody comes back, and there is no Resumer; or the route is another by now.
//
// CONTRACT X-10, T-1
func TestRunGivesUpAfterItsTime(t *testing.T) {
	for name, change := range map[string]func(*core.Config){
		"without a resumer": func(*core.Config) {},
		"the route is renamed": func(c *core.Config) {
			c.Routes = core.Routes{"POST /v2/payments": {Recovery: core.Park, Formerly: []string{pattern}}}
		},
		"the route is Park":    func(c *core.Config) { c.Policy.Recovery = core.Park },
		"the resumer has less": func(c *core.Config) { c.Policy.ResumeFor = time.Hour },
	} {
		inBubble(t, name, func(t *testing.T) {
			st := memstore.New()
			old := halfDoneApp(t, st, core.Policy{}, nil)
			var resumed list[core.ID]
			cfg := core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume},
				Resume: resumes(func(_ context.Context, r core.Record) (*core.Answer, error) {
					resumed.add(r.ID)
					return nil, errProvider
				})}
			if change(&cfg); cfg.Routes != nil {
				cfg.Policy.Recovery = 0
			}
			if name != "the resumer has less" {
				cfg.Resume = nil
			}
			a := newApp(t, cfg, nil)
			stop := a.start()
			time.Sleep(50 * time.Minute)
			require.Empty(t, a.of(core.EventUnknown))
			rec := find(t, st, "k-1")
			require.Equal(t, store.Running, rec.Stored)
			time.Sleep(24 * time.Hour)
			stop()
			require.Len(t, a.of(core.EventUnknown), 1)
			require.Equal(t, name == "the resumer has less", len(resumed.all()) > 0, "only on a Resume route")
			requireProblem(t, old.post("k-1", `{}`), http.StatusConflict, core.CodeOutcomeUnknown)
		})
	}
}

// Config.Resume is a table: an erasure that broke off, beside the refunds' resumer, is left to its operator and loses no attempt.
// The repeat goes on behind what it has erased, and ends it.
//
// CONTRACT X-10
func TestResumersAreByRoute(t *testing.T) {
	inBubble(t, "an erasure beside the refunds' resumer", func(t *testing.T) {
		const refunds, erasures = "/v1/refunds", "/v1/erasures"
		st, resumed := &erasing{Store: memstore.New(), dies: 2}, list[string]{}
		a := newOpsApp(t, core.Config{Store: st,
			Routes: core.Routes{"POST " + refunds: {Recovery: core.Resume},
				"POST " + erasures: {Recovery: core.Resume, Roles: []string{"operator"}}},
			Resume: map[string]core.Resumer{"POST " + refunds: func(ctx context.Context, r core.Record) (*core.Answer, error) {
				resumed.add(r.Route)
				return &core.Answer{Status: http.StatusCreated}, book(ctx, "sealed", nil)
			}}}, sealed(status(http.StatusBadGateway)))
		a.pattern = refunds
		a.post("k-1", `{}`)
		a.pattern, a.handler = erasures, func(w http.ResponseWriter, r *http.Request) {
			_ = operations.New(a.module).Serve(operations.Erase, r, operator, "").WriteTo(w)
		}
		erase := func() *httptest.ResponseRecorder { return a.postAs(operator, "k-2", eraseAlice) }
		requireProblem(t, erase(), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		time.Sleep(store.DefaultDeadline)
		a.runFor(core.DefaultResumeFor / 2)
		require.Equal(t, []string{refunds}, resumed.all())
		rec, err := st.Find(t.Context(), core.Scoping{}.RecordID(operator, "k-2"), store.Viewer{All: true})
		require.NoError(t, err)
		require.True(t, rec.HalfDone())
		require.Equal(t, 1, rec.Attempts)
		require.Equal(t, operations.Outlook{Known: true, Until: rec.CreatedAt.Add(core.DefaultResumeFor)}, operations.New(a.module).Outlook(rec))
		batches := st.batches
		w := erase()
		require.Equal(t, "created", w.Header().Get("Idempotency-Result"), w.Body)
		require.JSONEq(t, `{"records":3,"open":[]}`, w.Body.String())
		require.Equal(t, batches+2, st.batches, "what was erased is not erased again")
		a.pattern = refunds
		requireProblem(t, a.post("k-1", `{}`), http.StatusConflict, core.CodeKeyExpired)
	})
}

// CONTRACT X-10, S-5, X-7
func TestHalfDoneOperations(t *testing.T) {
	inBubble(t, "half done operations are listed", func(t *testing.T) {
		a := halfDoneApp(t, memstore.New(), core.Policy{}, nil)
		a.handler = sealed(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		go a.post("running", `{}`)
		synctest.Wait()
		w := a.operations(operator, "state=half_done")
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), `"id":"`+idOf("k-1")+`","state":"half_done"`)
		require.NotContains(t, w.Body.String(), idOf("running"))
		require.Equal(t, "[]\n", a.operations(operator, "").Body.String(), "it is not unknown yet")
		require.Contains(t, a.operation(operator, idOf("k-1")).Body.String(), `"state":"half_done"`)
		require.Contains(t, a.operation(alice, idOf("k-1")).Body.String(), `"state":"running"`, "to its client, who may repeat it")
		other := core.Principal{Issuer: "https://other.example", Subject: "olga", Roles: operator.Roles}
		require.Equal(t, "[]\n", a.operations(other, "state=half_done").Body.String())
		requireProblem(t, a.operations(alice, "state=half_done"), http.StatusForbidden, core.CodeForbidden)
		requireProblem(t, a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r"}`), http.StatusConflict,
			core.CodeNotSettleable)
		time.Sleep(store.DefaultDeadline)
		synctest.Wait()

		time.Sleep(core.DefaultResumeFor)
		a.start()() // Run parks both
		require.Equal(t, "[]\n", a.operations(operator, "state=half_done").Body.String())
		require.Contains(t, a.operations(operator, "state=unknown").Body.String(), idOf("k-1"))
	})
	inBubble(t, "settlement of finished steps", func(t *testing.T) {
		st := memstore.New()
		var asked int
		a := newOpsApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, MaxAttempts: 1},
			Reconcile: func(context.Context, core.Record) (*core.Decision, error) {
				asked++
				return &core.Decision{Who: "reconciler", Why: "the provider has no such charge"}, nil
			}}, nil)
		for key, fail := range map[string]string{"k-1": "charge", "k-2": "reserve", "k-3": "charge"} {
			s := take{fail: fail}
			a.handler = flow(func(ctx context.Context) (int, error) { return 0, s.steps(ctx, "reserve", "charge") }).ServeHTTP
			a.post(key, `{}`)
		}
		time.Sleep(store.DefaultDeadline)
		a.start()()
		require.Equal(t, 3, asked)
		require.Len(t, a.of(core.EventSettled), 1, "of the one without a finished step")
		require.Len(t, st.Settlements(core.Scoping{}.RecordID(alice, "k-2")), 1)
		for _, e := range a.of(core.EventFailed) {
			require.ErrorIs(t, e.Err, store.ErrStepsFinished)
		}

		settle := func(key, members string) int {
			return a.serveSettle(operator, idOf(key), `{"reason":"r",`+members+`}`).Code
		}
		w := a.serveSettle(operator, idOf("k-1"), `{"outcome":"not_applied","reason":"r"}`)
		requireProblem(t, w, http.StatusConflict, core.CodeNotSettleable)
		require.Contains(t, w.Body.String(), "undone")
		require.Equal(t, http.StatusConflict, settle("k-1", `"outcome":"not_applied","undone":" "`))
		require.Equal(t, http.StatusBadRequest, settle("k-1", `"outcome":"applied","undone":"x"`))
		require.Equal(t, http.StatusBadRequest, settle("k-1", `"outcome":"not_applied","undone":"a\u0000b"`))
		require.Equal(t, http.StatusOK, settle("k-1", `"outcome":"not_applied","undone":"reservation 7 was given back"`))
		history := st.Settlements(core.Scoping{}.RecordID(alice, "k-1"))
		require.Len(t, history, 1)
		require.Equal(t, "reservation 7 was given back", history[0].Undone)
		require.Equal(t, http.StatusOK, settle("k-3", `"outcome":"applied"`))

		s := take{}
		a.handler = flow(func(ctx context.Context) (int, error) {
			return http.StatusCreated, s.steps(ctx, "reserve", "charge")
		}).ServeHTTP
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, []string{"reserve", "charge"}, s.ran, "another life: from the first step on")
		_, err := operations.New(a.module).Settle(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), core.Decision{Who: "w", Why: "w"})
		require.ErrorIs(t, err, store.ErrNotSettleable)
	})
	inBubble(t, "half done operations do not count for max open", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume, MaxOpen: 2}}, sealed(status(http.StatusBadGateway)))
		a.post("k-1", `{}`)
		a.post("k-2", `{}`)
		requireProblem(t, a.post("k-3", `{}`), http.StatusTooManyRequests, core.CodeTooManyOpen)
		time.Sleep(store.DefaultDeadline)
		a.handler = created
		require.Equal(t, http.StatusCreated, a.post("k-3", `{}`).Code)
	})
}

// Run goes on with an operation whose attempt was lost, after its last finished step, and the client's repeat gets the
// answer. What fails is left to the next time.
//
// CONTRACT
func TestRunResumesLostAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		s := &take{}
		var failures []error
		ends := []func() (*core.Answer, error){
			func() (*core.Answer, error) { return nil, errProvider },
			func() (*core.Answer, error) { panic("a resumer panics") },
			func() (*core.Answer, error) { return nil, nil },
			func() (*core.Answer, error) {
				return &core.Answer{Status: http.StatusCreated, Header: http.Header{"location": {"/v1/payments/1"}},
					Body: []byte("resumed")}, nil
			},
		}
		resumed := 0
		module := newModule(t, core.Config{
			Store: store, Policy: core.Policy{Recovery: core.Resume},
			Resume: resumes(func(ctx context.Context, operation core.Record) (*core.Answer, error) {
				require.Equal(t, core.Scoping{}.RecordID(alice, "k-1"), operation.ID)
				if err := s.steps(ctx, "reserve", "charge"); err != nil {
					return nil, err
				}
				resumed++
				return ends[resumed-1]()
			}),
			Observer: core.ObserverFunc(func(_ context.Context, e core.Event) {
				if e.Kind == core.EventFailed {
					failures = append(failures, e.Err)
				}
			}),
		})
		a := newApp(t, core.Config{Store: store, Policy: core.Policy{Recovery: core.Resume}},
			func(_ http.ResponseWriter, r *http.Request) {
				require.NoError(t, s.steps(r.Context(), "reserve"))
				panic("the process dies here")
			})
		a.postRecovered("k-1", `{}`)

		(&app{t: t, module: module}).runFor(20 * core.DefaultSweepEvery)
		require.Equal(t, len(ends), resumed, "until it is done, and not again")
		require.Equal(t, []string{"reserve", "charge"}, s.ran, "no finished step runs again")
		require.Len(t, failures, 3)
		require.ErrorIs(t, failures[0], errProvider)
		require.ErrorContains(t, failures[1], "a resumer panics")
		require.ErrorContains(t, failures[2], "neither an answer nor an error")

		w := a.post("k-1", `{}`)
		requireCreated(t, w, "reused")
		require.Equal(t, "/v1/payments/1", w.Header().Get("Location"))
		require.Equal(t, "resumed", w.Body.String())
	})
}

// An answer whose status is none ends the attempt like an error, and says what is wrong. A repeat can continue at once.
//
// CONTRACT
func TestResumerWithoutAStatus(t *testing.T) {
	for _, code := range []int{-1, 0, 101, 199, 600, 1000} {
		inBubble(t, strconv.Itoa(code), func(t *testing.T) {
			s := &take{fail: "charge"}
			steps := func(ctx context.Context) error { return s.steps(ctx, "reserve", "charge") }
			a := newApp(t, core.Config{
				Policy: core.Policy{Recovery: core.Resume},
				Resume: resumes(func(ctx context.Context, _ core.Record) (*core.Answer, error) {
					return &core.Answer{Status: code}, steps(ctx)
				}),
			}, flow(func(ctx context.Context) (int, error) { return http.StatusCreated, steps(ctx) }).ServeHTTP)
			a.post("k-1", `{}`)
			s.fail = ""
			time.Sleep(store.DefaultDeadline)
			stop := a.start()
			for len(a.of(core.EventResumed)) == 0 {
				time.Sleep(core.DefaultSweepEvery)
			}
			synctest.Wait()
			stop()

			kinds := a.kinds()
			kinds = kinds[slices.Index(kinds, core.EventResumed):]
			ends := slices.DeleteFunc(slices.Clone(kinds), func(kind core.EventKind) bool { return !kind.EndsAttempt() })
			require.Equal(t, []core.EventKind{core.EventYielded}, ends, "%v", kinds)
			require.Len(t, a.of(core.EventFailed), 1)
			require.ErrorContains(t, a.of(core.EventFailed)[0].Err, "Answer.Status: "+strconv.Itoa(code)+" is not 200 to 599")
			requireCreated(t, a.post("k-1", `{}`), "created")
			require.Equal(t, []string{"reserve", "charge", "charge"}, s.ran, "the steps of the resumer stay")
		})
	}
}

// CONTRACT
func TestRunLeavesAttemptsAlone(t *testing.T) {
	inBubble(t, "Run leaves running attempts alone", func(t *testing.T) {
		st := memstore.New()
		module := newModule(t, core.Config{
			Store: st, Policy: core.Policy{Recovery: core.Resume},
			Resume: resumes(func(context.Context, core.Record) (*core.Answer, error) {
				return nil, errors.New("it is running elsewhere")
			}),
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}},
			sealed(func(w http.ResponseWriter, _ *http.Request) {
				go func() { done <- module.Run(ctx) }()
				time.Sleep(store.DefaultDeadline) // its lease is renewed
				w.WriteHeader(http.StatusCreated)
			}))
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.NotContains(t, a.kinds(), core.EventLeaseLost)
		stop()
		require.NoError(t, <-done)
	})
	// An operation that is freed before Run comes to it is not run again: its client was told that nothing was applied, and
	// may have sent the command with a new key.
	inBubble(t, "Run leaves freed operations alone", func(t *testing.T) {
		store, resumed := &stale{Store: memstore.New(), t: t}, 0
		module := newModule(t, core.Config{
			Store: store, Policy: core.Policy{Recovery: core.Resume},
			Resume: resumes(func(context.Context, core.Record) (*core.Answer, error) {
				resumed++
				return nil, errProvider
			}),
		})
		a := newApp(t, core.Config{Store: store.Store, Policy: core.Policy{Recovery: core.Resume}},
			sealed(func(http.ResponseWriter, *http.Request) { panic("the process dies here") }))
		a.postRecovered("k-1", `{}`)
		(&app{t: t, module: module}).runFor(20 * core.DefaultSweepEvery)
		require.Equal(t, 1, store.freed)
		require.Zero(t, resumed)
	})
}

// stale is a store whose list of what can be resumed is old: the records on it are free by now.
type stale struct {
	*memstore.Store
	t     *testing.T
	freed int
}

func (s *stale) List(ctx context.Context, q store.Query) ([]core.Record, error) {
	records, err := s.Store.List(ctx, q)
	if !q.Resumable {
		return records, err
	}
	for _, rec := range records {
		require.NoError(s.t, s.End(ctx, rec.Ticket, store.Ending{State: store.Free}))
		s.freed++
	}
	return records, err
}
