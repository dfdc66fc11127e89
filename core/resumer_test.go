package core_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/store"
)

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
			Resume: func(ctx context.Context, operation core.Record) (*core.Answer, error) {
				require.Equal(t, core.Scoping{}.RecordID(alice, "k-1"), operation.ID)
				if err := s.steps(ctx, "reserve", "charge"); err != nil {
					return nil, err
				}
				resumed++
				return ends[resumed-1]()
			},
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

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- module.Run(ctx) }()
		time.Sleep(20 * core.DefaultSweepEvery)
		stop()
		require.NoError(t, <-done)
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

// CONTRACT
func TestRunLeavesAttemptsAlone(t *testing.T) {
	inBubble(t, "Run leaves running attempts alone", func(t *testing.T) {
		st := memstore.New()
		module := newModule(t, core.Config{
			Store: st, Policy: core.Policy{Recovery: core.Resume},
			Resume: func(context.Context, core.Record) (*core.Answer, error) {
				return nil, errors.New("it is running elsewhere")
			},
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
			Resume: func(context.Context, core.Record) (*core.Answer, error) {
				resumed++
				return nil, errProvider
			},
		})
		a := newApp(t, core.Config{Store: store.Store, Policy: core.Policy{Recovery: core.Resume}},
			sealed(func(http.ResponseWriter, *http.Request) { panic("the process dies here") }))
		a.postRecovered("k-1", `{}`)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- module.Run(ctx) }()
		time.Sleep(20 * core.DefaultSweepEvery)
		stop()
		require.NoError(t, <-done)
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
		require.NoError(s.t, s.Release(ctx, rec.Ticket))
		s.freed++
	}
	return records, err
}
