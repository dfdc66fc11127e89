package gormstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/internal/pgtest"
)

// tired is a connection to PostgreSQL that pgx gives back to the pool with an error in it, as it may happen on a busy machine:
// a write takes more than 15 ms, so that pgx's background reader begins, takes the answer, and waits for more. At this moment
// the statement's context ends. pgx sets a deadline, the background reader fails with it, and keeps the error. But the
// statement has its answer, so that the connection goes back to the pool. Its next user gets "i/o timeout" at once.
type tired struct {
	net.Conn
	cancel func() // called in the first write of a claim; nil in other connections

	mu    sync.Mutex
	moved *sync.Cond
	begun int  // reads that have begun
	done  int  // reads that have returned data
	kept  bool // a read has met a deadline
}

// Read implements [net.Conn].
func (c *tired) Read(p []byte) (int, error) {
	c.note(func() { c.begun++ })
	n, err := c.Conn.Read(p)
	c.note(func() {
		if err == nil {
			c.done++
		}
		c.kept = c.kept || errors.Is(err, os.ErrDeadlineExceeded)
	})
	return n, err
}

// Write implements [net.Conn].
func (c *tired) Write(p []byte) (int, error) {
	cancel := c.cancel
	if cancel == nil || !bytes.Contains(p, []byte("INSERT INTO")) {
		return c.Conn.Write(p)
	}
	c.cancel = nil
	var before int
	c.note(func() { before = c.done })
	n, err := c.Conn.Write(p)
	c.await(func() bool { return c.done > before && c.begun > c.done })
	cancel()
	c.await(func() bool { return c.kept })
	return n, err
}

func (c *tired) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.moved.Broadcast()
}

func (c *tired) await(holds func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !holds() {
		c.moved.Wait()
	}
}

// tires is the key of the function that ends a claim's context, in this context.
type tires struct{}

// tiring is a driver whose connections are tired by the claims that open them.
func tiring(t *testing.T, address string) *sql.DB {
	t.Helper()
	config := try(pgx.ParseConfig(address)).ok(t)
	config.DialFunc = func(ctx context.Context, network, host string) (net.Conn, error) {
		plain, err := new(net.Dialer).DialContext(ctx, network, host)
		if err != nil {
			return nil, err
		}
		c := &tired{Conn: plain}
		c.moved = sync.NewCond(&c.mu)
		c.cancel, _ = ctx.Value(tires{}).(func())
		return c, nil
	}
	// A connection that was used within the last second is not tried out before its next use. No test can rely on a second.
	never := stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false })
	return stdlib.OpenDB(*config, never)
}

// Claims are given up, and their connections come back to the pool with an error in them. The releases of these claims go
// over other connections: else the keys would be taken until the end of their leases, and be unknown then.
//
// CONTRACT F-1
func TestReleaseOverAnotherConnection(t *testing.T) {
	t.Parallel()
	const connections, claims = 5, 3 // one is for renewals
	pool := tiring(t, pgtest.URL(t))
	db := openDB(t, postgres.New(postgres.Config{Conn: pool}), connections)
	migrate(t, db)
	st := newStore(t, db)
	require.NoError(t, st.Validate(t.Context()))
	pool.SetMaxIdleConns(0) // each claim opens a connection
	pool.SetMaxIdleConns(connections)

	var together sync.WaitGroup // each has its own connection
	together.Add(claims)
	lost := make([]store.Claim, claims)
	for i := range lost {
		lost[i] = command(core.Park)
	}
	for _, err := range atOnce(claims, func(i int) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := st.Claim(context.WithValue(ctx, tires{}, func() {
			together.Done()
			together.Wait()
			cancel()
		}), lost[i])
		return err
	}) {
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, c := range lost {
		ctx, cancel := context.WithTimeout(t.Context(), store.DefaultClaimTimeout)
		require.NoError(t, st.Release(ctx, []store.Ticket{{ID: c.ID, Owner: c.Owner}}))
		cancel()
		requireFree(t, st, c)
	}
}
