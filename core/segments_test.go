package core_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/internal/attemptctx"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// sealLog is a store that writes down what is sealed, and in which order calls leave.
type sealLog struct {
	*faultStore
	log list[string]
}

func newSealLog() *sealLog {
	s := &sealLog{faultStore: newFaultStore(memstore.New())}
	for call, name := range map[string]string{"start": "start", "finish": "seal", "complete": "answer"} {
		s.on(call, func(context.Context) error { s.log.add(name); return nil })
	}
	return s
}

// call is a provider call of the log.
func (s *sealLog) call(ctx context.Context, name string, opts ...core.CallOption) error {
	return core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error { s.log.add(name); return nil }, opts...)
}

var window = core.Dedup(time.Hour)

// n calls with a window are n + 1 commits; without one, each result has a commit of its own. A checkpoint is one where
// something was written, and none elsewhere.
//
// CONTRACT
func TestCommitsOfAnAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		handle func(s *sealLog, ctx context.Context) error
		want   []string
	}{
		"rows alone": {func(_ *sealLog, ctx context.Context) error {
			return cmpErr(book(ctx, "1", nil), book(ctx, "2", nil))
		}, []string{"answer"}},
		"one call": {func(s *sealLog, ctx context.Context) error {
			return cmpErr(book(ctx, "1", nil), s.call(ctx, "charge", window), book(ctx, "2", nil))
		}, []string{"start", "charge", "answer"}},
		"three calls": {func(s *sealLog, ctx context.Context) error {
			return cmpErr(s.call(ctx, "a", window), book(ctx, "1", nil), s.call(ctx, "b", window), s.call(ctx, "c", window))
		}, []string{"start", "a", "start", "b", "start", "c", "answer"}},
		"a call without a window": {func(s *sealLog, ctx context.Context) error {
			return cmpErr(s.call(ctx, "charge"), book(ctx, "1", nil))
		}, []string{"start", "charge", "seal", "answer"}},
		"checkpoints": {func(_ *sealLog, ctx context.Context) error {
			return cmpErr(core.Checkpoint(ctx), book(ctx, "1", nil), core.Checkpoint(ctx), core.Checkpoint(ctx), book(ctx, "2", nil))
		}, []string{"seal", "answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := newSealLog()
			a := newFlowApp(t, store, func(ctx context.Context) (int, error) { return http.StatusCreated, test.handle(store, ctx) })
			require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
			require.Equal(t, test.want, store.log.all())
		})
	}
}

// The result of a finished call is recorded alone where its segment does not commit, and nobody calls again.
//
// CONTRACT X-14
func TestResultOfACallOutlivesItsSegment(t *testing.T) {
	eachInBubble(t, map[string]func(ctx context.Context) (int, error){
		"5xx":        func(context.Context) (int, error) { return 0, errProvider },
		"a panic":    func(context.Context) (int, error) { panic("boom") },
		"a deadline": func(ctx context.Context) (int, error) { <-ctx.Done(); return http.StatusCreated, nil },
		"a failed step": func(ctx context.Context) (int, error) {
			_ = book(ctx, "2", errProvider)
			return http.StatusCreated, nil
		},
		"Failed": func(ctx context.Context) (int, error) { core.Failed(ctx); return http.StatusOK, nil },
	}, func(t *testing.T, end func(ctx context.Context) (int, error)) {
		var p charger
		rows, fail := 0, true
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			if _, err := charge(ctx, &p, window); err != nil {
				return 0, err
			}
			_, err := core.Step(ctx, "1", func(context.Context) (int, error) { rows++; return 0, nil })
			if err == nil && fail {
				return end(ctx)
			}
			return http.StatusCreated, err
		})
		func() {
			defer func() { _ = recover() }()
			require.NotEqual(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		}()
		fail = false
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code, "at once")
		p.requireOneCharge(t, 1)
		require.Equal(t, 2, rows, "the rows behind the call were undone, and are written again")
	})
}

