package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/internal/mariatest"
)

// Instances that start at once migrate at once, and none keeps a lock on a connection of its pool.
func TestMigrateAtOnce(t *testing.T) {
	address := mariatest.Address(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var instances errgroup.Group
	for range 4 {
		db := open(t, address)
		instances.Go(func() error { return gormstore.Migrate(ctx, db) })
	}
	require.NoError(t, instances.Wait())
	db := open(t, address)
	require.NoError(t, gormstore.Migrate(ctx, db), "again")
	require.NoError(t, newStore(t, db).Validate(ctx))
}
