package gormstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/pgtest"
)

// replicated is a server that waits for a standby which is not there, for the stores of its test: their COMMITs hang.
type replicated struct {
	*pgtest.Cluster
	t     *testing.T
	admin *gorm.DB // waits for no standby
	way   way
}

func newReplicated(t *testing.T) *replicated { return newReplicatedIn(t, overPgx) }

// newReplicatedIn is newReplicated for stores that send their statements in a given way.
func newReplicatedIn(t *testing.T, way way) *replicated {
	t.Helper()
	cluster := pgtest.Own(t, "synchronous_standby_names=missing", "synchronous_commit=local")
	r := &replicated{Cluster: cluster, t: t, admin: openPostgres(t, cluster.URL(), 4), way: way}
	migrate(t, r.admin)
	return r
}

// store opens a store that waits for the standby.
func (r *replicated) store() *gormstore.Store { return r.storeAt(r.URL()) }

// storeAt does so as an app with pgx does.
func (r *replicated) storeAt(url string) *gormstore.Store {
	r.t.Helper()
	_, store := r.openAt(url)
	return store
}

func (r *replicated) openAt(url string) (db *gorm.DB, store *gormstore.Store) {
	r.t.Helper()
	config, err := pgx.ParseConfig(url + "&synchronous_commit=on")
	require.NoError(r.t, err)
	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) { store.Notice(c.PID(), n.Code) }
	db = openDB(r.t, postgres.New(postgres.Config{Conn: r.way.pool(*config)}), 8)
	store = newStore(r.t, db)
	return db, store
}

// abandon makes the server do without its standby: what waits for it ends.
func (r *replicated) abandon() {
	r.t.Helper()
	r.Exec("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
}

// demand makes the server ask for its standby again. The server does so some time after it was told, and a COMMIT in
// between would not wait: so one that nobody needs has to wait first.
func (r *replicated) demand() {
	r.t.Helper()
	r.Exec("ALTER SYSTEM SET synchronous_standby_names = 'missing'", "SELECT pg_reload_conf()")
	probe := openPostgres(r.t, r.URL()+"&synchronous_commit=on&application_name=probe", 1)
	ctx, enough := context.WithCancel(r.t.Context())
	var probing sync.WaitGroup
	probing.Go(func() {
		for ctx.Err() == nil {
			_ = probe.WithContext(ctx).Exec("SELECT pg_logical_emit_message(true, 'probe', '')").Error
		}
	})
	eventually(r.t, "a COMMIT has to wait", func() bool {
		return query[int](r.t, r.admin, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND "+
			"application_name = 'probe'") > 0
	})
	enough()
	probing.Wait()
}

// waiting returns the backend whose COMMIT waits for the standby.
func (r *replicated) waiting() (pid int) {
	r.t.Helper()
	return r.waitingWith("query = 'COMMIT' OR query LIKE 'SELECT CAST(CASE%'")
}

// waitingWith returns the backend that waits for the standby with such a statement.
func (r *replicated) waitingWith(statement string) (pid int) {
	r.t.Helper()
	eventually(r.t, statement+" waits", func() bool {
		pid = query[int](r.t, r.admin, "SELECT COALESCE(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND ("+
			statement+")")
		return pid != 0
	})
	return pid
}

// commit runs an attempt with one row, whose Commit waits for so long.
func commit(t *testing.T, st *gormstore.Store, c store.Claim, wait time.Duration) (outcome chan error) {
	t.Helper()
	outcome, giveUp := commitUntil(t, st, c)
	time.AfterFunc(wait, giveUp)
	return outcome
}

// commitUntil waits until giveUp: a test calls it when COMMIT is under way, however long the statements before it took. The
// handler sends statements, too.
func commitUntil(
	t *testing.T, st *gormstore.Store, c store.Claim, statements ...string,
) (outcome chan error, giveUp func()) {
	t.Helper()
	tx, ctx := beginRow(t, st, c)
	execute(t, gormstore.Tx(ctx), statements...)
	ctx, giveUp = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	t.Cleanup(giveUp)
	return later(func() error { return seal(ctx, tx, paid(), false) }), giveUp
}

// requireNotWon checks that a repeat gets neither the key nor an error.
func requireNotWon(t *testing.T, st *gormstore.Store, c store.Claim) store.Claimed {
	t.Helper()
	claimed := try(st.Claim(t.Context(), again(c))).ok(t)
	require.False(t, claimed.Won)
	require.False(t, repeated(t, st, c).Won)
	return claimed
}

// repeated is a repeat of a Rollback attempt, which gets no transaction.
func repeated(t *testing.T, st *gormstore.Store, c store.Claim) store.Claimed {
	t.Helper()
	tx, claimed, err := st.Begin(t.Context(), again(c))
	require.NoError(t, err)
	require.Nil(t, tx)
	return claimed
}

// requireUnconfirmed checks that nobody is answered from what only this server has, by whichever way it is read.
func requireUnconfirmed(t *testing.T, st *gormstore.Store, c store.Claim) {
	t.Helper()
	for way, read := range map[string]func(ctx context.Context) error{
		"claim": func(ctx context.Context) error { return err2(st.Claim(ctx, again(c))) },
		"begin": func(ctx context.Context) error { _, _, err := st.Begin(ctx, again(c)); return err },
		"find":  func(ctx context.Context) error { return err2(st.Find(ctx, c.ID, store.Viewer{All: true})) },
	} {
		requireTimeout(t, read, way)
	}
}

// requireTimeout checks that a call waits until the time of its context is over. pgx sets it as the deadline of the
// connection, too, and on a busy machine that one may be noticed first; before anything was sent, database/sql calls that a
// bad connection.
func requireTimeout(t *testing.T, call func(ctx context.Context) error, what string) {
	t.Helper()
	ctx := soon(t)
	err := call(ctx)
	end, _ := ctx.Deadline()
	require.False(t, time.Now().Before(end), "%s did not wait: %v", what, err)
	require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, driver.ErrBadConn), "%s: %v", what, err)
}