// So it is where the commit itself fails: at the next call, or with the answer.
//
// CONTRACT
func TestResultOfACallOutlivesACommitThatFails(t *testing.T) {
	for call, at := range map[string]string{"start": "at the next call", "complete": "with the answer"} {
		eachInBubble(t, map[string]error{
			at + ", refused": core.ErrAborted, at + ", in conflict": core.ErrRetryable, at + ", unconfirmed": core.ErrUnconfirmed,
		}, func(t *testing.T, fault error) {
			var p charger
			st := newSealLog()
			a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
				if _, err := charge(ctx, &p, window); err != nil {
					return 0, err
				}
				st.on(call, func(context.Context) error { return fault })
				return http.StatusCreated, cmpErr(book(ctx, "1", nil), st.call(ctx, "ship", window), book(ctx, "2", nil))
			})
			require.NotEqual(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
			time.Sleep(store.DefaultLease) // of an attempt whose end is not known
			fault = nil
			requireCreated(t, a.post("k-1", `{}`), "created")
			p.requireOneCharge(t, 1)
		})
	}
}

// A refusal in front of the first commit undoes the rows, and so nobody is told of their steps.
//
// CONTRACT
func TestRefusalLeavesNoStep(t *testing.T) {
	st := memstore.New()
	a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
		return http.StatusPaymentRequired, book(ctx, "1", nil)
	})
	require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
	steps, err := st.Steps(t.Context(), core.Scoping{}.RecordID(alice, "k-1"))
	require.NoError(t, err)
	require.Empty(t, steps)
}

// CONTRACT
func TestSegmentsThatAreLost(t *testing.T) {
	// An error of a step loses its segment. Later steps, calls and checkpoints fail at once, and a success does not leave; a
	// 4xx before the first commit is recorded, behind it it is not.
	t.Run("lost segment", func(t *testing.T) {
		for _, behindCall := range []bool{false, true} {
			for status, want := range map[int]int{
				http.StatusCreated: http.StatusInternalServerError, http.StatusPaymentRequired: http.StatusPaymentRequired,
			} {
				store := newSealLog()
				a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
					if behindCall {
						require.NoError(t, store.call(ctx, "charge", window))
					}
					require.ErrorIs(t, book(ctx, "1", errProvider), errProvider)
					require.ErrorIs(t, book(ctx, "2", nil), core.ErrSegmentLost)
					require.ErrorIs(t, book(ctx, "2", nil), errProvider, "it says why")
					require.ErrorIs(t, store.call(ctx, "ship", window), core.ErrSegmentLost)
					require.ErrorIs(t, core.Checkpoint(ctx), core.ErrSegmentLost)
					return status, nil
				})
				first := a.post("k-1", `{}`)
				require.Equal(t, want, first.Code)
				require.NotContains(t, store.log.all(), "ship")
				recorded := status == http.StatusPaymentRequired && !behindCall
				require.Equal(t, recorded, first.Header().Get("Idempotency-Result") == "created")
				require.Equal(t, behindCall, first.Header().Get("Idempotency-Result") == wire.ResultUnknown)
				require.Equal(t, recorded, a.post("k-1", `{}`).Header().Get("Idempotency-Result") == "reused")
			}
		}
	})
	// A commit at a call that is refused loses the segment; one that is unknown lets nothing begin, and the client is told
	// so.
	t.Run("commit at a call that fails", func(t *testing.T) {
		for _, test := range []struct {
			err  error
			want int
			code core.Code
		}{
			{core.ErrRetryable, http.StatusServiceUnavailable, core.CodeRolledBack},
			{core.ErrAborted, http.StatusInternalServerError, core.CodeTransactionAborted},
			{core.ErrUnconfirmed, http.StatusServiceUnavailable, core.CodeCommitUnconfirmed},
			{core.ErrClock, http.StatusServiceUnavailable, core.CodeStoreUnavailable},
		} {
			for _, status := range []int{http.StatusCreated, http.StatusUnprocessableEntity} { // it counts for nothing what the handler says
				store := newSealLog()
				store.on("start", func(context.Context) error { return test.err })
				a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
					require.ErrorIs(t, store.call(ctx, "charge", window), test.err)
					require.ErrorIs(t, book(ctx, "1", nil), core.ErrSegmentLost)
					return status, nil
				})
				if w := a.post("k-1", `{}`); status >= 400 && errors.Is(test.err, core.ErrAborted) { // a refusal of the command
					require.Equal(t, status, w.Code)
					require.Equal(t, "created", w.Header().Get("Idempotency-Result"))
				} else {
					requireProblem(t, w, test.want, test.code)
				}
				require.NotContains(t, store.log.all(), "charge", "the call has not left")
			}
		}
	})
	// A step may fail with any error, those of the store's own ends too: they say nothing about this segment.
	t.Run("errors of a step are its own", func(t *testing.T) {
		for _, err := range []error{core.ErrUnconfirmed, core.ErrStale, store.ErrEnded, core.ErrRetryable, core.ErrClock} {
			for _, behindCall := range []bool{false, true} {
				store := newSealLog()
				a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
					if behindCall {
						require.NoError(t, store.call(ctx, "charge", window))
					}
					return 0, book(ctx, "1", err)
				})
				for range 2 {
					w := a.post("k-1", `{}`)
					require.Equal(t, http.StatusInternalServerError, w.Code)
					require.Contains(t, w.Body.String(), err.Error(), "the handler's own answer")
				}
				require.Equal(t, 2, a.ran(), "the next attempt begins at once")
			}
		}
	})
}

