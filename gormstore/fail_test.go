package gormstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/txn"
	"github.com/auth19/idem/internal/pgtest"
)

// soon returns a context that ends soon, for calls that cannot succeed.
func soon(t *testing.T) context.Context { return within(t, 300*time.Millisecond) }

// patient returns a context for calls that wait for nothing: it ends long after they have, even on a busy machine.
func patient(t *testing.T) context.Context { return within(t, 20*time.Second) }

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// requireUnavailable checks that no command gets through, and that the caller is told in time.
func requireUnavailable(t *testing.T, st *gormstore.Store) {
	t.Helper()
	begun := time.Now()
	claimed, err := st.Claim(soon(t), command(store.Park))
	require.Error(t, err)
	require.Zero(t, claimed)
	tx, claimed, err := st.Begin(soon(t), command(store.Rollback))
	require.Error(t, err)
	require.Nil(t, tx)
	require.Zero(t, claimed)
	_, err = st.Find(soon(t), command(store.Park).ID, store.Viewer{All: true})
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
	require.Error(t, st.Validate(soon(t)))
	require.Less(t, time.Since(begun), 10*time.Second)
}

// CONTRACT F-1
func TestServerIsAway(t *testing.T) {
	t.Run("stopped", func(t *testing.T) {
		cluster := pgtest.Own(t)
		db := openPostgres(t, cluster.URL(), 4)
		migrate(t, db)
		st := newStore(t, db)
		c := command(store.Park)
		won(t, st, c)

		cluster.Stop(pgtest.Immediate)
		requireUnavailable(t, st)
		cluster.Start()
		eventually(t, "the store is back", func() bool {
			claimed, err := st.Claim(t.Context(), again(c))
			return err == nil && claimed.Record.Owner == c.Owner
		})
	})

	bothWays(t, func(t *testing.T, way way) {
		cut := newCuttable(t, way)
		answers := make(chan struct{})
		answer := sync.OnceFunc(func() { close(answers) })
		t.Cleanup(answer)
		cut.set(func(toServer bool, chunk []byte) (int, bool) {
			if !toServer {
				<-answers
			}
			return len(chunk), false
		})
		requireUnavailable(t, cut.store)
		answer()
		cut.set(nil)
		eventually(t, "the store is back", func() bool {
			claimed, err := cut.store.Claim(t.Context(), command(store.Park))
			return err == nil && claimed.Won
		})
	})
}

// cutClaim claims with a context that ends when the claim has come as far as it is to come.
func cutClaim(t *testing.T, st *gormstore.Store, c store.Claim, arrived func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := later(func() error {
		_, err := st.Claim(ctx, c)
		return err
	})
	arrived()
	cancel()
	require.Error(t, <-ended)
}

