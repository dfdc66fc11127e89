//go:build !race

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
)

// What a command may allocate above the bare handler, whose two guards it has too. Under the race detector sync.Pool drops
// what it is given at random, so that allocations cannot be counted.
func TestAllocationsAboveTheBareHandler(t *testing.T) {
	for framework, most := range map[string]struct{ first, replay float64 }{"Gin": {13, 2}, "Echo": {14, 5}} {
		t.Run(framework, func(t *testing.T) {
			a, err := service{framework: framework, store: memstore.New(), recovery: core.Park, body: jsonBody(smallBody)}.open()
			require.NoError(t, err)
			allocations := func(path string, key func() string, answer want) float64 {
				counted, err := meter{rounds: 1, duration: 50 * time.Millisecond, progress: t.Logf}.compare(1,
					always(path, func() error { return a.send(path, key(), answer) }))
				require.NoError(t, err)
				return counted[0].mallocs()
			}
			repeated := newKey()
			require.NoError(t, a.send(guarded, repeated, created))
			allocations(guarded, newKey, created) // the maps of a new store grow often
			alone := allocations(bare, newKey, plain)
			const others = 0.5 // maps that grow
			require.Less(t, allocations(guarded, newKey, created)-alone, most.first+others)
			require.Less(t, allocations(guarded, func() string { return repeated }, reused)-alone, most.replay+others)
		})
	}
}