// CONTRACT X-17
func TestCheckpoints(t *testing.T) {
	t.Run("checkpoint is refused", func(t *testing.T) {
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			_, err := core.Step(ctx, "1", func(ctx context.Context) (int, error) {
				require.ErrorContains(t, core.Checkpoint(ctx), "a step is under way")
				return 0, nil
			})
			require.NoError(t, err)
			require.NoError(t, core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
				require.ErrorContains(t, core.Checkpoint(ctx), "a step is under way")
				return nil
			}))
			message, end := core.WithMessage(ctx, core.ID{1}, [32]byte{})
			defer end()
			require.ErrorContains(t, core.Checkpoint(message), "a message is being processed")
			return http.StatusCreated, nil
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.ErrorContains(t, core.Checkpoint(t.Context()), "on a route whose policy says core.Resume")
		parked := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park}}, func(w http.ResponseWriter, r *http.Request) {
			require.ErrorContains(t, core.Checkpoint(r.Context()), "on a route whose policy says core.Resume")
			created(w, r)
		})
		require.Equal(t, http.StatusCreated, parked.post("k-1", `{}`).Code)
	})
	// No later attempt would know of it. An event leaves with its rows.
	t.Run("no call leaves outside core.Call", func(t *testing.T) {
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			refused := func(ctx context.Context) {
				message, end := core.WithMessage(ctx, core.ID{1}, [32]byte{})
				defer end()
				for _, ctx := range []context.Context{ctx, message} {
					_, err := core.DeriveCall(ctx, "mail")
					require.ErrorContains(t, err, "make it in a core.Call")
				}
			}
			refused(ctx)
			_, err := core.Step(ctx, "1", func(ctx context.Context) (int, error) {
				_, err := core.DeriveEvent(ctx, "booked")
				require.NoError(t, err)
				refused(ctx)
				return 0, nil
			})
			require.NoError(t, err)
			refused(ctx)
			require.NoError(t, core.Checkpoint(ctx))
			refused(ctx)
			return http.StatusCreated, core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
				_, err := core.DeriveCall(ctx, "mail")
				return err
			})
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
}

