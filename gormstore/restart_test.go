package gormstore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	pgdriver "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// An answer was read from a primary that dies then; what is to confirm it comes to the standby that has taken over.
//
// CONTRACT F-2
func TestConfirmAsksTheServerThatWasRead(t *testing.T) {
	t.Parallel()
	st := onEach(t)["postgres"]
	db := st.db
	var started time.Time
	require.NoError(t, db.Raw("SELECT pg_postmaster_start_time()").Scan(&started).Error)

	read := &recordScan{pid: 1}
	require.NoError(t, st.confirmRead(t.Context(), read), "there is no standby to wait for")
	require.False(t, st.confirmed.has(read.started.Time, read.pid))

	read.started = instant{started.Add(time.Microsecond)} // it was read from another server
	require.ErrorIs(t, st.confirmRead(t.Context(), read), errRace)
	require.False(t, st.confirmed.has(read.started.Time, read.pid))
	require.ErrorIs(t, Confirm(t.Context(), db, read.started.Time), ErrAnotherServer)

	read.started = instant{started}
	require.NoError(t, st.confirmRead(t.Context(), read))
	require.True(t, st.confirmed.has(started, 1))
	require.False(t, st.confirmed.has(started, 2), "what this backend saw was confirmed, and nothing else")
	require.NoError(t, Confirm(t.Context(), db, started))

	over, end := context.WithCancel(t.Context())
	end()
	read.pid = 2
	require.ErrorIs(t, st.confirmRead(over, read), context.Canceled)
	require.False(t, st.confirmed.has(started, 2))
}

// takeover is a primary with a synchronous standby that has no COMMIT of this test, and another server, which takes over
// as soon as something has been read for which the standby must be asked.
type takeover struct {
	primary *Store // waits for no standby
	moving  *Store // on a pool that never keeps a connection
	over    atomic.Bool
}

func newTakeover(t *testing.T) *takeover {
	t.Helper()
	primary := pgtest.Own(t, "synchronous_standby_names=missing", "synchronous_commit=local")
	other, err := pgx.ParseConfig(pgtest.Own(t).URL())
	require.NoError(t, err)
	o := &takeover{primary: storeAt(t, primary.URL())}
	config, err := pgx.ParseConfig(primary.URL())
	require.NoError(t, err)
	config.Tracer = o
	pool := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, to *pgx.ConnConfig) error {
		if o.over.Load() {
			to.Port, to.Password = other.Port, other.Password
		}
		return nil
	}))
	pool.SetMaxIdleConns(-1)
	o.moving = storeOn(t, pgdriver.New(pgdriver.Config{Conn: pool}))
	require.NoError(t, Migrate(t.Context(), o.primary.db))
	return o
}

type asks struct{}

// TraceQueryStart implements [pgx.QueryTracer].
func (o *takeover) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	reads := !strings.HasPrefix(query.SQL, "UPDATE")
	return context.WithValue(ctx, asks{}, reads && strings.Contains(query.SQL, "pg_postmaster_start_time"))
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (o *takeover) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(asks{}) == true {
		o.over.Store(true)
	}
}

// A second delivery finds the marker, and the second try of an answer that of the first one, on a primary that dies then. The
// server that has taken over does not say that its standby has them: it may never have got them.
//
// CONTRACT F-2, Q-1, X-4
func TestWhatWasSeenIsConfirmedThere(t *testing.T) {
	t.Parallel()
	o := newTakeover(t)
	process := func(s *Store) error {
		inbox, err := NewInbox(s.db, InboxConfig{Group: "stock", BrokerRetention: time.Hour})
		require.NoError(t, err)
		return inbox.Process(t.Context(), Message{Source: "orders", ID: "1"}, func(*gorm.DB) error { return nil })
	}
	ticket := won(t, o.primary, claimOf(1, store.Park))
	for name, twice := range map[string]func(s *Store) error{
		"a message": process,
		"an answer": func(s *Store) error { return s.Complete(t.Context(), ticket, done) },
	} {
		o.over.Store(false)
		require.NoError(t, twice(o.primary), name)
		require.ErrorIs(t, twice(o.moving), ErrAnotherServer, name)
		require.True(t, o.over.Load(), name)
	}
}
