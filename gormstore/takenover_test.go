package gormstore_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/inbox"
	"github.com/auth19/idem/internal/pgtest"
)

// takeover is a primary with a synchronous standby that has no COMMIT of this test, and another server, which takes over
// as soon as something has been read for which the standby must be asked.
type takeover struct {
	primary *gorm.DB // waits for no standby
	moving  *gorm.DB // on a pool that never keeps a connection
	over    atomic.Bool
}

func newTakeover(t *testing.T) *takeover {
	t.Helper()
	primary := pgtest.Own(t, "synchronous_standby_names=missing", "synchronous_commit=local")
	other, err := pgx.ParseConfig(pgtest.Own(t).URL())
	require.NoError(t, err)
	o := &takeover{primary: openDB(t, postgres.Open(primary.URL()), 4)}
	config, err := pgx.ParseConfig(primary.URL())
	require.NoError(t, err)
	config.Tracer = o
	pool := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, to *pgx.ConnConfig) error {
		if o.over.Load() {
			to.Port, to.Password = other.Port, other.Password
		}
		return nil
	}))
	o.moving = openDB(t, postgres.New(postgres.Config{Conn: pool}), 4)
	pool.SetMaxIdleConns(-1)
	migrate(t, o.primary)
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

// The second try of an answer finds the first one's on a primary that dies then. The server that has taken over does not
// say that its standby has it: it may never have got it. A second delivery that finds the marker asks over the same
// connection, and so never another server.
//
// CONTRACT F-2, Q-1, X-4
func TestWhatWasSeenIsConfirmedThere(t *testing.T) {
	t.Parallel()
	o := newTakeover(t)
	stores := map[*gorm.DB]*gormstore.Store{o.primary: newStore(t, o.primary), o.moving: unasked(t, o.moving)}
	claimed := try(stores[o.primary].Claim(t.Context(), command(store.Park))).ok(t)
	require.True(t, claimed.Won)
	boxes := map[*gorm.DB]*inbox.Inbox{o.primary: newInbox(t, o.primary, stockInbox), o.moving: newInbox(t, o.moving, stockInbox)}
	require.NoError(t, boxes[o.moving].Validate(t.Context()))
	m := message()
	for name, twice := range map[string]func(db *gorm.DB) error{
		"a message": func(db *gorm.DB) error {
			return boxes[db].Process(t.Context(), m, func(*gorm.DB) error { return nil })
		},
		"an answer": func(db *gorm.DB) error {
			return stores[db].End(t.Context(), claimed.Record.Ticket, store.Ending{State: store.Completed, Answer: store.Completion{
				Answer: store.Answer{Status: 201}, Retention: time.Hour, Tombstone: time.Hour,
			}})
		},
	} {
		o.over.Store(false)
		require.NoError(t, twice(o.primary), name)
		if err := twice(o.moving); name == "a message" {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, gormstore.ErrAnotherServer, name)
		}
		require.True(t, o.over.Load(), name)
	}
}
