package txn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// noServer is reached by nobody.
type noServer struct{}

func (noServer) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("no server") }

func (noServer) Driver() driver.Driver { return nil }

// CONTRACT F-3
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := sql.OpenDB(noServer{})
		defer func() { require.NoError(t, pool.Close()) }()
		pool.SetMaxOpenConns(2)
		s := newStalls(pool, 0)
		limit := func() int { return pool.Stats().MaxOpenConnections }
		watch := func(waits bool) (spared *int, end func() bool) {
			spared = new(int)
			return spared, s.Watch(func(context.Context) bool { return waits }, func() { *spared++ })
		}
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}

		quick, endQuick := watch(false)
		pass(DefaultStall - 1)
		require.False(t, endQuick(), "it has ended in time")
		atStandby, endAtStandby := watch(true)
		first, endFirst := watch(false)
		second, endSecond := watch(false)
		pass(DefaultStall - 1)
		third, endThird := watch(false)
		require.Equal(t, 2, limit())
		pass(1)
		require.Equal(t, []int{1, 1, 0}, []int{*first, *second, *third})
		require.Equal(t, 4, limit())
		pass(10 * DefaultStall)
		require.Equal(t, 4, limit(), "no more than one pool's worth")
		require.True(t, endFirst())
		require.Equal(t, 3, limit())
		pass(DefaultStall)
		require.Equal(t, 1, *third, "it was looked at again")
		require.Equal(t, 4, limit())
		require.True(t, endSecond())
		require.True(t, endThird())
		require.False(t, endAtStandby())
		require.Zero(t, *quick+*atStandby)
		require.Equal(t, 2, limit())
		pass(10 * DefaultStall)
		require.Equal(t, 2, limit())
	})
}
