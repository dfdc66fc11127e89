package apptest

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/auth19/idem/internal/cutproxy"
)

// Instance is an app between two proxies. A test kills or stops it, and starts it again with Start.
type Instance struct {
	*Process                 // of its present life
	Front    *cutproxy.Proxy // between the clients and the app
	Back     *cutproxy.Proxy // between the app and its database

	t             testing.TB
	program, home string
	env           []string
	lives         uint64
	logs          []string // of former lives
}

// NewInstance starts an app that has the database at the given URL (postgres://host:port/...), with env as [Start] takes
// it. Nothing is cut as long as the proxies have no other plan. All of it ends with the test.
func NewInstance(t testing.TB, program, database string, env ...string) *Instance {
	t.Helper()
	target, err := url.Parse(database)
	if err != nil {
		t.Fatal("NewInstance: the database needs a URL")
	}
	in := &Instance{t: t, program: program, home: t.TempDir()}
	proxy := func(target string) *cutproxy.Proxy {
		p, err := cutproxy.New(target, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	in.Front = proxy("127.0.0.1:1") // nobody's, before the first start
	in.Back = proxy(target.Host)
	target.Host = in.Back.Addr()
	in.env = append(slices.Clone(env), "DATABASE_URL="+target.String())
	in.Start()
	return in
}

// Start starts the app, or starts it again after it has ended. Nothing cuts its connections to the database: set a plan
// for Back again after each Start.
func (in *Instance) Start() {
	in.t.Helper()
	if in.Process != nil {
		in.logs = append(in.logs, in.Process.Log())
	}
	in.lives++
	in.Back.SetPlan(cutproxy.Pass)
	in.Process = Start(in.t, in.program, in.home, in.env...)
	in.Front.SetTarget(strings.TrimPrefix(in.URL, "http://"))
}

// Lives is how often the app was started.
func (in *Instance) Lives() uint64 { return in.lives }

// Log returns what the app has logged so far, in all its lives.
func (in *Instance) Log() string { return strings.Join(append(in.logs, in.Process.Log()), "") }
