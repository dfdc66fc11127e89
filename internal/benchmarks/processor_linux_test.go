package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The processor time is that of the process that works: this one or the server's.
func TestProcessorTime(t *testing.T) {
	if os.Getenv("TEST_DATABASE_URL") != "" {
		t.Skip("the server may run elsewhere: the benchmark leaves its time out there")
	}
	d, err := openPostgres(t)
	require.NoError(t, err)
	postmaster, err := postmasterOf(d.pool)
	require.NoError(t, err)
	const work = 50 * time.Millisecond
	m := meter{rounds: 1, progress: silent, postmaster: postmaster}
	own := func() time.Duration {
		var self syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &self))
		return time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	all, err := m.compare(1,
		always("the app works", func() error {
			for begun := own(); own()-begun < work; {
			}
			return nil
		}),
		always("the server works", func() error {
			_, err := d.pool.Exec("SELECT count(*) FROM generate_series(1, 1000000)") // some 100 ms
			return err
		}))
	require.NoError(t, err)
	app, server := all[0].total(), all[1].total()
	require.GreaterOrEqual(t, app.app, work)
	require.Greater(t, server.server, server.app)
	require.Regexp(t, `^\d+ \+ \d+$`, all[1].processorTime())

	m.postmaster = 0
	all, err = m.compare(1, always("the server is elsewhere", func() error { return d.pool.Ping() }))
	require.NoError(t, err)
	require.Regexp(t, `^\d+$`, all[0].processorTime())
}
