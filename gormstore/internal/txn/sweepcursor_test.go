package txn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// However many batches follow each other, one begins at the beginning once a minute.
//
// CONTRACT T-3
func TestPlaceBeginsAgainAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p SweepCursor
		for range 2 {
			require.Zero(t, p.next())
			for at := range int64(59) {
				p.ended(true, at+1)
				time.Sleep(time.Second)
				require.Equal(t, at+1, p.next())
			}
			time.Sleep(time.Second)
		}
		require.Zero(t, p.next())
	})
}
