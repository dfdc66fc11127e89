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
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// An answer was read from a primary that dies then; what is to confirm it comes to the standby that has taken over.
//
// CONTRACT F-2
func TestConfirmAsksTheServerThatWasRead(t *testing.T) {
	t.Parallel()
	db, err := gorm.Open(pgdriver.Open(pgtest.URL(t)), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, Migrate(t.Context(), db))
	st, err := New(db)
	require.NoError(t, err)
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
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	pool.SetMaxIdleConns(-1)
	db, err := gorm.Open(pgdriver.New(pgdriver.Config{Conn: pool}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	o.moving, err = New(db)
	require.NoError(t, err)
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

// A second delivery finds the marker on a primary that dies then. The server that has taken over does not say that its
// standby has the marker: it may never have got it, and the broker would not deliver the message again.
//
// CONTRACT F-2, Q-1
func TestDuplicateIsConfirmedWhereItWasSeen(t *testing.T) {
	t.Parallel()
	o := newTakeover(t)
	process := func(s *Store) error {
		inbox, err := NewInbox(s.db, InboxConfig{Group: "stock", BrokerRetention: time.Hour})
		require.NoError(t, err)
		return inbox.Process(t.Context(), Message{Source: "orders", ID: "1"}, func(*gorm.DB) error { return nil })
	}
	require.NoError(t, process(o.primary))
	require.ErrorIs(t, process(o.moving), ErrAnotherServer)
	require.True(t, o.over.Load())
}

// The second try of an answer finds that of the first one on a primary that dies then.
//
// CONTRACT F-2, X-4
func TestAnswerIsConfirmedWhereItWasSeen(t *testing.T) {
	t.Parallel()
	o := newTakeover(t)
	claimed, err := o.primary.Claim(t.Context(), store.Claim{ID: store.ID{1}, Owner: store.Owner{1}, Method: "POST",
		Route: "/v1/payments", Recovery: store.Park, Hash: store.CommandHash{Version: 1}, Lease: time.Minute, Deadline: time.Minute})
	require.NoError(t, err)
	answer := store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour}
	require.NoError(t, o.primary.Complete(t.Context(), claimed.Record.Ticket, answer))
	require.ErrorIs(t, o.moving.Complete(t.Context(), claimed.Record.Ticket, answer), ErrAnotherServer)
	require.True(t, o.over.Load())
}
