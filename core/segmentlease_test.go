package core_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// A seal waits for a renewal that was sent: both write the record.
//
// CONTRACT
func TestSealWaitsForARenewal(t *testing.T) {
	for name, end := range map[string]func(s *sealing, ctx context.Context) error{
		"at a call":     func(s *sealing, ctx context.Context) error { return s.call(ctx, "ship", window) },
		"at the answer": func(*sealing, context.Context) error { return nil },
		"of a result":   func(s *sealing, ctx context.Context) error { return s.call(ctx, "ship") },
	} {
		inBubble(t, name, func(t *testing.T) {
			st := newSealing()
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
}

// CONTRACT
func TestCommitsAtACall(t *testing.T) {
	// A store that takes its time over the commit at a call has used up the lease: the call is not made, and the next
	// attempt makes it.
	inBubble(t, "no call behind a slow commit", func(t *testing.T) {
		st := newSealing()
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
		store := newSealing()
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
		handle func(s *sealing, ctx context.Context) error
		want   int
	}{
		"without rows":         {func(*sealing, context.Context) error { return nil }, http.StatusCreated},
		"behind durable rows":  {func(_ *sealing, ctx context.Context) error { return cmpErr(book(ctx, "1", nil), core.Checkpoint(ctx)) }, http.StatusCreated},
		"with rows":            {func(_ *sealing, ctx context.Context) error { return book(ctx, "1", nil) }, http.StatusInternalServerError},
		"of a call in between": {func(s *sealing, ctx context.Context) error { return s.call(ctx, "ship", window) }, http.StatusCreated},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := newSealing()
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
