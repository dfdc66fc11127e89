//go:build !race

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a command may allocate above the bare handler, whose two guards it has too. Under the race detector sync.Pool drops
// what it is given at random, so that allocations cannot be counted.
func TestAllocationsAboveTheBareHandler(t *testing.T) {
	for framework, most := range map[string]struct{ first, replay float64 }{"Gin": {13, 2}, "Echo": {14, 5}} {
		t.Run(framework, func(t *testing.T) {
			s, err := openService(framework)
			require.NoError(t, err)
			allocations := func(path string, key func() string, answer want) float64 {
				app := s.at(path)
				return testing.AllocsPerRun(5000, func() { require.NoError(t, send(app, key(), answer)) })
			}
			repeated := newKey()
			require.NoError(t, send(s.at(guardedPath), repeated, created))
			allocations(guardedPath, newKey, created) // the maps of a new store grow often
			alone := allocations(barePath, newKey, plain)
			require.LessOrEqual(t, allocations(guardedPath, newKey, created)-alone, most.first)
			require.LessOrEqual(t, allocations(guardedPath, func() string { return repeated }, reused)-alone, most.replay)
		})
	}
}
