package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

// CONTRACT M-6
func TestOneExecutionUnderManySimultaneousRepeats(t *testing.T) {
	for _, policy := range []core.Policy{
		{Recovery: core.Park},
		{Recovery: core.Park, Wait: 10 * time.Second},
	} {
		a := newApp(t, core.Config{Policy: policy}, created)
		for round := range 20 {
			key := "k-" + strconv.Itoa(round)
			var wg sync.WaitGroup
			start := make(chan struct{})
			for range 32 {
				wg.Go(func() {
					<-start
					w := a.post(key, `{}`)
					switch result := w.Header().Get("Idempotency-Result"); {
					case w.Code == http.StatusCreated && (result == "created" || result == "reused"):
					case w.Code == http.StatusConflict: // it does not wait, or others of the command do
					default:
						t.Error(w.Code, result, w.Body)
					}
				})
			}
			close(start)
			wg.Wait()
			require.Equal(t, round+1, a.ran())
		}
	}
}

// CONTRACT H-4
func TestRecordOfANewerRelease(t *testing.T) {
	each(t, map[string]bool{"running": false, "completed": true}, func(t *testing.T, done bool) {
		st := memstore.New()
		claimed, err := st.Claim(t.Context(), store.Claim{ID: core.Scoping{}.RecordID(alice, "k-1"), Owner: store.Owner{1},
			Recovery: core.Park, Hash: store.CommandHash{Version: 2}, Lease: time.Minute, Deadline: time.Minute})
		require.NoError(t, err)
		if done {
			require.NoError(t, st.End(t.Context(), claimed.Record.Ticket, store.Ending{State: store.Completed, Answer: store.Completion{
				Answer: core.Answer{Status: 200, Body: []byte("theirs")}, Retention: store.DefaultRetention}}))
		}
		before, err := st.Find(t.Context(), claimed.Record.ID, store.Viewer{All: true})
		require.NoError(t, err)

		a := newApp(t, core.Config{Store: st}, created)
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Zero(t, a.ran(), "neither run, nor replayed, nor a mismatch")
		require.Equal(t, []core.EventKind{core.EventRefused}, a.kinds())
		after, err := st.Find(t.Context(), claimed.Record.ID, store.Viewer{All: true})
		require.NoError(t, err)
		after.Now = before.Now
		require.Equal(t, before, after)
	})
}

// Run leaves a half-done operation of a newer release alone, whether its attempts are used up or not, and says so. The repeat
// of its client runs nothing either.
//
// CONTRACT H-4
func TestHalfDoneOperationOfANewerRelease(t *testing.T) {
	eachInBubble(t, map[string]int16{"of this release": 1, "of a newer one": 2}, func(t *testing.T, version int16) {
		st, resumed := memstore.New(), 0
		id := core.Scoping{}.RecordID(alice, "k-1")
		attempt, _, err := st.Begin(t.Context(), store.Claim{ID: id, Owner: store.Owner{1}, Realm: core.Scoping{}.PrincipalRealm(alice),
			Method: http.MethodPost, Route: pattern, Recovery: core.Resume, Hash: store.CommandHash{Version: version},
			Lease: time.Minute, Deadline: time.Minute})
		require.NoError(t, err)
		attempt.Bind(t.Context(), nil)
		_, err = attempt.Seal(t.Context(), store.Seal{Steps: []store.StepRecord{
			{Name: "reserve", Kind: store.DatabaseStep, Finished: true, Result: []byte("1")}}})
		require.NoError(t, err)

		a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Resume, MaxAttempts: 3},
			Resume: resumes(func(context.Context, core.Record) (*core.Answer, error) {
				resumed++
				return nil, errProvider
			})}, created)
		a.runFor(core.DefaultResumeFor + time.Hour)
		rec, err := st.Find(t.Context(), id, store.Viewer{All: true})
		require.NoError(t, err)
		if version == 1 {
			require.Equal(t, 2, resumed)
			require.Equal(t, store.Unknown, rec.Stored)
			return
		}
		require.Zero(t, resumed)
		require.Equal(t, 1, rec.Attempts)
		require.Equal(t, store.Running, rec.Stored)
		require.ErrorContains(t, a.of(core.EventFailed)[0].Err, "newer release")
		requireProblem(t, a.post("k-1", `{}`), http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Zero(t, a.ran())
	})
}

