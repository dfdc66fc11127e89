package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// instance is one of the apps, between two proxies. It lives more than once.
type instance struct {
	*apptest.Process
	t       testing.TB
	name    string
	program string
	folder  string
	url     string // of its database, by way of back
	seed    uint64
	lives   uint64
	logs    []string // of former lives

	front *cutproxy.Proxy // between the clients and the app
	back  *cutproxy.Proxy // between the app and its database
}

// How many bytes go through a connection on average before it is cut: some dozens of requests, some hundreds of
// statements. One connection in so many sends everything twice.
const (
	frontMean = 20_000
	backMean  = 200_000
	twice     = 16
)

// newInstance starts an example app. Nothing is broken yet.
func newInstance(t testing.TB, name string, seed uint64, database *pgtest.Cluster) *instance {
	t.Helper()
	in := &instance{
		t: t, name: name, program: apptest.Build(t, "github.com/auth19/idem/examples/"+name), folder: t.TempDir(), seed: seed,
	}
	target, err := url.Parse(database.URL())
	require.NoError(t, err)
	in.back, err = cutproxy.New(target.Host, nil)
	require.NoError(t, err)
	t.Cleanup(in.back.Close)
	in.front, err = cutproxy.New("127.0.0.1:1", nil) // nobody's, before the first start
	require.NoError(t, err)
	t.Cleanup(in.front.Close)
	target.Host = in.back.Addr()
	in.url = target.String()
	in.start()
	return in
}

// start starts the app, over connections that are whole.
func (in *instance) start() {
	in.t.Helper()
	in.lives++
	in.back.SetPlan(cutproxy.Pass)
	if in.Process != nil {
		in.logs = append(in.logs, in.Log())
	}
	in.Process = apptest.Start(in.t, in.program, in.folder, "DATABASE_URL="+in.url, "LEASE=2s", "DEADLINE=8s",
		"UNSAFE_SIMULATOR=1")
	in.front.SetTarget(strings.TrimPrefix(in.URL, "http://"))
}

// breakUp lets connections be cut and doubled from now on.
func (in *instance) breakUp() {
	cut := cutproxy.Random(in.seed+in.lives<<16, frontMean)
	in.front.SetPlan(func(connection int) cutproxy.Fate {
		fate := cut(connection)
		fate.Twice = connection%twice == 0
		return fate
	})
	in.back.SetPlan(cutproxy.Random(in.seed+in.lives<<16+1, backMean))
}

// mend ends that, also for the connections that there are.
func (in *instance) mend() {
	for _, proxy := range []*cutproxy.Proxy{in.front, in.back} {
		proxy.SetPlan(cutproxy.Pass)
		proxy.CutAll()
	}
}

// memory is the memory of the process in MiB, as Linux counts it (VmRSS); 0 elsewhere.
func (in *instance) memory() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", in.PID()))
	_, after, _ := bytes.Cut(text, []byte("VmRSS:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(fields[0]), 64)
	return kib / 1024
}

// logged returns the lines of all lives that name an operation.
func (in *instance) logged(operation string) string {
	var b strings.Builder
	for _, log := range append(in.logs, in.Log()) {
		for line := range strings.Lines(log) {
			if strings.Contains(line, operation) {
				fmt.Fprintf(&b, "%s: %s", in.name, line)
			}
		}
	}
	return b.String()
}

// connections is what became of all connections, of both apps.
func (s *soak) connections() (front, back cutproxy.Stats) {
	for _, in := range s.instances {
		f, b := in.front.Stats(), in.back.Stats()
		front.Cut, front.Doubled, back.Cut = front.Cut+f.Cut, front.Doubled+f.Doubled, back.Cut+b.Cut
	}
	return front, back
}
