package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// answered is the seal of a success.
func answered() store.Seal {
	return store.Seal{Answer: &store.Completion{Answer: store.Answer{Status: 201}, Retention: 24 * time.Hour, Tombstone: 24 * time.Hour}}
}

// A deadlock has ended the transaction. What the handler sends next would commit by itself: it is not sent.
//
// CONTRACT
func TestASwallowedDeadlock(t *testing.T) {
	db, address := migrated(t)
	st, other := newStore(t, db), open(t, address)
	require.NoError(t, db.Exec("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL) ENGINE=InnoDB").Error)
	require.NoError(t, db.Exec("INSERT INTO accounts VALUES (1, 0), (2, 0), (3, 0)").Error)
	c := command(core.Rollback)
	a, ctx := begin(t, st, c)
	tx := other.Begin()
	defer tx.Rollback()
	// The server undoes whoever has written less.
	require.NoError(t, tx.Exec("UPDATE accounts SET balance = 5 WHERE id IN (2, 3)").Error)
	require.NoError(t, tx.Exec("INSERT INTO effects (name) VALUES ('a'), ('b'), ('c'), ('d'), ('e')").Error)
	require.NoError(t, gormstore.Tx(ctx).Exec("UPDATE accounts SET balance = 7 WHERE id = 1").Error)
	blocked := make(chan error, 1)
	go func() { blocked <- tx.Exec("UPDATE accounts SET balance = 5 WHERE id = 1").Error }()
	waits(t, db)
	require.ErrorContains(t, gormstore.Tx(ctx).Exec("UPDATE accounts SET balance = 7 WHERE id = 2").Error, "1213")
	require.NoError(t, <-blocked)

	require.Error(t, stock(gormstore.Tx(ctx)), "the transaction is no more")
	_, err := a.Seal(t.Context(), answered())
	require.ErrorIs(t, err, store.ErrRetryable)
	require.NoError(t, tx.Rollback().Error)
	require.Zero(t, effects(t, db))
	a, _ = begin(t, st, again(c)) // the key is free
	require.NoError(t, a.Rollback())
}

// A lock that was not granted in time undoes its statement alone. A handler that goes on without it does not commit, unless it
// has undone it itself.
//
// CONTRACT X-0
func TestASwallowedLockTimeout(t *testing.T) {
	db, address := migrated(t)
	st, other := newStore(t, db), open(t, address)
	require.NoError(t, db.Exec("CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL) ENGINE=InnoDB").Error)
	require.NoError(t, db.Exec("INSERT INTO accounts VALUES (1, 0)").Error)
	tx := other.Begin()
	defer tx.Rollback()
	require.NoError(t, tx.Exec("UPDATE accounts SET balance = 5").Error)
	const waits = "SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE accounts SET balance = 7"
	for _, undoes := range []bool{false, true} {
		a, ctx := begin(t, st, command(core.Rollback))
		h := gormstore.Tx(ctx)
		require.NoError(t, h.Exec("SAVEPOINT mine").Error)
		require.NoError(t, h.Exec("SET innodb_lock_wait_timeout = 1").Error)
		require.ErrorContains(t, h.Exec("UPDATE accounts SET balance = 7").Error, "1205")
		require.ErrorContains(t, h.Exec(waits).Error, "SET of statement", "what stands behind it is not read")
		require.NoError(t, stock(h), "the transaction goes on")
		if undoes {
			require.NoError(t, h.Exec("ROLLBACK TO mine").Error)
			require.NoError(t, stock(h))
		}
		_, err := a.Seal(t.Context(), answered())
		if undoes {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, store.ErrRetryable)
		}
	}
	require.Equal(t, int64(1), effects(t, db))
}