// CONTRACT O-3, M-2, T-4, F-1
func TestWhatRepeatsFind(t *testing.T) {
	t.Run("review before a replay", func(t *testing.T) {
		var reviews []core.Record
		var refuse error
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 100,
			Review: func(ctx context.Context, p core.Principal, r core.Record) error {
				require.Equal(t, "of the request", ctx.Value(reviewKey{}))
				require.Equal(t, alice, p)
				reviews = append(reviews, r)
				return refuse
			}}}, created)
		post := func(key, body string) (code int) {
			return a.post(key, body, withContext(context.WithValue(t.Context(), reviewKey{}, "of the request"))).Code
		}
		require.Equal(t, http.StatusCreated, post("k-1", `{}`))
		require.Empty(t, reviews, "there is nothing to review yet")
		require.Equal(t, http.StatusConflict, post("k-1", `{"another":1}`))
		require.Empty(t, reviews, "nothing is replayed to another command")
		require.Equal(t, http.StatusCreated, post("k-1", `{}`))
		require.Len(t, reviews, 1)
		require.Equal(t, "/v1/payments/1", reviews[0].Answer.Header.Get("Location"), "it sees the recorded answer")
		require.Equal(t, core.Scoping{}.RecordID(alice, "k-1"), reviews[0].ID)

		refuse = errors.New("secret of the app")
		w := a.post("k-1", `{}`, withContext(context.WithValue(t.Context(), reviewKey{}, "of the request")))
		requireProblem(t, w, http.StatusForbidden, core.CodeForbidden)
		require.NotContains(t, w.Body.String(), "secret")
		require.Empty(t, w.Header().Get("Location"))
		require.Equal(t, 1, a.ran())

		a.handler = large(http.StatusCreated)
		require.Equal(t, http.StatusCreated, post("k-2", `{}`))
		require.Equal(t, http.StatusForbidden, post("k-2", `{}`), "the Location of an answer that was not kept is one, too")
	})
	inBubble(t, "a first request never waits, and neither does a replay", func(t *testing.T) {
		begun := time.Now()
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, Wait: 10 * time.Second}}, created)
		a.post("k-1", `{}`)
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		requireProblem(t, a.post("k-1", `{"another":1}`), http.StatusConflict, core.CodeKeyReused)
		require.Equal(t, begun, time.Now())
	})
	t.Run("full store refuses new keys", func(t *testing.T) {
		store := newFaultStore(memstore.New(memstore.WithMaxRecords(1)))
		released := store.count("release")
		a := newApp(t, core.Config{Store: store}, created)
		require.Equal(t, http.StatusCreated, a.post("k-1", `{}`).Code)
		w := a.post("k-2", `{}`)
		requireProblem(t, w, http.StatusServiceUnavailable, core.CodeStoreUnavailable)
		require.Contains(t, w.Body.String(), "is full")
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, 1, a.ran())
		require.Zero(t, *released, "nothing has landed")
	})
}

type reviewKey struct{}

// CONTRACT M-5, T-4, M-1
func TestPastRetention(t *testing.T) {
	each(t, map[string]bool{"swept": true, "not swept": false}, func(t *testing.T, swept bool) {
		for status, outcome := range map[int]string{201: "succeeded", 303: "succeeded", 400: "refused", 402: "refused"} {
			synctest.Test(t, func(t *testing.T) { pastRetention(t, status, outcome, swept) })
		}
	})
}