// CONTRACT X-4, F-2
func TestCommitWaitsForStandby(t *testing.T) {
	bothWays(t, func(t *testing.T, way way) {
		r := newReplicatedIn(t, way)
		p := newProxy(t, r.URL())
		p.set(dropCancels)
		isBusy := func(t *testing.T, st *gormstore.Store, c store.Claim) {
			r.waiting() // nobody has cancelled it
			require.True(t, requireNotWon(t, st, c).Busy, "its backend waits on: what is not visible is not absent")
			require.True(t, requireNotWon(t, r.store(), c).Busy)
		}
		interrupt := func(function string) { // PostgreSQL commits what is kept from waiting: here, and not on the standby
			require.NoError(t, r.admin.Exec("SELECT "+function+"(?)", r.waiting()).Error)
		}
		for i, c := range []struct {
			name   string
			during func()
			want   error
			after  func(t *testing.T, st *gormstore.Store, c store.Claim)
		}{
			{"nothing happens", func() {}, store.ErrUnconfirmed, isBusy},
			{"the connection breaks", p.cut, store.ErrUnconfirmed, isBusy},
			{"somebody cancels the backend", func() { interrupt("pg_cancel_backend") }, store.ErrUnconfirmed, requireUnconfirmed},
			{"somebody cancels it, and its session is quiet", // the server would send no warning
				func() { interrupt("pg_cancel_backend") }, store.ErrUnconfirmed, requireUnconfirmed},
			{"somebody cancels it, and the handler has made it quiet",
				func() { interrupt("pg_cancel_backend") }, store.ErrUnconfirmed, requireUnconfirmed},
			{"somebody terminates it", func() { interrupt("pg_terminate_backend") }, store.ErrUnconfirmed, requireUnconfirmed},
			{"somebody cancels it, and the standby comes back",
				func() { interrupt("pg_cancel_backend"); r.abandon() }, nil, nil},
			{"somebody terminates it, and the standby comes back",
				func() { interrupt("pg_terminate_backend"); r.abandon() }, nil, nil},
			{"the server is killed", func() { // it had been written, and is read back
				r.Kill()
				r.Start()
				r.abandon()
				r.admin = openPostgres(t, r.URL(), 4) // the old connections are dead, and do not know it
			}, nil, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				if i > 0 {
					r.demand()
				}
				url, statements := r.URL(), []string(nil)
				switch c.name {
				case "the connection breaks":
					url = p.url
				case "somebody cancels it, and its session is quiet":
					url += "&client_min_messages=error"
				case "somebody cancels it, and the handler has made it quiet":
					statements = []string{"SET LOCAL client_min_messages = error"}
				}
				st, claim := r.storeAt(url), command(store.Rollback)
				outcome, giveUp := commitUntil(t, st, claim, statements...)
				r.waiting()
				require.True(t, requireNotWon(t, r.store(), claim).Busy)
				c.during()
				if c.want != nil {
					time.AfterFunc(300*time.Millisecond, giveUp)
				}
				require.ErrorIs(t, <-outcome, c.want)
				if c.after != nil {
					c.after(t, st, claim)
				}
				r.abandon()
				fresh := r.store()
				eventually(t, "the answer is visible, and the key is never won", func() bool {
					return requireNotWon(t, fresh, claim).Record.State() == store.Completed
				})
				requireCompleted(t, fresh, claim, paid())
				require.Equal(t, i+1, countEffects(t, r.admin))
			})
		}
	})
}

