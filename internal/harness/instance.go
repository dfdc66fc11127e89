// Package harness is shared by the tests under faults: the example apps, which are killed and started again, between proxies
// that break connections, and what is in their ledgers. internal/chain calls through two services, and internal/histories
// checks the order of all operations and counts their effects.
package harness

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/cutproxy"
)

// Issuer is the issuer of the example apps' tokens.
const Issuer = "https://issuer.example"

// Cuts say how connections break.
type Cuts struct {
	Front, Back int // bytes after which a connection of clients, or to the database, is cut, on average; 0: never
	Twice       int // every n-th connection of clients sends everything twice; 0: none
}

// Instance is one of the example apps.
type Instance struct {
	*apptest.Instance
	Name string // "gin" or "echo"
	seed uint64
	cuts Cuts
}

// Program is an example app that was built.
type Program struct{ Name, File string }

// Build builds an example app, "gin" or "echo". It is there until the test ends.
func Build(t testing.TB, name string) Program {
	t.Helper()
	return Program{name, apptest.Build(t, "github.com/auth19/idem/examples/"+name)}
}

// NewInstance starts a program on the database at a URL, with env as [apptest.Start] takes it. Nothing is broken yet.
func NewInstance(t testing.TB, p Program, seed uint64, cuts Cuts, database string, env ...string) *Instance {
	t.Helper()
	return &Instance{Name: p.Name, seed: seed, cuts: cuts, Instance: apptest.NewInstance(t, p.File, database, env...)}
}

// Address is where clients reach the app, through its proxy.
func (in *Instance) Address() string { return "http://" + in.Front.Addr() }

// BreakUp lets connections be cut and doubled from now on, and until the app is started again. Those to the database
// that were opened before are cut at once.
func (in *Instance) BreakUp() {
	seed := in.seed + in.Lives()<<16
	plan := func(seed uint64, mean int) cutproxy.Plan {
		if mean == 0 {
			return cutproxy.Pass
		}
		return cutproxy.Random(seed, mean)
	}
	front := plan(seed, in.cuts.Front)
	in.Front.SetPlan(func(connection int) cutproxy.Fate {
		fate := front(connection)
		fate.Twice = in.cuts.Twice > 0 && connection%in.cuts.Twice == 0
		return fate
	})
	in.Back.SetPlan(plan(seed+1, in.cuts.Back))
	if in.cuts.Back > 0 {
		in.Back.CutAll()
	}
}

// Mend ends all cuts, and closes the present connections, which may have been broken.
func (in *Instance) Mend() {
	for _, proxy := range []*cutproxy.Proxy{in.Front, in.Back} {
		proxy.SetPlan(cutproxy.Pass)
		proxy.CutAll()
	}
}

// Restart kills the app at any moment, and starts it again.
func (in *Instance) Restart(t testing.TB) {
	t.Helper()
	in.Kill(t)
	in.Start()
	in.BreakUp()
}

// Paid makes a payment that is large enough for all refunds, and returns the path of its refunds.
func (in *Instance) Paid(t testing.TB, token, key string) string {
	t.Helper()
	answer := in.Do(t, apptest.Request{
		Method: http.MethodPost, Path: "/v1/payments", Token: token, Key: key,
		Body: `{"order_id":"prepared","amount":"9999999999.00","currency":"EUR","method":"pm_ok"}`,
	})
	require.Equal(t, http.StatusCreated, answer.Status, answer.Body)
	return answer.Header.Get("Location") + "/refunds"
}

// Memory is the memory of the process in MiB, as Linux counts it (VmRSS); 0 elsewhere.
func (in *Instance) Memory() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", in.PID()))
	_, after, _ := bytes.Cut(text, []byte("VmRSS:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(fields[0]), 64)
	return kib / 1024
}

// Logged returns the log lines of all lives that name an operation.
func (in *Instance) Logged(operation string) string {
	var b strings.Builder
	for line := range strings.Lines(in.Log()) {
		if strings.Contains(line, operation) {
			fmt.Fprintf(&b, "%s: %s", in.Name, line)
		}
	}
	return b.String()
}
