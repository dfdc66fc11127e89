package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/cutproxy"
	"github.com/auth19/idem/internal/pgtest"
)

// instance is one of the apps.
type instance struct {
	*apptest.Instance
	name string
	seed uint64
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
	program := apptest.Build(t, "github.com/auth19/idem/examples/"+name)
	return &instance{name: name, seed: seed, Instance: apptest.NewInstance(t, program, database.URL(),
		"LEASE=2s", "DEADLINE=8s", "STALL=4s", "UNSAFE_SIMULATOR=1")}
}

// breakUp lets connections be cut and doubled from now on.
func (in *instance) breakUp() {
	seed := in.seed + in.Lives()<<16
	cut := cutproxy.Random(seed, frontMean)
	in.Front.SetPlan(func(connection int) cutproxy.Fate {
		fate := cut(connection)
		fate.Twice = connection%twice == 0
		return fate
	})
	in.Back.SetPlan(cutproxy.Random(seed+1, backMean))
}

// mend ends that, also for the connections that there are.
func (in *instance) mend() {
	for _, proxy := range []*cutproxy.Proxy{in.Front, in.Back} {
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
	for line := range strings.Lines(in.Log()) {
		if strings.Contains(line, operation) {
			fmt.Fprintf(&b, "%s: %s", in.name, line)
		}
	}
	return b.String()
}

// connections is what became of all connections, of both apps.
func (s *soak) connections() (front, back cutproxy.Stats) {
	for _, in := range s.instances {
		f, b := in.Front.Stats(), in.Back.Stats()
		front.Cut, front.Doubled, front.Silenced = front.Cut+f.Cut, front.Doubled+f.Doubled, front.Silenced+f.Silenced
		back.Cut, back.Silenced = back.Cut+b.Cut, back.Silenced+b.Silenced
	}
	return front, back
}
