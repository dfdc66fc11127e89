package interop_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/internal/cutproxy"
)

// program is a client of docs/client.md, in a file of the directory clients.
type program struct {
	name    string
	needs   []string // a command that succeeds where the client is installed
	build   []string // a command that must succeed then
	run     []string // before URL, key and body
	form    bool     // it sends a form, not JSON
	render  func(*http.Request, *core.Problem) *core.Reply
	differs map[string]expectation // from the rule, as the page says; by the situation's name
}

// expectation is what a client does in a situation.
type expectation struct {
	exchanges int  // 0: two or more
	status    int  // that the program gets in the end; 0: an error that has none
	hasty     bool // it does not respect Retry-After
}

// The situations. Their first answers are what the service really says then.
const (
	lost        = "the answer is lost"
	cutInBody   = "the answer is cut in its body"
	gateway     = "a gateway answers 502"
	unavailable = "503 store_unavailable"
	inFlight    = "409 in_flight"
	keyReused   = "409 key_reused"
	refused     = "402, a refusal"
	uncertain   = "500, and it may have been applied"
)

// rule is what docs/client.md asks of a client.
var rule = map[string]expectation{
	lost:        {exchanges: 2, status: 201},
	cutInBody:   {exchanges: 2, status: 201},
	gateway:     {exchanges: 2, status: 201},
	unavailable: {status: 201},
	inFlight:    {status: 201},
	keyReused:   {exchanges: 1, status: 409},
	refused:     {exchanges: 1, status: 402},
	uncertain:   {exchanges: 1, status: 500},
}

const jars = "root/usr/share/java/okhttp.jar:root/usr/share/java/okio.jar:."

var (
	hasty    = expectation{status: 201, hasty: true}
	programs = []program{
		{name: "curl", needs: []string{"curl", "--version"}, run: []string{"sh", "curl.sh"}, differs: map[string]expectation{
			keyReused: {exchanges: 4}, refused: {exchanges: 4}, uncertain: {exchanges: 4}, // it repeats whatever is no success
		}},
		{name: "fetch", needs: []string{"node", "--version"}, run: []string{"node", "run.mjs", "./fetch.mjs"}},
		{name: "TypeScript", needs: imports("typescript"), build: []string{"sh", "-c", typeScript},
			run: []string{"node", "run.mjs", "./pay.js"}},
		{name: "axios", needs: imports("axios-retry"), run: []string{"node", "run.mjs", "./axios.mjs"}},
		{name: "got", needs: imports("got"), run: []string{"node", "run.mjs", "./got.mjs"}},
		{name: "ky", needs: imports("ky"), run: []string{"node", "run.mjs", "./ky.mjs"}},
		{name: "urllib3", needs: []string{python, "-c", "import urllib3"}, run: []string{python, "with_urllib3.py"},
			differs: map[string]expectation{uncertain: {exchanges: 2, status: 409}}}, // it looks at the status alone
		{name: "requests", needs: []string{python, "-c", "import requests"}, run: []string{python, "loop.py", "requests"}},
		{name: "httpx", needs: []string{python, "-c", "import httpx"}, run: []string{python, "loop.py", "httpx"}},
		{name: "OkHttp", needs: []string{"javap", "-cp", jars, "okhttp3.OkHttpClient"},
			build: []string{"javac", "-cp", jars, "OkHttp.java"}, run: []string{"java", "-cp", jars, "OkHttp"}},
		{name: "stripe-node", needs: imports("stripe"), run: []string{"node", "run.mjs", "./stripe.mjs"}, form: true,
			render: stripeProblem, differs: map[string]expectation{
				unavailable: hasty, inFlight: hasty,
				cutInBody: {exchanges: 1},              // an error, and it does not repeat
				uncertain: {exchanges: 2, status: 409}, // outcome_unknown
			}},
		{name: "stripe-node without its form", needs: imports("stripe"), run: []string{"node", "run.mjs", "./stripe.mjs"}, form: true,
			differs: map[string]expectation{
				unavailable: hasty, inFlight: hasty,
				cutInBody: {exchanges: 1},
				keyReused: {exchanges: 4, status: 409}, uncertain: {exchanges: 4, status: 409}, // as if they were successes
			}},
	}
)

// typeScript compiles pay.ts, and checks what it has beside pay.
const typeScript = "node_modules/.bin/tsc --strict --target es2022 --module es2022 --lib es2022,dom pay.ts && node pay_test.mjs"

// python is that of the system, for which .ci/clients installs packages.
const python = "/usr/bin/python3"

func imports(module string) []string { return []string{"node", "-e", "import('" + module + "')"} }

