package idemtest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/libtnb/sqlite"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemtest"
	"github.com/auth19/idem/gormstore"
)

// refund is the code under test: the steps of a handler on a Resume route.
func refund(ctx context.Context, p *provider) (key string, err error) {
	key, err = core.Call(ctx, "refund", func(_ context.Context, key core.DerivedKey) (string, error) {
		return key.UUID(), p.charge(key.UUID())
	})
	if err != nil {
		return "", err
	}
	return key, core.CallDo(ctx, "notify", func(context.Context, core.DerivedKey) error { return nil })
}

func ExampleSteps() {
	p, steps := &provider{}, &idemtest.Steps{}
	attempt := func() error {
		_, err := refund(idemtest.Context(context.Background(), idemtest.Config{Key: "refund-7", Steps: steps}), p)
		return err
	}
	fmt.Println(attempt())
	p.up = true
	fmt.Println(attempt()) // goes on
	fmt.Println(attempt()) // is done
	fmt.Println(len(p.keys), "calls, one key:", p.keys[0] == p.keys[1])

	// Output:
	// the provider does not answer
	// <nil>
	// <nil>
	// 2 calls, one key: true
}

// CONTRACT X-3
func TestStepsKeepTheirRules(t *testing.T) {
	steps := &idemtest.Steps{}
	ctx := idemtest.Context(t.Context(), idemtest.Config{Steps: steps})
	type result struct{ ID, note string }
	step := func(ctx context.Context, name string) (result, error) {
		return core.Call(ctx, name, func(ctx context.Context, key core.DerivedKey) (result, error) {
			operation, ok := core.Operation(ctx)
			require.True(t, ok)
			require.Equal(t, operation.DeriveStep(name), key)
			return result{ID: name, note: "lost"}, nil
		})
	}
	got, err := step(ctx, "charge")
	require.NoError(t, err)
	require.Equal(t, result{ID: "charge"}, got, "through JSON")
	_, err = step(ctx, "charge")
	require.ErrorContains(t, err, `two steps are called "charge"`)

	next := idemtest.Context(t.Context(), idemtest.Config{Steps: steps})
	_, err = step(next, "another")
	require.ErrorIs(t, err, core.ErrStepsChanged)
	alone := idemtest.Context(t.Context(), idemtest.Config{})
	_, err = step(alone, "another")
	require.NoError(t, err, "an attempt without Steps begins with the first step")
}

// CONTRACT X-3
func TestDatabaseStepInAUnitTest(t *testing.T) {
	db, err := gorm.Open(sqlite.Open("file:"+filepath.Join(t.TempDir(), "test.db")), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	require.NoError(t, db.AutoMigrate(&booking{}))
	tx := db.Begin()
	t.Cleanup(func() { require.NoError(t, tx.Rollback().Error) })

	steps := &idemtest.Steps{}
	book := func(fail error) error {
		ctx := idemtest.Context(gormstore.WithTx(t.Context(), tx), idemtest.Config{Steps: steps})
		return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
			_, err := gormstore.CreateOnce(tx, &booking{Amount: 1250})
			return errors.Join(err, fail)
		})
	}
	count := func() (n int64) {
		require.NoError(t, tx.Model(&booking{}).Count(&n).Error)
		return n
	}
	require.ErrorIs(t, book(errUnavailable), errUnavailable)
	require.Zero(t, count(), "a step that fails leaves no rows")
	for range 2 {
		require.NoError(t, book(nil))
		require.EqualValues(t, 1, count())
	}
	err = gormstore.StepDo(idemtest.Context(t.Context(), idemtest.Config{}), "book", func(*gorm.DB) error { return nil })
	require.ErrorContains(t, err, "gormstore.WithTx")
}
