package txn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

// All who come at once share one try. What the server refuses is asked for again a minute later, everything else at once.
//
// CONTRACT F-8
func TestSharedSelfTest(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return fmt.Errorf("recordAnswer: %w", &pgconn.PgError{Code: code}) }
	for name, c := range map[string]struct {
		err  error
		rest time.Duration
	}{
		"a missing right":          {state("42501"), time.Minute},
		"a function not supported": {state("0A000"), time.Minute},
		"a constraint":             {state("23503"), time.Minute},
		"a trigger that raises":    {state("P0001"), time.Minute},
		"an error of its own":      {state("XX000"), time.Minute},
		"a row that is altered":    {Altered("recordAnswer", "the record"), time.Minute},
		"no writes":                {ErrNoWrites, 0},
		"a conflict":               {state("40001"), 0},
		"a lock":                   {state("55P03"), 0},
		"a time that is over":      {state("57014"), 0},
		"a server that stops":      {state("57P01"), 0},
		"too many connections":     {state("53300"), 0},
		"a lost connection":        {state("08006"), 0},
		"a full disk":              {state("58030"), 0},
		"no answer":                {context.DeadlineExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var v Validated
				var tries atomic.Int32
				fails := c.err
				use := func(ctx context.Context) error {
					return v.share(ctx, func(context.Context) error {
						tries.Add(1)
						time.Sleep(time.Second)
						return fails
					})
				}
				errs := make(chan error)
				for range 100 {
					go func() { errs <- use(t.Context()) }()
				}
				gone, cancel := context.WithCancelCause(t.Context())
				cancel(errors.New("the client is gone"))
				require.ErrorIs(t, use(gone), store.ErrUnfit)
				for range 100 {
					err := <-errs
					require.ErrorIs(t, err, store.ErrUnfit)
					require.ErrorIs(t, err, c.err)
				}
				require.EqualValues(t, 1, tries.Load())
				fails = nil
				if c.rest > 0 {
					time.Sleep(c.rest - time.Nanosecond)
					require.ErrorIs(t, use(t.Context()), c.err)
					require.EqualValues(t, 1, tries.Load())
					time.Sleep(time.Nanosecond)
				}
				for range 2 {
					require.NoError(t, use(t.Context()))
				}
				require.EqualValues(t, 2, tries.Load(), "it is tried once")
			})
		})
	}
}