// result is what a program gets in the end.
type result struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`  // as text or as an object
	Error  string          `json:"error"` // what was thrown
}

func (r result) sale(t *testing.T) (s sale) {
	t.Helper()
	body := []byte(r.Body)
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	require.NoError(t, json.Unmarshal(body, &s), "%s", body)
	return s
}

// The clients of docs/client.md do what the page says, against a service on PostgreSQL whose answers are cut, which is busy
// with the same command, or has lost its database. What is not installed here is told by name; .ci/clients installs all of it.
//
// CONTRACT K-2, M-2, M-3, R-5
func TestClients(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.CopyFS(home, os.DirFS("clients")))
	if installed := os.Getenv("TEST_CLIENTS"); installed != "" {
		for _, name := range []string{"node_modules", "root"} {
			require.NoError(t, os.Symlink(filepath.Join(installed, name), filepath.Join(home, name)))
		}
	}
	execute := func(t *testing.T, command ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "PYTHONPATH=root/usr/lib/python3/dist-packages", "PYTHONDONTWRITEBYTECODE=1")
		var problems strings.Builder
		cmd.Stderr = &problems
		printed, err := cmd.Output()
		if problems.Len() > 0 {
			t.Log(problems.String())
		}
		return printed, err
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if _, err := execute(t, p.needs...); err != nil {
				t.Skipf("NOT RUN with %s, which is not here (%v): see .ci/clients", p.name, err)
			}
			if p.build != nil {
				_, err := execute(t, p.build...)
				require.NoError(t, err)
			}
			market := newMarket(t, p.render)
			run := func(t *testing.T, url, key, body string) (got result) {
				printed, err := execute(t, append(slices.Clip(p.run), url, key, body)...)
				if err != nil {
					return result{Error: cmp.Or(string(printed), err.Error())}
				}
				require.NoError(t, json.Unmarshal(printed, &got), "%s", printed)
				return got
			}
			t.Run(unavailable, func(t *testing.T) { p.try(t, market, unavailable, run) }) // all requests of the time are
			for situation := range rule {
				if situation != unavailable {
					t.Run(situation, func(t *testing.T) {
						t.Parallel()
						p.try(t, market, situation, run)
					})
				}
			}
		})
	}
}

// try runs a client in a situation.
func (p program) try(t *testing.T, market *market, situation string, run func(t *testing.T, url, key, body string) result) {
	f, key, order := &front{market: market, path: "/v1/charges"}, uuid.NewString(), uuid.NewString()
	amount, first := p.prepare(t, f, situation, key, order)
	url := f.listen(t)
	got := run(t, url, key, command(order, amount))
	exchanges := f.log()
	for _, v := range exchanges {
		t.Logf("%d %s", v.status, v.code)
		require.Equal(t, key, v.key)
	}
	want, differs := p.differs[situation]
	if !differs {
		want = rule[situation]
	}
	require.Equal(t, want.status, got.Status, got.Error)
	if want.exchanges == 0 {
		require.Greater(t, len(exchanges), 1)
	} else {
		require.Len(t, exchanges, want.exchanges)
	}
	require.Equal(t, first, exchanges[0].code)
	if exchanges[0].retryAfter != "" && !want.hasty {
		// A clock of theirs may be a little ahead.
		require.GreaterOrEqual(t, exchanges[1].arrived.Sub(exchanges[0].answered), retryAfter-20*time.Millisecond)
	}
	switch ids := market.sold(t, order); situation {
	case keyReused, refused, uncertain:
		if p.name == "stripe-node without its form" && situation != refused {
			require.Empty(t, got.Error, "it throws nothing")
		} else if p.form {
			require.NotEmpty(t, got.Error)
		}
	default:
		require.Len(t, ids, 1)
		if want.status == 0 { // the program calls it once more
			got = run(t, url, key, command(order, amount))
		}
		answer := got.sale(t)
		require.Equal(t, ids[0], answer.ID)
		require.Len(t, answer.Pad, padding)
	}
}

// prepare makes a situation. It returns the amount that the client has to send, and the code of its first answer.
func (p program) prepare(t *testing.T, f *front, situation, key, order string) (amount, first string) {
	before := func(ctx context.Context) {
		if p.form {
			f.send(ctx, key, "application/x-www-form-urlencoded", "order="+order+"&amount=100")
		} else {
			f.send(ctx, key, "application/json", command(order, "100"))
		}
	}
	switch situation {
	case lost:
		f.plan = cutAfter(1)
	case cutInBody:
		f.plan = cutAfter(padding / 2)
	case gateway:
		f.gateway = true
	case unavailable:
		f.market.back.SetPlan(func(int) cutproxy.Fate { return cutproxy.Fate{Refuse: true} })
		f.market.back.CutAll()
		f.seen = func() { f.market.back.SetPlan(nil) }
		return "100", string(core.CodeStoreUnavailable)
	case inFlight:
		g := &gate{entered: make(chan struct{}), open: make(chan struct{})}
		f.market.gates.Store(order, g)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			before(context.WithoutCancel(t.Context()))
		}()
		<-g.entered
		f.seen = func() {
			close(g.open)
			<-ended
		}
		return "100", string(core.CodeInFlight)
	case keyReused:
		before(t.Context())
		return "200", string(core.CodeKeyReused)
	case refused:
		return "402", "card_declined"
	case uncertain:
		f.path = "/v1/parked"
	}
	return "100", ""
}

// command is the body that the clients are given.
func command(order, amount string) string { return `{"order":"` + order + `","amount":` + amount + `}` }
