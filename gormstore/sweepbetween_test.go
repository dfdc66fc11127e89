package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"

	"github.com/auth19/idem/core/store"
)

// stopper calls first before the first statement that begins with a text, over a driver that sends them one by one.
type stopper struct {
	driver.Connector
	begins string
	first  func()
}

type stopperConn struct {
	*stdlib.Conn
	at *stopper
}

// Connect implements [driver.Connector].
func (s *stopper) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return stopperConn{c.(*stdlib.Conn), s}, nil
}

// QueryContext implements [driver.QueryerContext].
func (c stopperConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if stop := c.at.first; stop != nil && strings.HasPrefix(query, c.at.begins) {
		c.at.first = nil
		stop()
	}
	return c.Conn.QueryContext(ctx, query, args)
}

// A sweep drops the record of a timed key between the two statements with which an attempt begins. The first one has read the
// floor as it was before, so it must not have taken the key for a free one.
//
// CONTRACT T-6, X-0
func TestSweepBetweenTheFirstStatements(t *testing.T) {
	t.Parallel()
	url := migratedURL(t)
	db := openPostgres(t, url, 4)
	st := newStore(t, db)
	c := command(store.Park)
	c.Key = store.KeyTime{Made: time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli()), Timed: true}
	ticket := won(t, st, c)
	answered := store.Completion{Answer: store.Answer{Status: 201}, Retention: time.Hour}
	require.NoError(t, st.Complete(t.Context(), ticket, answered))
	advance(t, db, 2*time.Hour)

	config := try(pgx.ParseConfig(url)).ok(t)
	swept := false
	stops := &stopper{stdlib.GetConnector(*config), lookFirst, func() {
		sweepOnce(t, st)
		require.ErrorIs(t, err2(st.Find(t.Context(), c.ID)), store.ErrNotFound)
		swept = true
	}}
	pool := sql.OpenDB(stops)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	repeat := again(c)
	repeat.Recovery = store.Rollback
	tx, got, err := newStore(t, openDB(t, postgres.New(postgres.Config{Conn: pool}), 4)).Begin(t.Context(), repeat)
	if tx != nil {
		defer func() { _ = tx.Rollback() }()
	}
	require.True(t, swept)
	require.NoError(t, err)
	require.False(t, got.Won, "the command has been answered")
	require.True(t, got.Untimely || got.Busy, "%+v", got)
}
