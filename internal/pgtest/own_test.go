package pgtest

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOwnSurvives(t *testing.T) {
	t.Parallel()
	cluster := Own(t)
	url := cluster.URL()
	cluster.Exec("CREATE TABLE ledger (amount int)")

	for name, interrupt := range map[string]func(){
		"smart stop":     func() { cluster.Stop(Smart) },
		"fast stop":      func() { cluster.Stop(Fast) },
		"immediate stop": func() { cluster.Stop(Immediate) },
		"kill":           cluster.Kill,
	} {
		t.Run(name, func(t *testing.T) {
			cluster.Exec("TRUNCATE ledger", "INSERT INTO ledger VALUES (42)")
			if name != "smart stop" { // which waits for clients
				connect(t, url) // its server process outlives a killed postmaster for a moment
			}
			interrupt()
			require.Error(t, execute(t.Context(), parse(t, url), nil, "SELECT"), "the server should be down")
			cluster.Start()
			require.Equal(t, url, cluster.URL())
			require.Equal(t, 42, ask[int](t, connect(t, url), "SELECT amount FROM ledger"))
		})
	}
	require.Contains(t, cluster.Log(), "was not properly shut down; automatic recovery in progress")
}

// A server has the settings of its test; all that makes it durable is as PostgreSQL has it.
func TestOwnSettings(t *testing.T) {
	t.Parallel()
	cluster := Own(t, "cluster_name=it's mine", "work_mem=5MB")
	conn := connect(t, cluster.URL())
	for setting, want := range map[string]string{
		"cluster_name":              "it's mine",
		"fsync":                     "on",
		"synchronous_commit":        "on",
		"full_page_writes":          "on",
		"wal_level":                 "replica",
		"max_prepared_transactions": "0",
		"max_connections":           "300",
	} {
		require.Equal(t, want, ask[string](t, conn, "SELECT current_setting($1)", setting), setting)
	}

	cluster.Exec("ALTER SYSTEM SET work_mem = '6MB'", "SELECT pg_reload_conf()")
	require.Eventually(t, func() bool {
		return ask[string](t, conn, "SHOW work_mem") == "6MB"
	}, readyWithin, 10*time.Millisecond)
}

// Between the choice of a port and the server's start another process may take it.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	server, err := newOwnServer()
	require.NoError(t, err)
	cluster := &Cluster{t: t, server: server}
	t.Cleanup(cluster.remove)
	require.NoError(t, server.setUp(nil))
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	server.url.Host = other.Addr().String()
	require.NoError(t, writeURL(server.directory, server.url))

	require.NoError(t, server.start(), "before the first start nobody knows the port")
	require.NotEqual(t, other.Addr().String(), server.url.Host)
	cluster.Exec("SELECT")

	cluster.Stop(Fast)
	url := cluster.URL()
	other, err = net.Listen("tcp", server.url.Host)
	require.NoError(t, err)
	require.ErrorContains(t, server.start(), portTaken, "the test has the URL already")
	require.NoError(t, other.Close())
	cluster.Start()
	require.Equal(t, url, cluster.URL())
}
