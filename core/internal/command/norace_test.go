//go:build !race

package command

import (
	"encoding/json"
	"runtime"
	"strings"
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

// A body of many small members costs a few times its own memory, not 30 times, however its names are spelled.
//
// CONTRACT H-9
func TestHashingManySmallMembers(t *testing.T) {
	const size = 1 << 20
	object := func(member string, size int) string {
		return "{" + strings.TrimSuffix(strings.Repeat(member+",", (size-2)/(len(member)+1)), ",") + "}"
	}
	fill := func(member string) string { return object(member, size) }
	for name, body := range map[string]string{
		"empty names":     fill(`"":1`),
		"another order":   fill(`"b":1,"":2`),
		"escaped names":   fill(`"\u0062":1,"a":2`),
		"letters":         fill(`"ſ":1,"s":2`),
		"in one array":    "[" + object(`"":1`, size/2) + `,"` + strings.Repeat(":", size/2-10) + `"]`,
		"colons in texts": fill(`"a":"::::::::::::"`),
		"nested":          strings.Repeat(`{"a":`, 100) + object(`"b":1,"":2`, size-1000) + strings.Repeat("}", 100),
	} {
		require.True(t, json.Valid([]byte(body)))
		c := Command{Method: "POST", path: "/v1/payments", contentType: "application/json", Body: []byte(body)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Hash(Version)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.LessOrEqual(t, int(after.TotalAlloc-before.TotalAlloc), 7*size, name)
	}
}