// CONTRACT C-5, X-15, X-10, F-1
func TestTakeovers(t *testing.T) {
	t.Run("only a call whose start is certainly the first is certain not to have been made before", func(t *testing.T) {
		var first []bool
		a := newFlowApp(t, nil, func(ctx context.Context) (int, error) {
			err := core.CallDo(ctx, "charge", func(ctx context.Context, _ core.DerivedKey) error {
				first = append(first, attemptctx.StepFrom(ctx).First)
				return errProvider
			}, window)
			require.Nil(t, attemptctx.StepFrom(ctx), "outside the call")
			return 0, err
		})
		a.post("k-1", `{}`)
		a.post("k-1", `{}`)
		require.Equal(t, []bool{true, false}, first)
	})
	inBubble(t, "a takeover is committed before the handler runs: attempts grow, however each of them ends", func(t *testing.T) {
		st := memstore.New()
		id := core.Scoping{}.RecordID(alice, "k-1")
		var attempts []int
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume}}, nil)
		a.handler = sealed(func(_ http.ResponseWriter, r *http.Request) {
			rec, err := st.Find(t.Context(), id, store.Viewer{All: true})
			require.NoError(t, err)
			attempts = append(attempts, rec.Attempts)
			require.Equal(t, store.Running, rec.State())
			panic("boom")
		})
		for range 3 {
			a.postRecovered("k-1", `{}`)
		}
		require.Equal(t, []int{1, 2, 3}, attempts)
	})
	inBubble(t, "a takeover whose outcome is not known is taken back without a fence: what was finished is not lost", func(t *testing.T) {
		store := newFaultStore(memstore.New())
		a := newApp(t, core.Config{Store: claimsUnknown{store}, Policy: core.Policy{Recovery: core.Resume}}, sealed(status(502)))
		a.post("k-1", `{}`)
		store.on("claim", away)
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		store.on("claim", nil)
		synctest.Wait()
		a.handler = sealed(created)
		require.Equal(t, "created", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, 2, a.ran())
	})
}

// CONTRACT X-17
func TestLongSegmentIsAnEvent(t *testing.T) {
	for name, test := range map[string]struct {
		work func(ctx context.Context) error
		want int
	}{
		"a third": {func(context.Context) error { time.Sleep(store.DefaultDeadline/3 + time.Second); return nil }, 1},
		"less":    {func(context.Context) error { time.Sleep(store.DefaultDeadline/3 - time.Second); return nil }, 0},
		"two halves": {func(ctx context.Context) error {
			time.Sleep(store.DefaultDeadline / 4)
			err := cmpErr(book(ctx, "1", nil), core.Checkpoint(ctx), book(ctx, "2", nil))
			time.Sleep(store.DefaultDeadline / 4)
			return err
		}, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newFlowApp(t, nil, func(ctx context.Context) (int, error) { return http.StatusCreated, test.work(ctx) })
			require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
			require.Len(t, a.of(core.EventLongSegment), test.want)
		})
	}
}

// claimsUnknown is a store whose takeovers land, and answer with an error where the hook "claim" says so.
type claimsUnknown struct{ *faultStore }

func (s claimsUnknown) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	segments, claimed, err := s.Operations.(store.Attempts).Begin(ctx, c)
	if lost := s.before(ctx, "claim"); err == nil && lost != nil {
		return nil, store.Claimed{Record: core.Record{Ticket: store.Ticket{ID: c.ID, Owner: c.Owner}}}, lost
	}
	return segments, claimed, err
}

// An attempt that has sealed nothing leaves nothing, and its key is free.
//
// CONTRACT
func TestFirstAttemptThatFailsLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(ctx context.Context) (int, error)
		event core.EventKind
	}{
		"5xx":        {func(context.Context) (int, error) { return 0, errProvider }, core.EventRolledBack},
		"429":        {func(context.Context) (int, error) { return http.StatusTooManyRequests, nil }, core.EventRolledBack},
		"NotApplied": {func(ctx context.Context) (int, error) { core.NotApplied(ctx); return 409, nil }, core.EventRolledBack},
		"a panic":    {func(context.Context) (int, error) { panic("boom") }, core.EventRolledBack},
		"a deadline": {func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) }, core.EventRolledBack},
	} {
		inBubble(t, name, func(t *testing.T) {
			st := memstore.New()
			a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
				running, err := st.InFlight(ctx, core.Scoping{}.RecordID(alice, "k-1"))
				require.NoError(t, err)
				require.True(t, running)
				require.NoError(t, book(ctx, "1", nil))
				return test.end(ctx)
			})
			for range 2 {
				a.postRecovered("k-1", `{"a":1}`)
				a.postRecovered("k-1", `{"b":2}`)
			}
			require.Equal(t, 4, a.ran(), "two commands under one key, one after the other: the key is free each time")
			require.Len(t, a.of(test.event), 4)
			_, err := st.Find(t.Context(), core.Scoping{}.RecordID(alice, "k-1"), store.Viewer{All: true})
			require.ErrorIs(t, err, core.ErrNotFound)
		})
	}
}

