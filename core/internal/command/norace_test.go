//go:build !race

package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Under the race detector sync.Pool drops what it is given at random, so that allocations cannot be counted.
func TestHashAllocations(t *testing.T) {
	c := Command{Method: "POST", path: "/v1/payments", contentType: "application/json", Body: []byte(smallBody)}
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := c.Hash(Version); err != nil {
			t.Error(err)
		}
	})
	require.Zero(t, allocs)
}