func pastRetention(t *testing.T, code int, outcome string, swept bool) {
	st := memstore.New()
	a := newApp(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Park, Retention: 24 * time.Hour,
		Tombstone: 48 * time.Hour}}, status(code))
	sweep := func() {
		if swept {
			_, err := st.Sweep(t.Context(), 10, store.Window{})
			require.NoError(t, err)
		}
	}
	a.post("k-1", `{}`)
	time.Sleep(24*time.Hour - 1)
	sweep()
	require.Equal(t, "reused", a.post("k-1", `{}`).Header().Get("Idempotency-Result"), "until the very end")

	time.Sleep(time.Nanosecond)
	sweep()
	for range 2 {
		w := a.post("k-1", `{}`)
		requireProblem(t, w, http.StatusConflict, core.CodeKeyExpired)
		require.Empty(t, w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"outcome":"`+outcome+`"`)
		require.Contains(t, w.Body.String(), `"operation":"`+core.Scoping{}.RecordID(alice, "k-1").String()+`"`)
		requireProblem(t, a.post("k-1", `{"another":1}`), http.StatusConflict, core.CodeKeyReused)
		time.Sleep(48*time.Hour - 1)
	}
	require.Equal(t, 1, a.ran())

	time.Sleep(time.Nanosecond)
	sweep()
	require.Equal(t, code, a.post("k-1", `{"another":1}`).Code)
	require.Equal(t, 2, a.ran(), "free behind the tombstone")
}

// Without a transaction there is no proof that a 400 has left nothing behind.
//
// CONTRACT
func TestParkKeepsRefusalsAsLongAsAnything(t *testing.T) {
	for _, code := range []int{200, 400, 401, 403, 422, 429} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			a := newApp(t, core.Config{Store: st}, status(code))
			a.post("k-1", `{}`)
			rec := find(t, st, "k-1")
			require.Equal(t, store.DefaultRetention, rec.ExpiresAt.Sub(rec.Now))
			require.Equal(t, store.DefaultTombstone, rec.PurgeAt.Sub(rec.ExpiresAt))
		})
	}
}

// CONTRACT M-1, M-4, S-3
func TestAnotherCommandIsAMismatchInEveryState(t *testing.T) {
	each(t, map[string]http.HandlerFunc{
		"unknown": status(http.StatusBadGateway), "completed": created, "not kept": large(201),
	}, func(t *testing.T, handler http.HandlerFunc) {
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, MaxAnswer: 100}}, handler)
		a.post("k-1", `{}`)
		w := a.post("k-1", `{"another":1}`)
		requireProblem(t, w, http.StatusConflict, core.CodeKeyReused)
		require.NotContains(t, w.Body.String(), "safe_new_key")
		require.NotContains(t, w.Body.String(), "answer_")
		require.Empty(t, w.Header().Get("Idempotency-Result"))
		require.Empty(t, w.Header().Get("Retry-After"))
		require.Equal(t, 1, a.ran())
	})
}

// looking answers a claim with the record that is there, as one that has just become free may be.
type looking struct{ *memstore.Store }

func (s looking) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	rec, err := s.Find(ctx, c.ID, store.Viewer{All: true})
	return store.Claimed{Record: rec}, err
}

// The command of a record that is free is over, and no repeat of a new one is told that it is a mismatch.
//
// CONTRACT M-1, M-2
func TestFreeRecordIsNoMismatch(t *testing.T) {
	st := memstore.New()
	newApp(t, core.Config{Store: st}, notApplied(status(http.StatusForbidden))).post("k-1", `{}`)
	w := newApp(t, core.Config{Store: looking{st}}, created).post("k-1", `{"another":1}`)
	requireProblem(t, w, http.StatusConflict, core.CodeInFlight)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

// CONTRACT M-2
func TestWhatWaitingComesTo(t *testing.T) {
	wait := core.Policy{Recovery: core.Park, Wait: 10 * time.Second}
	for name, test := range map[string]struct {
		first http.HandlerFunc
		want  int
		code  core.Code
		runs  int
	}{
		"completed": {created, 201, "", 1},
		"unknown":   {status(502), 409, core.CodeOutcomeUnknown, 1},
		"freed":     {notApplied(status(http.StatusConflict)), 418, "", 2},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newApp(t, core.Config{Policy: wait, MaxWaiters: 1}, nil)
			for _, key := range []string{"k-1", "k-2"} { // the place among the waiters is given back
				a.handler = a.onceSlowly(test.first)
				var wg sync.WaitGroup
				wg.Go(func() { a.post(key, `{}`) })
				synctest.Wait()
				w := a.post(key, `{}`)
				wg.Wait()
				require.Equal(t, test.want, w.Code)
				if test.code != "" {
					requireProblem(t, w, test.want, test.code)
				}
			}
			require.Equal(t, 2*test.runs, a.ran())
		})
	}
}

// The places of repeats that wait are nobody's alone: one running command has few of them, and one caller a share.
//
// CONTRACT M-2
func TestPlacesToWaitAreShared(t *testing.T) {
	greedy, other := core.Principal{Issuer: "i", Subject: "greedy"}, core.Principal{Issuer: "i", Subject: "other"}
	for name, test := range map[string]struct{ commands, repeats, wait int }{
		"repeats of one command":     {1, core.DefaultMaxWaiters, 4},
		"repeats of many commands":   {core.DefaultMaxWaiters / 4, 4, core.DefaultMaxWaiters / 8},
		"one repeat of each command": {core.DefaultMaxWaiters, 1, core.DefaultMaxWaiters / 8},
	} {
		inBubble(t, name, func(t *testing.T) {
			a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, Wait: 10 * time.Second}},
				func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(4 * time.Second)
					created(w, r)
				})
			for range 2 { // the places are given back
				begun := time.Now()
				var all sync.WaitGroup
				var waited atomic.Int64
				send := func(p core.Principal, key string) {
					all.Go(func() {
						if a.postAs(p, key, `{}`).Header().Get("Idempotency-Result") == "reused" {
							waited.Add(1)
						}
					})
				}
				for n := range test.commands {
					send(greedy, fmt.Sprint(begun.UnixNano(), "-", n))
				}
				send(other, fmt.Sprint(begun.UnixNano()))
				synctest.Wait()
				for n := range test.commands * test.repeats {
					send(greedy, fmt.Sprint(begun.UnixNano(), "-", n%test.commands))
				}
				synctest.Wait()
				send(other, fmt.Sprint(begun.UnixNano()))
				all.Wait()
				require.EqualValues(t, test.wait+1, waited.Load(), "the greedy caller's, and one of the other")
			}
		})
	}
}

// onceSlowly is a handler that takes two seconds for next, and leaves a teapot behind for who comes after it.
func (a *app) onceSlowly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.handler = status(http.StatusTeapot)
		time.Sleep(2 * time.Second)
		next(w, r)
	}
}