// A seal waits for a renewal that was sent: both write the record.
//
// CONTRACT
func TestSealWaitsForARenewal(t *testing.T) {
	eachInBubble(t, map[string]func(s *sealLog, ctx context.Context) error{
		"at a call":     func(s *sealLog, ctx context.Context) error { return s.call(ctx, "ship", window) },
		"at the answer": func(*sealLog, context.Context) error { return nil },
		"of a result":   func(s *sealLog, ctx context.Context) error { return s.call(ctx, "ship") },
	}, func(t *testing.T, end func(s *sealLog, ctx context.Context) error) {
		st := newSealLog()
		renewing := false
		st.on("renew", func(context.Context) error {
			renewing = true
			time.Sleep(900 * time.Millisecond)
			renewing = false
			return nil
		})
		for _, call := range []string{"start", "finish", "complete"} {
			st.on(call, func(context.Context) error { require.False(t, renewing, call); return nil })
		}
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
			err := st.call(ctx, "charge", window)
			time.Sleep(store.DefaultLease/3 + time.Millisecond) // the renewal was sent
			return http.StatusCreated, cmpErr(err, end(st, ctx))
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Empty(t, a.of(core.EventLeaseLost))
	})
}

// The lease is renewed while no segment is open, from the beginning of a takeover on. While one is open, its transaction is
// the lease, and a renewal would wait for it.
//
// CONTRACT
func TestRenewalsOfResume(t *testing.T) {
	wait := func() { time.Sleep(store.DefaultLease + time.Second) }
	inBubble(t, "after a takeover", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, sealed(status(http.StatusBadGateway)))
		a.post("k-1", `{}`)
		var again *httptest.ResponseRecorder
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			a.handler = sealed(created)
			wait()
			again = a.post("k-1", `{}`)
			a.handler(w, r)
		}
		requireCreated(t, a.post("k-1", `{}`), "created")
		requireProblem(t, again, http.StatusConflict, core.CodeInFlight)
		require.Equal(t, 2, a.ran())
	})
	inBubble(t, "in a segment", func(t *testing.T) {
		st := newFaultStore(memstore.New())
		renewed := st.count("renew")
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
			require.NoError(t, cmpErr(book(ctx, "1", nil), core.Checkpoint(ctx)))
			_, err := core.Step(ctx, "2", func(context.Context) (int, error) { wait(); return 0, nil })
			return http.StatusCreated, err
		})
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Zero(t, *renewed)
	})
}

// deadlines is a writer that keeps the last deadline for its writes, and writes down when bytes leave.
type deadlines struct {
	*httptest.ResponseRecorder
	log   *list[string]
	until time.Time
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.log.add(string(p))
	return d.ResponseRecorder.Write(p)
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.until = t
	return nil
}

// What stands in front of bytes that leave is durable before them.
//
// CONTRACT X-14
func TestNothingStreamsBeforeItIsDurable(t *testing.T) {
	work := func(ctx context.Context, name string) error { return book(ctx, name, nil) }
	none := func(context.Context, string) error { return nil }
	each(t, map[string]struct {
		work func(ctx context.Context, name string) error
		want []string
	}{
		"steps":            {work, []string{"seal", "1", "seal", "2", "answer"}},
		"the record alone": {none, []string{"seal", "1", "2", "answer"}},
	}, func(t *testing.T, test struct {
		work func(ctx context.Context, name string) error
		want []string
	}) {
		st := newSealLog()
		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, Streaming: true}},
			func(w http.ResponseWriter, r *http.Request) {
				for _, name := range []string{"1", "2"} {
					require.NoError(t, test.work(r.Context(), name))
					_, _ = w.Write([]byte(name))
					_ = http.NewResponseController(w).Flush()
				}
			})
		w := &deadlines{ResponseRecorder: httptest.NewRecorder(), log: &st.log}
		a.serve(w, newCommand("k-1", `{}`), alice)
		require.Equal(t, test.want, st.log.all())
	})
}