// What ends an attempt on Park is not done before the standby has it, however often one asks, and nobody is answered from
// it. A tombstone says that its command has worked, as the answer did that somebody has erased. An app whose sessions do not
// wait for anything is told of the standby all the same.
//
// CONTRACT, F-2
func TestParkWaitsForStandby(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	st, local := r.store(), newStore(t, r.admin) // local waits for no standby, as what a restarted server shows has not
	ends := map[string]store.Ending{
		"complete": {State: store.Completed, Answer: paid()},
		"release":  {State: store.Free},
	}
	claims, tickets := map[string]store.Claim{}, map[string]store.Ticket{}
	for name, end := range ends {
		claims[name] = command(store.Park)
		tickets[name] = won(t, local, claims[name])
		for range 2 {
			require.Error(t, returned(t, func() error { return st.End(soon(t), tickets[name], end) }), name)
		}
	}
	erased := command(store.Park)
	answered(t, local, erased)
	require.Equal(t, 1, eraseAll(t, local, erased.Scope, 10).Records)
	requireUnconfirmed(t, r.store(), erased)
	weak := openPostgres(t, r.URL()+"&synchronous_commit=off", 2)
	started := query[time.Time](t, weak, "SELECT pg_postmaster_start_time()")
	require.ErrorIs(t, gormstore.Confirm(soon(t), weak, started), context.DeadlineExceeded)
	for range 50 { // the server is told to cancel some time after
		repeated := try(st.Claim(t.Context(), again(claims["complete"]))).ok(t)
		require.NotEqual(t, store.Completed, repeated.Record.State(),
			"a repeat would be answered with what a failover loses: the standby is still missing")
		time.Sleep(20 * time.Millisecond)
	}

	r.abandon()
	for name, end := range ends {
		require.NoError(t, returned(t, func() error { return st.End(t.Context(), tickets[name], end) }), name)
	}
	require.Equal(t, store.Expired, requireNotWon(t, r.store(), erased).Record.State())
	eventually(t, "nothing has to be waited for", func() bool { return gormstore.Confirm(t.Context(), weak, started) == nil })
}

