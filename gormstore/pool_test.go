package gormstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
)

// A repeat is soon told that the attempt is running, even if no slot is free: else it would wait for the very attempt that
// it repeats.
//
// CONTRACT M-2, M-6
func TestRepeatDoesNotWaitInACrowd(t *testing.T) {
	t.Parallel()
	for _, d := range everyWay {
		t.Run(d.name, func(t *testing.T) {
			db := d.fresh(t)(t)
			try(db.DB()).ok(t).SetMaxOpenConns(3) // two slots on PostgreSQL; SQLite has one writer anyway
			st := newStore(t, db)
			first, other := command(core.Rollback), command(core.Rollback)
			tx, _ := begin(t, st, first)
			running := []store.Tx{tx}
			if d.shared {
				tx, _ := begin(t, st, command(core.Rollback))
				running = append(running, tx)
			}
			waiting, giveUp := context.WithCancel(t.Context())
			another := later(func() error {
				_, _, err := st.Begin(waiting, other)
				return err
			})
			_, claimed, err := st.Begin(within(t, 30*time.Second), again(first)) // no slot gets free
			require.NoError(t, err)
			require.True(t, claimed.Busy)

			giveUp()
			require.Error(t, <-another, "another command waits for as long as it may") // SQLite may say that it was interrupted
			for _, tx := range running {
				require.NoError(t, tx.Rollback())
			}
			begin(t, st, other)
		})
	}
}

// A claim that waits for a slot has sent nothing, and its error says so: there is nothing to release.
//
// CONTRACT F-1
func TestClaimInLineIsNotSent(t *testing.T) {
	t.Parallel()
	db := newPostgres(t, 4) // three slots for claims
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	pool := try(db.DB()).ok(t)
	for range 4 {
		taken := try(pool.Conn(t.Context())).ok(t)
		t.Cleanup(func() { _ = taken.Close() })
	}
	errs := atOnce(20, func(int) error {
		bounded, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := st.Claim(bounded, command(core.Park))
		return err
	})
	sent := 0
	for _, err := range errs {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if !errors.Is(err, store.ErrCrowded) {
			sent++
		}
	}
	require.Equal(t, 3, sent)
}