// Nothing leaves of an answer that rests on a lost segment. One that has left already, and rests on a call that has not
// finished, is broken off, so that no client takes it for a success.
//
// CONTRACT
func TestStreamedSuccessThatIsNone(t *testing.T) {
	for name, test := range map[string]struct {
		work    func(ctx context.Context) error
		want    int
		failing bool
	}{
		"a lost segment":     {func(ctx context.Context) error { return book(ctx, "1", errProvider) }, http.StatusInternalServerError, false},
		"an unfinished call": {func(ctx context.Context) error { return (&take{fail: "charge"}).steps(ctx, "charge") }, http.StatusCreated, true},
		"none":               {func(ctx context.Context) error { return book(ctx, "1", nil) }, http.StatusCreated, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume, Streaming: true}},
				func(w http.ResponseWriter, r *http.Request) {
					_ = test.work(r.Context())
					created(w, r)
					_ = http.NewResponseController(w).Flush()
				})
			w := &deadlines{ResponseRecorder: httptest.NewRecorder(), log: new(list[string])}
			a.serve(w, newCommand("k-1", `{}`), alice)
			require.Equal(t, test.want, w.Code)
			require.Equal(t, test.failing, w.until.Equal(time.Unix(1, 0)))
			require.Equal(t, name == "none", a.of(core.EventCompleted) != nil)
		})
	}
}

// A streamed answer that was not recorded is broken off, however the recording failed: no client takes it for the answer
// that a repeat gets. One that was recorded ends as usual.
//
// CONTRACT
func TestStreamedAnswerThatIsNotRecorded(t *testing.T) {
	none := func(context.Context) error { return nil }
	rows := func(ctx context.Context) error { return book(ctx, "rows", nil) }
	for name, test := range map[string]struct {
		recovery core.Recovery
		status   int
		behind   func(ctx context.Context) error // what the handler does behind the flush
		fault    error                           // of the store that records the answer
		failing  bool
	}{
		"Park":                      {core.Park, http.StatusCreated, none, nil, false},
		"Park, settled meanwhile":   {core.Park, http.StatusCreated, none, core.ErrStale, true},
		"Park, the record is lost":  {core.Park, http.StatusCreated, none, core.ErrNotFound, true},
		"Park, a refusal":           {core.Park, http.StatusPaymentRequired, none, core.ErrNotFound, true},
		"Resume":                    {core.Resume, http.StatusCreated, rows, nil, false},
		"Resume, refused":           {core.Resume, http.StatusCreated, rows, core.ErrAborted, true},
		"Resume, unconfirmed":       {core.Resume, http.StatusCreated, rows, core.ErrUnconfirmed, true},
		"Resume, taken over":        {core.Resume, http.StatusCreated, none, core.ErrStale, true},
		"Resume, a refusal":         {core.Resume, http.StatusPaymentRequired, rows, core.ErrRetryable, true},
		"Resume, fails after bytes": {core.Resume, http.StatusBadGateway, none, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			st := newFaultStore(memstore.New())
			if test.fault != nil {
				st.on("complete", func(context.Context) error { return test.fault })
			}
			a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: test.recovery, Streaming: true}},
				func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(test.status)
					_, _ = w.Write([]byte("paid"))
					_ = http.NewResponseController(w).Flush()
					require.NoError(t, test.behind(r.Context()))
				})
			requireStreamed(t, a, test.status, test.failing)
			require.Equal(t, !test.failing && test.status < 500, a.of(core.EventCompleted) != nil)
		})
	}
	t.Run("a step of the attempt before is left out", func(t *testing.T) {
		again := false
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume, Streaming: true}},
			func(w http.ResponseWriter, r *http.Request) {
				if !again {
					require.NoError(t, cmpErr(book(r.Context(), "1", nil), core.Checkpoint(r.Context())))
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				created(w, r)
				_ = http.NewResponseController(w).Flush()
			})
		require.Equal(t, http.StatusBadGateway, a.post("k-1", `{}`).Code)
		again = true
		requireStreamed(t, a, http.StatusCreated, true)
	})
	inBubble(t, "the deadline has undone rows", func(t *testing.T) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Resume, Streaming: true}},
			func(w http.ResponseWriter, r *http.Request) {
				created(w, r)
				_ = http.NewResponseController(w).Flush()
				require.NoError(t, book(r.Context(), "1", nil))
				<-r.Context().Done()
				synctest.Wait() // a handler that returns at that very moment is in time
			})
		w := &deadlines{ResponseRecorder: httptest.NewRecorder(), log: new(list[string])}
		a.serve(w, newCommand("k-1", `{}`), alice)
		require.Equal(t, http.StatusCreated, w.Code)
		require.True(t, w.until.Equal(time.Unix(1, 0)), "broken off")
	})
}