// A statement that commits by itself, and whose wait for the standby an operator has cancelled, waits once more: the server has
// answered with a warning. Otherwise a handler would run, or a client be told, and a failover lose it.
//
// CONTRACT X-4, F-2
func TestCancelledWaitBeginsAgain(t *testing.T) {
	t.Parallel()
	type write func(ctx context.Context, st, ahead *gormstore.Store, db *gorm.DB, c store.Claim) error // ahead waits for no standby
	for name, write := range map[string]write{
		"a claim": claimWins,
		"a claim of a key that was seen": func(ctx context.Context, st, ahead *gormstore.Store, db *gorm.DB, c store.Claim) error {
			rollback := again(c)
			rollback.Recovery = store.Rollback
			tx, _, err := st.Begin(ctx, rollback)
			if err != nil {
				return err
			}
			return errors.Join(tx.Rollback(), claimWins(ctx, st, ahead, db, c))
		},
		"a claim of a key that is free again": func(ctx context.Context, st, ahead *gormstore.Store, db *gorm.DB, c store.Claim) error {
			claimed, err := ahead.Claim(ctx, again(c))
			return errors.Join(err, ahead.End(ctx, claimed.Record.Ticket, store.Ending{State: store.Free}), claimWins(ctx, st, ahead, db, c))
		},
		"an answer": func(ctx context.Context, st, ahead *gormstore.Store, _ *gorm.DB, c store.Claim) error {
			claimed, err := ahead.Claim(ctx, c)
			return errors.Join(err, st.End(ctx, claimed.Record.Ticket, store.Ending{State: store.Completed, Answer: paid()}))
		},
		"an intent": func(ctx context.Context, _, _ *gormstore.Store, db *gorm.DB, _ store.Claim) error {
			_, err := newJournal(t, db).Begin(ctx, goldenIntent())
			return err
		},
		"an import": func(ctx context.Context, st, ahead *gormstore.Store, _ *gorm.DB, c store.Claim) error {
			claimed, err := ahead.Claim(ctx, again(command(store.Park)))
			rec := claimed.Record
			rec.ID, rec.Stored, rec.Hash = c.ID, store.Unknown, store.CommandHash{Version: store.UnknownHash}
			return errors.Join(err, err2(st.Import(ctx, []store.Record{rec})))
		},
		"a settlement": func(ctx context.Context, st, ahead *gormstore.Store, db *gorm.DB, c store.Claim) error {
			c.Lease, c.Deadline = time.Microsecond, time.Microsecond
			claimed, err := ahead.Claim(ctx, c)
			return errors.Join(err, err2(st.Settle(ctx, store.Settlement{ID: c.ID, Fence: claimed.Record.Fence, Who: "w", Why: "w",
				Window: store.Window{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReplicated(t)
			db, st := r.openAt(r.URL())
			ended := make(chan error, 1)
			ahead := newStore(t, r.admin)
			go func() { ended <- write(t.Context(), st, ahead, db, command(store.Park)) }()
			const confirms = "query LIKE '%pg_catalog.pg_logical_emit_message(%'"
			pid := r.waitingWith("NOT " + confirms)
			require.NoError(t, r.admin.Exec("SELECT pg_cancel_backend(?)", pid).Error)
			r.waitingWith(confirms)
			require.Empty(t, ended)
			r.abandon()
			require.NoError(t, <-ended)
		})
	}
}

func claimWins(ctx context.Context, st, _ *gormstore.Store, _ *gorm.DB, c store.Claim) error {
	claimed, err := st.Claim(ctx, c)
	if err == nil && !claimed.Won {
		err = errors.New("not won")
	}
	return err
}

// A claim that was sent twice finds its own record before the standby has it. If the handler ran now, a failover could lose
// the claim, and a repeat would run it again.
//
// CONTRACT M-6, F-2
func TestOwnClaimIsNotBelievedBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	c := command(store.Park)
	_, err := newStore(t, r.admin).Claim(t.Context(), c) // waits for no standby
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	claimed, err := r.store().Claim(ctx, c)
	require.Error(t, err)
	require.False(t, claimed.Won)
	r.abandon()
	claimed, err = r.store().Claim(t.Context(), c)
	require.NoError(t, err)
	require.True(t, claimed.Won)
}

// A server that starts again does not go on waiting for its standby, and shows what it had not.
//
// CONTRACT F-2, M-3
func TestRestartedServerIsNotBelievedBeforeItsStandbyHasIt(t *testing.T) {
	t.Parallel()
	primary := pgtest.Own(t)
	db := openPostgres(t, primary.URL(), 4)
	migrate(t, db)
	standby := primary.Standby()
	st := newStore(t, db)
	c := command(store.Park)
	ticket := won(t, st, c)
	standby.Stop(pgtest.Fast)
	require.ErrorIs(t, returned(t, func() error { return st.End(soon(t), ticket, store.Ending{State: store.Completed, Answer: paid()}) }), store.ErrUnconfirmed)

	primary.Stop(pgtest.Immediate)
	primary.Start()
	state := query[store.State](t, openPostgres(t, primary.URL(), 1), "SELECT state FROM idempotency_record")
	require.Equal(t, store.Completed, state, "here it is")
	requireUnconfirmed(t, newStore(t, openPostgres(t, primary.URL(), 4)), c)

	standby.Start()
	primary.AwaitStandby()
	st = newStore(t, openPostgres(t, primary.URL(), 2))
	requireCompleted(t, st, c, paid())
	standby.Stop(pgtest.Fast)
	requireCompleted(t, st, c, paid()) // this backend's server has been confirmed since it started
}

// The server ends a transaction in which nothing has happened for too long, with its own last word (25P03). Nothing of it
// is there, so the command may be sent again.
//
// CONTRACT X-0, F-3
func TestServerEndsAnIdleTransaction(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	watch := openPostgres(t, url, 1)
	for name, undo := range map[string]bool{"a success": false, "a refusal": true} {
		st := newStore(t, openPostgres(t, url, 4))
		c := command(store.Rollback)
		tx, ctx := beginRow(t, st, c)
		handle, _ := gormstore.SQLTx(ctx)
		var backend int // the time begins behind the last statement of the handler
		require.NoError(t, handle.QueryRowContext(ctx,
			"SELECT pg_backend_pid(), set_config('idle_in_transaction_session_timeout', '1ms', true)").Scan(&backend, new(string)))
		eventually(t, "the server has ended it", func() bool {
			return query[int](t, watch, "SELECT count(*) FROM pg_stat_activity WHERE pid = ?", backend) == 0
		})
		require.ErrorIs(t, seal(t.Context(), tx, paid(), undo), store.ErrRetryable, name)
		requireFree(t, st, c)
	}
}