// sessions waits until so many sessions of the database are in a condition.
func sessions(t *testing.T, db *gorm.DB, n int64, condition string) {
	t.Helper()
	eventually(t, condition, func() bool {
		found := query[int64](t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "+condition)
		return found == n
	})
}

// A claim is cut off while the server holds it back, and its client cannot tell the server so.
//
// CONTRACT F-1
func TestClaimLandsWhileItIsReleased(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	p := newProxy(t, url)
	p.set(dropCancels)
	victim, other := newStore(t, openPostgres(t, p.url+"&application_name=victim", 2)), newStore(t, openPostgres(t, url, 4))
	c := command(store.Park)
	owner := store.Ticket{ID: c.ID, Owner: c.Owner}

	lock := db.Begin()
	require.NoError(t, lock.Exec("LOCK TABLE idempotency_record IN ACCESS EXCLUSIVE MODE").Error)
	cutClaim(t, victim, c, func() { sessions(t, db, 1, "wait_event_type = 'Lock'") })
	require.Error(t, other.Release(soon(t), []store.Ticket{owner}), "it can only be waited for")
	released := later(func() error { return other.Release(t.Context(), []store.Ticket{owner}) })
	sessions(t, db, 2, "wait_event_type = 'Lock'")
	require.NoError(t, lock.Commit().Error)
	require.NoError(t, <-released)
	sessions(t, db, 0, "application_name = 'victim'")
	requireFree(t, other, c)
}

// The network keeps a claim back until its owner has given up and released it.
//
// CONTRACT F-1
func TestClaimLandsAfterItsRelease(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	other := newStore(t, openPostgres(t, url, 4))
	for name, statement := range map[string]string{
		"of a new key":              insertRecord,
		"of a key that was dropped": insertRecord,
		"of a free key":             `UPDATE "public".idempotency_record`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, url)
			victim := newStore(t, openPostgres(t, p.url+"&application_name=victim&default_query_exec_mode=exec", 2))
			c := command(store.Park)
			switch name {
			case "of a free key":
				ticket := won(t, other, again(c))
				require.NoError(t, other.End(t.Context(), ticket, store.Ending{State: store.Free}))
			case "of a key that was dropped": // and that the victim has seen
				won(t, victim, again(c))
				require.NoError(t, db.Exec("DELETE FROM idempotency_record WHERE id = ?", c.ID[:]).Error)
			}
			late, held := make(chan struct{}), make(chan struct{})
			deliver := sync.OnceFunc(func() { close(late) })
			t.Cleanup(deliver)
			p.set(func(toServer bool, chunk []byte) (int, bool) {
				if toServer && bytes.Contains(chunk, []byte(statement)) {
					close(held)
					<-late
				}
				return dropCancels(toServer, chunk)
			})
			cutClaim(t, victim, c, func() { <-held })
			require.NoError(t, other.Release(t.Context(), []store.Ticket{{ID: c.ID, Owner: c.Owner}}))
			deliver()
			sessions(t, db, 0, "application_name = 'victim'")
			requireFree(t, other, c)
		})
	}
}

// A claim whose client is gone waits for its standby: there is a record by then, which nobody can see.
//
// CONTRACT F-1
func TestClaimIsReleasedWhileItCommits(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	p := newProxy(t, r.URL())
	p.set(dropCancels)
	c := command(store.Park)
	cutClaim(t, r.storeAt(p.url), c, func() { sessions(t, r.admin, 1, "wait_event = 'SyncRep'") })
	other := newStore(t, r.admin)
	owner := store.Ticket{ID: c.ID, Owner: c.Owner}
	require.Error(t, other.Release(soon(t), []store.Ticket{owner}), "it can only be waited for")
	released := later(func() error { return other.Release(t.Context(), []store.Ticket{owner}) })
	sessions(t, r.admin, 1, "wait_event = 'advisory'")
	r.abandon()
	require.NoError(t, <-released)
	requireFree(t, other, c)
}

// returned is what fn returns. A test fails where it does not, instead of waiting for a standby that is not there.
func returned(t *testing.T, fn func() error) error {
	t.Helper()
	outcome := later(func() error { return fn() })
	select {
	case err := <-outcome:
		return err
	case <-time.After(20 * time.Second):
		require.FailNow(t, "it does not return")
		return nil
	}
}

// A lapsed lease is renewed between the look of a claim and its takeover: the owner has woken up, and goes on.
//
// CONTRACT X-2, M-6
func TestTakeoverAsksForTheLeaseAgain(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	st := newStore(t, openPostgres(t, url, 4))
	c := command(store.Resume)
	ticket := won(t, st, c)
	advance(t, db, 2*c.Lease)

	renewal := db.Begin()
	require.NoError(t, renewal.Exec("UPDATE idempotency_record SET lease_until = lease_until + 7200000000").Error)
	claimed := make(chan outcome, 1)
	go func() {
		got, err := st.Claim(t.Context(), again(c))
		claimed <- outcome{got, err}
	}()
	sessions(t, db, 1, "wait_event_type = 'Lock'") // it has seen the lapsed lease, and waits for the row
	require.NoError(t, renewal.Commit().Error)
	got := <-claimed
	require.NoError(t, got.err)
	require.False(t, got.Won, "the attempt has two owners")
	require.False(t, got.Busy, "the record is told, and with it whose it is")
	require.Equal(t, ticket, got.Record.Ticket)
	require.NoError(t, st.End(t.Context(), ticket, store.Ending{State: store.Completed, Answer: paid()}))
}