// requireStreamed sends k-1 to a through a real server, and requires an answer that begins with status, and that is whole or
// broken off.
func requireStreamed(t *testing.T, a *app, status int, failing bool) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, alice) }))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+pattern, strings.NewReader(`{}`))
	require.NoError(t, err)
	r.Header.Set(wire.HeaderKey, "k-1")
	r.Header.Set("Content-Type", "application/json")
	res, err := server.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, status, res.StatusCode)
	_, err = io.ReadAll(res.Body)
	require.Equal(t, failing, err != nil, "%v", err)
}

// CONTRACT
func TestCommitsAtACall(t *testing.T) {
	// A store that takes its time over the commit at a call has used up the lease: the call is not made, and the next
	// attempt makes it.
	inBubble(t, "no call behind a slow commit", func(t *testing.T) {
		st := newSealLog()
		slow := store.DefaultLease*2/3 + time.Second
		st.on("after start", func(context.Context) error { time.Sleep(slow); return nil })
		a := newFlowApp(t, st, func(ctx context.Context) (int, error) {
			err := st.call(ctx, "charge", window)
			if slow > 0 {
				require.ErrorIs(t, err, core.ErrLeaseLost)
				require.ErrorIs(t, context.Cause(ctx), core.ErrLeaseLost)
			}
			return http.StatusCreated, err
		})
		require.Equal(t, http.StatusInternalServerError, a.post("k-1", `{}`).Code)
		require.Len(t, a.of(core.EventLeaseLost), 1)
		require.Equal(t, []string{"start"}, st.log.all(), "the call has not left")
		slow = 0
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
	})
	t.Run("also in front of a call that is repeated, what was not durable becomes durable first", func(t *testing.T) {
		store := newSealLog()
		fail := errProvider
		a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
			var errs []error
			for _, name := range []string{"charge", "ship"} {
				errs = append(errs, core.CallDo(ctx, name, func(context.Context, core.DerivedKey) error {
					store.log.add(name)
					return fail
				}, window))
			}
			return http.StatusCreated, cmpErr(errs...)
		})
		a.post("k-1", `{}`)
		fail = nil
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		require.Equal(t, []string{"start", "charge", "start", "ship", "charge", "start", "ship", "answer"}, store.log.all())
	})
}

// The deadline undoes rows, and an answer that rests on none may still be recorded behind it.
//
// CONTRACT
func TestAnswerBehindTheDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		handle func(s *sealLog, ctx context.Context) error
		want   int
	}{
		"without rows":         {func(*sealLog, context.Context) error { return nil }, http.StatusCreated},
		"behind durable rows":  {func(_ *sealLog, ctx context.Context) error { return cmpErr(book(ctx, "1", nil), core.Checkpoint(ctx)) }, http.StatusCreated},
		"with rows":            {func(_ *sealLog, ctx context.Context) error { return book(ctx, "1", nil) }, http.StatusInternalServerError},
		"of a call in between": {func(s *sealLog, ctx context.Context) error { return s.call(ctx, "ship", window) }, http.StatusCreated},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := newSealLog()
			a := newFlowApp(t, store, func(ctx context.Context) (int, error) {
				err := cmpErr(store.call(ctx, "charge", window), test.handle(store, ctx))
				<-ctx.Done()
				return http.StatusCreated, err
			})
			w := a.post("k-1", `{}`)
			require.Equal(t, test.want, w.Code, w.Body)
			require.Equal(t, test.want == http.StatusCreated, w.Header().Get("Idempotency-Result") == "created")
		})
	}
}
