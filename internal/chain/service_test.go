package chain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// service is an example app in a process of its own, on a database of its own, behind a proxy that breaks connections.
// It can be killed and started again; the proxy stays where it is.
type service struct {
	*apptest.Process
	t       *testing.T
	program string
	env     []string
	proxy   *cutproxy.Proxy
	kills   int
}

// start starts the app of an import path. Nothing is broken yet.
func start(t *testing.T, importPath string, env ...string) *service {
	s := &service{t: t, program: apptest.Build(t, importPath), env: append(env, "DATABASE_URL="+pgtest.URL(t), "LEASE=2s")}
	s.Process = apptest.Start(t, s.program, t.TempDir(), s.env...)
	var err error
	s.proxy, err = cutproxy.New(s.address(), nil)
	require.NoError(t, err)
	t.Cleanup(s.proxy.Close)
	return s
}

// address is where the process listens.
func (s *service) address() string { return strings.TrimPrefix(s.URL, "http://") }

// url is where the proxy listens.
func (s *service) url() string { return "http://" + s.proxy.Addr() }

// kill kills the process, whatever it is at, and starts another one on the same database.
func (s *service) kill() {
	s.kills++
	s.Kill(s.t)
	s.Process = apptest.Start(s.t, s.program, s.t.TempDir(), s.env...)
	s.proxy.SetTarget(s.address())
}

// breakConnections lets the proxy cut every connection after a few requests, and send one in eight twice.
func (s *service) breakConnections(seed uint64) {
	cut := cutproxy.Random(seed, 2500)
	s.proxy.SetPlan(func(connection int) cutproxy.Fate {
		fate := cut(connection)
		fate.Twice = connection%8 == 0
		return fate
	})
}

// mend ends the breaking, also of connections that are there, and returns what was broken.
func (s *service) mend() cutproxy.Stats {
	stats := s.proxy.Stats()
	s.proxy.SetPlan(nil)
	s.proxy.CutAll()
	return stats
}

// line is an entry of the ledger.
type line struct{ Kind, Amount string }

// ledger returns the amounts of all entries of a kind.
func (s *service) ledger(kind string) (amounts []string) {
	s.t.Helper()
	var lines []line
	s.Do(s.t, apptest.Request{Method: "GET", Path: "/v1/ledger", Token: s.Tokens["operator-1"]}).Decode(s.t, &lines)
	for _, l := range lines {
		if l.Kind == kind {
			amounts = append(amounts, l.Amount)
		}
	}
	return amounts
}
