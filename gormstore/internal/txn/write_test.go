package txn

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// unwatched watches nothing.
func unwatched(func()) (ended func() bool) { return func() bool { return false } }

// CONTRACT X-4
func TestWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var u Repeated
		ticket := store.Ticket{ID: store.ID{1}, Fence: 1}
		answers := make(chan error) // what the store answers, one write after the other
		writes := 0
		write := func(ctx context.Context) error {
			writes++
			require.Nil(t, ctx.Done(), "nobody cancels it")
			return <-answers
		}
		try := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return u.Run(ctx, ticket, unwatched, write)
		}
		for range 3 { // two at a time over connections of their own; a third waits for them
			err := try()
			require.ErrorIs(t, err, store.ErrUnconfirmed)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.Equal(t, maxTries, writes)

		answers <- errors.New("the connection is lost") // says nothing, and makes room for another try
		synctest.Wait()
		require.ErrorIs(t, try(), store.ErrUnconfirmed)
		require.Equal(t, 3, writes)

		go func() { answers <- store.ErrStale }()
		require.ErrorIs(t, try(), store.ErrStale, "the answer to one is the answer to all")
		require.ErrorIs(t, try(), store.ErrStale, "and no other is asked for")
		require.Equal(t, 3, writes)
		answers <- nil
		synctest.Wait()
		require.Empty(t, u.running)

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, u.Run(ended, ticket, unwatched, write), context.Canceled)
		require.Equal(t, 3, writes, "nothing is begun whose context is over")
	})
}
