package gormstore_test

import (
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// One new command after the other, each wanted by 64 goroutines on two stores. The command takes no time: many claims
// lose to a row that was committed after their snapshot, which is where a store that reads and then writes goes wrong.
//
// CONTRACT M-6
func TestClaimRace(t *testing.T) {
	t.Parallel()
	const goroutines, connections = 64, 10
	for _, isolation := range []struct {
		name, parameters string
		rounds           int
	}{
		{"read committed", "", 100},
		{"serializable", "&default_transaction_isolation=serializable", 50},
	} {
		t.Run(isolation.name, func(t *testing.T) {
			url, rounds := pgtest.URL(t)+isolation.parameters, isolation.rounds
			setUp := openPostgres(t, url, 2)
			migrate(t, setUp)
			stores := [2]*gormstore.Store{
				newStore(t, openPostgres(t, url, connections)), newStore(t, openPostgres(t, url, connections)),
			}
			ctx := t.Context()
			var ran atomic.Int64 // executions on Rollback

			for kind, run := range map[string]func(*gormstore.Store, store.Claim) (store.Claimed, error){
				"Park": func(s *gormstore.Store, c store.Claim) (store.Claimed, error) {
					claimed, err := s.Claim(ctx, c)
					if err == nil && claimed.Won {
						err = s.End(ctx, claimed.Record.Ticket, store.Ending{State: store.Completed, Answer: paid()})
					}
					return claimed, err
				},
				"Rollback": func(s *gormstore.Store, c store.Claim) (store.Claimed, error) {
					tx, claimed, err := s.Begin(ctx, c)
					if err == nil && claimed.Won {
						ran.Add(1)
						err = errors.Join(addEffect(tx.Bind(ctx, nil)), seal(ctx, tx, paid(), false))
						if shared := isolation.name == "serializable"; shared && errors.Is(err, store.ErrStale) {
							ran.Add(-1) // begun beside the moment in which another one committed: nothing is applied
							return store.Claimed{Busy: true}, nil
						}
					}
					return claimed, err
				},
			} {
				t.Run(kind, func(t *testing.T) {
					for range rounds {
						c := command(store.Park)
						if kind == "Rollback" {
							c = command(store.Rollback)
						}
						outcomes := atOnce(goroutines, func(i int) outcome {
							claimed, err := run(stores[i%2], again(c))
							return outcome{claimed, err}
						})
						requireOneWon(t, outcomes)
					}
				})
			}
			require.EqualValues(t, rounds, ran.Load())
			require.Equal(t, rounds, countEffects(t, setUp))
		})
	}
}

type outcome struct {
	store.Claimed
	err error
}

// requireOneWon checks that one attempt was let through, and that every other caller was told of it.
func requireOneWon(t *testing.T, outcomes []outcome) {
	t.Helper()
	won := slices.IndexFunc(outcomes, func(o outcome) bool { return o.Won })
	require.NotEqual(t, -1, won, "nobody won")
	for i, o := range outcomes {
		require.NoError(t, o.err)
		switch {
		case i == won:
		case o.Won:
			require.Fail(t, "two have won")
		case !o.Busy:
			require.Equal(t, outcomes[won].Record.Ticket, o.Record.Ticket)
		}
	}
}

// atOnce runs f in n goroutines that start together.
func atOnce[T any](n int, f func(i int) T) []T {
	results := make([]T, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			results[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return results
}

// A claim whose statement is sent twice meets its own row the second time, and has won all the same.
//
// CONTRACT M-6, F-1
func TestClaimRecognisesItsOwnRow(t *testing.T) {
	onEvery(t, func(t *testing.T, d database, db *gorm.DB) {
		if !d.shared {
			return // SQLite sends nothing twice, and looks at what is there before it claims
		}
		st := newStore(t, db)
		c := command(store.Park)
		ticket := won(t, st, c)
		second := try(st.Claim(t.Context(), c)).ok(t)
		require.True(t, second.Won)
		require.Equal(t, ticket, second.Record.Ticket)

		require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))
		third := try(st.Claim(t.Context(), c)).ok(t)
		require.False(t, third.Won, "what is over is not won")
	})
}

// So does a takeover: the operation is continued at once, and not after another lease.
//
// CONTRACT X-15, F-1
func TestTakeoverRecognisesItself(t *testing.T) {
	onEvery(t, func(t *testing.T, d database, db *gorm.DB) {
		if !d.shared {
			return
		}
		st := newStore(t, db)
		c := command(store.Resume)
		won(t, st, c) // an attempt that has committed, and is lost
		advance(t, db, 2*lease)
		repeat := again(c)
		for range 2 {
			segments, claimed, err := st.Begin(t.Context(), repeat)
			require.NoError(t, err)
			require.True(t, claimed.Won)
			require.NotNil(t, segments)
			require.Equal(t, 2, claimed.Record.Attempts)
		}
		segments, claimed, err := st.Begin(t.Context(), again(c))
		require.NoError(t, err)
		require.False(t, claimed.Won, "its lease runs")
		require.Nil(t, segments)
	})
}

// What a claim has met is not read from a server that takes no writes (F-8): a pooler
// may have sent the look to a standby.
//
// CONTRACT F-8
func TestTakeOnAServerWithoutWrites(t *testing.T) {
	db := newPostgres(t, 3)
	st := newStore(t, db)
	c := command(store.Park)
	answered(t, st, c)
	advance(t, db, 2000*time.Hour)
	own := try(db.Statement.ConnPool.(*sql.DB).Conn(t.Context())).ok(t)
	defer func() { require.NoError(t, own.Close()) }()
	_, err := own.ExecContext(t.Context(), "SET default_transaction_read_only = on")
	require.NoError(t, err)
	claimed, err := st.TakeOn(t.Context(), own, again(c))
	require.ErrorContains(t, err, "it takes no writes")
	require.Zero(t, claimed.Record.Stored)
}
