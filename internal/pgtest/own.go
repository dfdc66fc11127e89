package pgtest

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Mode is a way to stop a server, named as in pg_ctl.
type Mode string

const (
	Smart     Mode = "smart"     // waits for the clients to leave
	Fast      Mode = "fast"      // rolls back the running transactions
	Immediate Mode = "immediate" // no clean-up: recovers at the next start

	kill Mode = "kill" // SIGKILL
)

// Cluster is a server of one test's own. Its methods fail the test and so belong to the test's goroutine.
type Cluster struct {
	t      testing.TB
	server *server
	killed bool // and not started since
}

// Own starts a private server for a test that stops, kills or reconfigures it; it is removed when the test ends.
// Settings are those of postgresql.conf: "synchronous_standby_names=missing".
func Own(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	server, err := newOwnServer()
	if err != nil {
		unavailable(t, err)
	}
	if err := server.launch(settings); err != nil {
		removeRoot()
		t.Fatal(err)
	}
	c := &Cluster{t: t, server: server}
	t.Cleanup(c.remove)
	return c
}

func newOwnServer() (*server, error) {
	binaries, err := findBinaries(installed())
	if err != nil {
		return nil, err
	}
	root, err := lockRoot()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return newServer(root.Name(), ownPrefix, binaries)
}

// URL is the superuser's URL of the database postgres. It stays the same when the server is started again.
func (c *Cluster) URL() string { return c.server.url.String() }

// Start starts a stopped or killed server and returns when it accepts connections, after recovery where that is needed.
func (c *Cluster) Start() {
	c.t.Helper()
	if c.server.supervisor != nil {
		return
	}
	if err := c.restart(); err != nil {
		c.t.Fatalf("pgtest: %v", err)
	}
}

func (c *Cluster) restart() error {
	// The processes of a killed server may live on for a moment; their shared memory keeps a new one from starting. So
	// does a connection of another process that took the port while it was free.
	deadline := time.Now().Add(readyWithin)
	for {
		err := c.server.start()
		if err == nil {
			c.killed = false
			return nil
		}
		passes := strings.Contains(err.Error(), "pre-existing shared memory block") || strings.Contains(err.Error(), portTaken)
		if !passes || time.Now().After(deadline) {
			return err
		}
	}
}

// Stop ends the server and returns when it is gone. Smart mode waits for the clients to leave, without a limit.
func (c *Cluster) Stop(mode Mode) {
	c.t.Helper()
	if err := c.server.stop(mode); err != nil {
		c.t.Fatalf("pgtest: %v", err)
	}
}

// Kill ends the postmaster by SIGKILL, as the kernel does when memory runs out. The server's other processes notice
// and end by themselves, a busy one only after its statement.
func (c *Cluster) Kill() {
	c.t.Helper()
	c.Stop(kill)
	c.killed = true
}

// Exec runs statements one by one as superuser, each in a transaction of its own, so that ALTER SYSTEM works.
// They do not appear among [Statements].
func (c *Cluster) Exec(sql ...string) {
	c.t.Helper()
	err := execute(c.t.Context(), c.server.url, map[string]string{"log_statement": "none"}, sql...)
	if err != nil {
		c.t.Fatalf("pgtest: %v", err)
	}
}

// Log is the whole text of the server's log.
func (c *Cluster) Log() string { return c.server.log() }

// remove is the test's clean-up.
func (c *Cluster) remove() {
	if c.t.Failed() {
		log := c.Log()
		c.t.Logf("pgtest: the end of the server's log:\n%s", log[max(0, len(log)-8<<10):])
	}
	var err error
	if c.killed {
		err = c.restart() // a killed server's shared memory outlives it, and only its next start frees it
	}
	err = errors.Join(err, c.server.stop(Immediate), c.server.remove())
	if err != nil {
		c.t.Errorf("pgtest: %v", err)
	}
	removeRoot()
}
