package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/pgtest"
)

// The processor time is that of the process that works: this one or the server's.
func TestProcessorTime(t *testing.T) {
	on, err := openPool(t, pgtest.Own(t).URL())
	require.NoError(t, err)
	postmaster, err := postmasterOf(on.pool)
	require.NoError(t, err)
	const work = 50 * time.Millisecond
	m := meter{rounds: 1, progress: silent, postmaster: postmaster}
	own := func() time.Duration {
		var self syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &self))
		return time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	all, err := m.compare(comparison{1, []side{
		{"the app works", "", func() error {
			for begun := own(); own()-begun < work; {
			}
			return nil
		}},
		{"the server works", "", func() error {
			_, err := on.pool.Exec("SELECT count(*) FROM generate_series(1, 1000000)") // some 100 ms
			return err
		}},
	}})
	require.NoError(t, err)
	app, server := all[0].total(), all[1].total()
	require.GreaterOrEqual(t, app.app, work)
	require.Greater(t, server.server, server.app)
	require.Regexp(t, `^ \(\d+ \+ \d+\)$`, server.processor())
}
