package idemtest_test

import (
	"path/filepath"
	"testing"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

var alice = core.Principal{Issuer: "https://issuer.example", Tenant: "t-1", Subject: "alice"}

func TestContextIsInsideTheAttempt(t *testing.T) {
	ctx := idemtest.Context(t.Context(), idemtest.Config{Principal: alice, Key: "k"})

	operation, ok := core.Operation(ctx)
	require.True(t, ok)
	require.Equal(t, core.Scoping{}.RecordID(alice, "k"), operation)
	command, ok := core.CommandHashOf(ctx)
	require.True(t, ok)
	require.NotZero(t, command.Version)
	key, err := core.DeriveCall(ctx, "charge")
	require.NoError(t, err)
	require.Equal(t, operation.DeriveCall("charge"), key)

	_, ok = authctx.FromContext(ctx)
	require.False(t, ok, "the principal is for authctx.NewContext to add")
	require.NoError(t, ctx.Err())
}

// An attempt of the same operation sends the same key to the provider; only the command can differ.
func TestAttemptsOfOneOperation(t *testing.T) {
	identity := func(a idemtest.Config) (core.ID, store.CommandHash) {
		ctx := idemtest.Context(t.Context(), a)
		operation, _ := core.Operation(ctx)
		command, _ := core.CommandHashOf(ctx)
		return operation, command
	}
	first, command := identity(idemtest.Config{})
	again, same := identity(idemtest.Config{})
	require.Equal(t, first, again)
	require.Equal(t, command, same)

	operation, other := identity(idemtest.Config{Command: "another"})
	require.Equal(t, first, operation)
	require.NotEqual(t, command, other)

	for _, a := range []idemtest.Config{{Key: "another"}, {Principal: alice}} {
		operation, same = identity(a)
		require.NotEqual(t, first, operation)
		require.Equal(t, command, same)
	}
}

func TestDeclared(t *testing.T) {
	ctx := idemtest.Context(t.Context(), idemtest.Config{})
	require.Zero(t, idemtest.Declared(ctx))

	core.KeepRows(authctx.NewContext(ctx, alice)) // a context made of it
	require.Equal(t, idemtest.Declarations{KeepRows: true}, idemtest.Declared(ctx))
	core.NotApplied(ctx)
	require.Equal(t, idemtest.Declarations{NotApplied: true, KeepRows: true}, idemtest.Declared(ctx))

	another := idemtest.Context(t.Context(), idemtest.Config{})
	require.Zero(t, idemtest.Declared(another), "two attempts declare for themselves")
	require.Panics(t, func() { idemtest.Declared(t.Context()) })
}

// booking is a money row.
type booking struct {
	gormstore.Once
	ID     uint
	Amount int64
}

// A handler that writes its rows once does so in a unit test too, in a transaction that the test rolls back.
//
// CONTRACT D-1, D-3
func TestTogetherWithATransaction(t *testing.T) {
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "test.db")), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, db.AutoMigrate(&booking{}))
	tx := db.Begin()
	t.Cleanup(func() { require.NoError(t, tx.Rollback().Error) })

	book := func(a idemtest.Config) (bool, error) {
		ctx := gormstore.WithTx(idemtest.Context(t.Context(), a), tx)
		return gormstore.CreateOnce(gormstore.Tx(ctx), &booking{Amount: 1250})
	}
	for attempt := range 2 {
		created, err := book(idemtest.Config{})
		require.NoError(t, err)
		require.Equal(t, attempt == 0, created)
	}
	_, err = book(idemtest.Config{Command: "another"})
	require.ErrorIs(t, err, gormstore.ErrOtherOperation)
	created, err := book(idemtest.Config{Key: "another"})
	require.NoError(t, err)
	require.True(t, created)
}
