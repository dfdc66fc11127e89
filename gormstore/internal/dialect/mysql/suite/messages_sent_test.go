package suite

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// sent counts the messages of all connections that are dialed by it.
type sent struct {
	net.Conn
	n *atomic.Int64
}

func (c sent) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}

// An attempt with one row is three messages where the address allows several statements in one: the beginning, the row, the end.
func TestMessages(t *testing.T) {
	var n atomic.Int64
	driver.RegisterDialContext("counted", func(ctx context.Context, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		return sent{c, &n}, err
	})
	address := strings.Replace(mariatest.Address(t), "@tcp(", "@counted(", 1)
	for options, want := range map[string]int64{"?": 8, "?multiStatements=true": 3} {
		db := open(t, address+options)
		require.NoError(t, gormstore.Migrate(t.Context(), db))
		require.NoError(t, db.Exec("CREATE TABLE IF NOT EXISTS effects (name varchar(255) NOT NULL) ENGINE=InnoDB").Error)
		st := newStore(t, db)
		var took int64
		for range 2 { // the first one may open connections
			before := n.Load()
			a, ctx := begin(t, st, command(core.Rollback))
			require.NoError(t, gormstore.Tx(ctx).Exec("INSERT INTO effects (name) VALUES ('x')").Error)
			_, err := a.Seal(t.Context(), answered())
			require.NoError(t, err)
			took = n.Load() - before
		}
		assert.Equal(t, want, took, options)
	}
}

// What goes wrong in a message of several statements is told as it is where they go one by one: a COMMIT of the handler's, and a
// record that somebody else has written.
//
// CONTRACT
func TestMessageThatFails(t *testing.T) {
	for _, options := range []string{"?multiStatements=false", "?multiStatements=true"} {
		plain, address := migrated(t)
		require.NoError(t, plain.Exec("CREATE PROCEDURE commits() COMMIT").Error)
		st := newStore(t, open(t, address+options))

		a, ctx := begin(t, st, command(core.Rollback))
		tx := gormstore.Tx(ctx)
		require.NoError(t, tx.Exec("INSERT INTO effects (name) VALUES ('left')").Error)
		_ = tx.Exec("CALL commits()").Error
		_, err := a.Seal(t.Context(), answered())
		require.ErrorIs(t, err, store.ErrEnded, options)

		c := command(core.Rollback)
		a, ctx = begin(t, st, c)
		require.NoError(t, gormstore.Tx(ctx).Exec("INSERT INTO effects (name) VALUES ('gone')").Error)
		require.NoError(t, plain.Exec(`INSERT INTO idempotency_record (id, scope, owner, fence, state, recovery, method, route,
			hash_version, command_hash, realm, created_at, lease_until, deadline_at)
			SELECT ?, scope, x'00', 7, 1, recovery, method, route, hash_version, command_hash, realm, created_at, lease_until,
			deadline_at FROM idempotency_record LIMIT 1`, c.ID[:]).Error)
		_, err = a.Seal(t.Context(), answered())
		require.ErrorIs(t, err, store.ErrStale, options)

		var names []string
		require.NoError(t, plain.Raw("SELECT name FROM effects").Scan(&names).Error)
		require.Equal(t, []string{"left"}, names, options)
	}
}
