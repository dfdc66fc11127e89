//go:build !race

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
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

// What a command may allocate on PostgreSQL, with the handler's row and this harness: some 5 percent above what it does.
func TestAllocationsOnPostgreSQL(t *testing.T) {
	on, err := openPool(t, pgtest.URL(t))
	require.NoError(t, err)
	b := &benchmark{spread: 1}
	for _, c := range []struct {
		way
		most float64
	}{{rollback, 266}, {resume, 562}, {park, 158}, {replay, 58}} {
		sides, err := b.sides(variant{inSQL, plainSQL, on}, c.way)
		require.NoError(t, err)
		send := func() { require.NoError(t, sides[0].send()) }
		testing.AllocsPerRun(20, send) // what is asked once, and what each connection prepares once
		each := testing.AllocsPerRun(200, send)
		t.Logf("%s: %.0f", c.name, each)
		require.LessOrEqual(t, each, c.most, c.name)
	}
}