// A repeat holds the key's lock while it only looks, in the moment in which another one takes the operation over. That one tries
// again: nobody is at work.
//
// CONTRACT X-15
func TestTakeoverBesideALook(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	st := newStore(t, openPostgres(t, url, 4))
	c := command(store.Resume)
	won(t, st, c)
	advance(t, db, 2*c.Lease)

	stops := &stopper{Connector: stdlib.GetConnector(*try(pgx.ParseConfig(url)).ok(t)), begins: lockGuarded}
	pool := sql.OpenDB(stops)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	other := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 4))
	require.NoError(t, other.Validate(t.Context()))
	var look *gorm.DB
	stops.first = func() {
		look = db.Begin()
		require.NoError(t, look.Exec("SELECT pg_advisory_xact_lock(?)", txn.LockKey(c.ID)).Error)
		stops.begins, stops.first = lockFirst, func() { require.NoError(t, look.Rollback().Error) }
	}
	_, claimed, err := other.Begin(t.Context(), again(c))
	require.NoError(t, err)
	require.NotNil(t, look)
	require.True(t, claimed.Won, "%+v", claimed)
}

// A free key is taken, and becomes free again, between the look of a claim and its takeover: the next operation must not
// begin with the steps of the one in between.
//
// CONTRACT X-15, M-6
func TestTakeoverAsksForTheFenceAgain(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	st := newStore(t, openPostgres(t, url, 4))
	c := command(store.Resume)
	require.NoError(t, st.End(t.Context(), won(t, st, c), store.Ending{State: store.Free}))

	between := db.Begin()
	require.NoError(t, between.Exec("UPDATE idempotency_record SET fence = fence + 1").Error)
	require.NoError(t, between.Exec("INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at) "+
		"SELECT id, 'book', 1, 2, fence, 1, 1 FROM idempotency_record").Error)
	claimed := make(chan outcome, 1)
	go func() {
		got, err := st.Claim(t.Context(), again(c))
		claimed <- outcome{got, err}
	}()
	sessions(t, db, 1, "wait_event_type = 'Lock'") // it has seen the free record, and waits for the row
	require.NoError(t, between.Commit().Error)
	got := <-claimed
	require.NoError(t, got.err)
	require.True(t, got.Won)
	require.EqualValues(t, 3, got.Record.Fence)
	steps, err := st.Steps(t.Context(), c.ID)
	require.NoError(t, err)
	require.Empty(t, steps, "they are those of the operation in between")
}

// Another record than the free one that was seen stands in the way of the first seal: a free one of a higher fence, or one that
// has an answer.
//
// CONTRACT X-15, M-6
func TestFirstSealLosesToAnotherRecord(t *testing.T) {
	t.Parallel()
	db := openPostgres(t, migratedURL(t), 4)
	st := newStore(t, db)
	answer, call := paid(), store.StepRecord{Name: "charge", Kind: store.ProviderStep}
	for seen, before := range map[string]string{"none": "DELETE FROM idempotency_record", "a free one": "SELECT 1"} {
		for other, change := range map[string]string{
			"free": "fence = fence + 1", "answered": "state = 2, status = 201, purge_at = purge_at + 3600000000",
		} {
			for _, seal := range []store.Seal{{Answer: &answer}, {Start: &call}, {Answer: new(refused()), Alone: true}} {
				c := command(store.Resume)
				require.NoError(t, st.End(t.Context(), won(t, st, c), store.Ending{State: store.Free}))
				execute(t, db, "DROP TABLE IF EXISTS kept", "CREATE TABLE kept AS SELECT * FROM idempotency_record", before)
				segments, _ := resume(t, st, again(c))
				execute(t, db, "UPDATE kept SET "+change, "DELETE FROM idempotency_record",
					"INSERT INTO idempotency_record SELECT * FROM kept")
				stands := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
				require.ErrorIs(t, err2(segments.Seal(t.Context(), seal)), store.ErrStale, "%s, %s, %+v", seen, other, seal)
				now := try(st.Find(t.Context(), c.ID, store.Viewer{All: true})).ok(t)
				stands.Now = now.Now
				require.Equal(t, stands, now)
				execute(t, db, "DELETE FROM idempotency_record")
			}
		}
	}
}
