package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/pgtest"
)

// Every recovery gets through, and everything is measured. Whether it is as predicted is for a quiet machine and for many
// records: PostgreSQL makes a table grow in larger pieces while many write.
func TestSizing(t *testing.T) {
	server := pgtest.Own(t)
	l := load{20, 20 * time.Millisecond, 500}
	for _, r := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		s, err := l.size(t, server, r, 200*time.Millisecond, 160)
		require.NoError(t, err)
		require.Positive(t, s.record)
		require.Positive(t, s.tombstone)
		require.Positive(t, s.steady.samples)
		require.Positive(t, s.above.sent.Load())
	}
}
