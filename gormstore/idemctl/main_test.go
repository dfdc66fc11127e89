package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/store"
)

var update = flag.Bool("update", false, "write the golden files")

// shell runs command lines in one environment.
type shell struct {
	t        *testing.T
	env      map[string]string
	terminal bool
	secret   string
}

type result struct {
	code     int
	out, log string
}

func (s *shell) run(input string, args ...string) result {
	s.t.Helper()
	var out, log bytes.Buffer
	code := run(s.t.Context(), args, surroundings{
		in: strings.NewReader(input), out: &out, log: &log, terminal: s.terminal,
		getenv: func(name string) string { return s.env[name] },
		secret: func() (string, error) { return s.secret, nil },
	})
	r := result{code, out.String(), log.String()}
	for _, name := range []string{"IDEMCTL_TOKEN", "PASSWORD"} { // neither is ever shown
		if value := s.env[name]; value != "" {
			require.NotContains(s.t, r.out+r.log, value)
		}
	}
	return r
}

func (s *shell) requires(code int, input string, args ...string) result {
	s.t.Helper()
	r := s.run(input, args...)
	require.Equal(s.t, code, r.code, "%s\n%s%s", strings.Join(args, " "), r.out, r.log)
	return r
}

const id = "9f2c000000000000000000000000000000000000000000000000000000000001"

// fake is an app whose answers are given, and which notes what it was sent.
type fake struct {
	mu      sync.Mutex
	answers map[string]answer // by method and path
	sent    []string          // method, path and body
	keys    []string
}

type answer struct {
	status int
	body   string
	header http.Header
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	f.keys = append(f.keys, r.Header.Get("Idempotency-Key"))
	a, ok := f.answers[r.Method+" "+r.URL.Path]
	if !ok || r.Header.Get("Authorization") != "Bearer the-token" {
		a = answer{status: http.StatusTeapot}
	}
	maps.Copy(w.Header(), a.header)
	if r.Method == http.MethodPost && a.status < 300 {
		w.Header().Set("Idempotency-Result", "created")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func newFake(t *testing.T, answers map[string]answer) (*fake, *shell) {
	t.Helper()
	f := &fake{answers: answers}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, &shell{t: t, env: map[string]string{"IDEMCTL_URL": server.URL + "/v1", "IDEMCTL_TOKEN": "the-token"}}
}

func operation(state string, rest string) string {
	return `{"id":"` + id + `","state":"` + state + `","method":"POST","route":"/v1/pay\u001b[2J\u009b","recovery":"Resume",` +
		`"fence":3,"created_at":"2026-11-29T00:00:00Z"` + rest + `}`
}

// What people and programs get is kept in files: text of a server cannot act on a terminal, and an answer is shown only if
// it is asked for.
func TestOutput(t *testing.T) {
	_, s := newFake(t, map[string]answer{
		"GET /v1/operations": {status: 200, body: "[" + operation("half_done", "") + "," + operation("unknown", "") + "]"},
		"GET /v1/operations/" + id: {status: 200, body: operation("completed",
			`,"outcome":"succeeded","answer":{"status":201,"headers":{"Location":["/x"]},"body":{"card":"4242"}},"attempts":[{"ended":"panic\r"}]`)},
		"POST /v1/operations/find": {status: 200, body: `{"operations":[` + operation("unknown", "") + `],"as":["a reference"],"whole":false}`},
	})
	for name, args := range map[string][]string{
		"list": {"list"}, "list-json": {"list", "-o", "json"}, "show": {"show", id}, "show-json": {"show", id, "-o", "json"},
		"derive": {"derive", id, "refund"}, "derive-json": {"derive", id, "refund", "--inside", "pay", "-o", "json"},
		"show-answer": {"show", id, "--answer"}, "find": {"find"}, "help": {"--help"}, "help-settle": {"settle", "--help"},
	} {
		r := s.requires(0, "ch_7", args...)
		require.NotContains(t, r.log, "\x1b")
		file := filepath.Join("testdata", name+".golden")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(r.out), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), r.out, name)
		if !strings.HasSuffix(name, "json") {
			require.NotContains(t, r.out, "\x1b")
		}
		require.Equal(t, name == "show-answer", strings.Contains(r.out, "4242"), name)
	}
}

// Programs get one JSON value of each command that asks the app, and nothing of what people are told.
func TestJSON(t *testing.T) {
	one, many := answer{status: 200, body: operation("unknown", "")}, answer{status: 200, body: "[" + operation("unknown", "") + "]"}
	_, s := newFake(t, map[string]answer{
		"GET /v1/operations": many, "GET /v1/operations/" + id: one, "POST /v1/operations/" + id + "/settle": one,
		"POST /v1/operations/" + id + "/retry": one, "POST /v1/operations/" + id + "/give-up": one, "POST /v1/keys/refusals": one,
		"POST /v1/operations/marks": one, "POST /v1/erasures": one,
		"POST /v1/operations/find": {status: 200, body: `{"operations":` + many.body + `,"as":["an id"],"whole":true}`},
	})
	why := []string{"--reason", "r", "--yes"}
	for _, args := range [][]string{
		{"list"}, {"show", id}, {"find"}, {"derive", id, "refund"}, append([]string{"mark"}, why...), append([]string{"erase"}, why...),
		append([]string{"settle", id, "--fence", "3", "--outcome", "not_applied"}, why...),
		append([]string{"withdraw", id, "--fence", "3", "--digest", "913d"}, why...),
		append([]string{"retry", id, "--fence", "3"}, why...), append([]string{"give-up", id, "--fence", "3"}, why...),
		append([]string{"refuse-keys", "--before", "2026-01-01T00:00:00Z"}, why...),
	} {
		input := id
		if args[0] == "erase" {
			input = `{"issuer":"i","subject":"s"}`
		}
		require.True(t, json.Valid([]byte(s.requires(0, input, append(args, "-o", "json")...).out)), args)
	}
}

// One proposes, and another one carries it out or withdraws it, all on the route that settles.
//
// CONTRACT X-7
func TestProposals(t *testing.T) {
	show := answer{status: 200, body: operation("unknown", `,"proposal":{"who":"olga","digest":"913d"}`)}
	f, s := newFake(t, map[string]answer{"GET /v1/operations/" + id: show, "POST /v1/operations/" + id + "/settle": {status: 202, body: show.body}})
	require.Contains(t, s.requires(0, "", "show", id).out, "913d")
	common := []string{id, "--fence", "3", "--reason", "ticket 7", "-y"}
	r := s.requires(0, "", append([]string{"settle", "--outcome", "applied", "--propose"}, common...)...)
	require.Contains(t, r.log, "Propose to settle it as applied. Its repeats get a 201 that names the operation. Another operator has to carry it out.")
	r = s.requires(0, "", append([]string{"settle", "--digest", "913d"}, common...)...)
	require.Contains(t, r.log, "Carry the proposal 913d out. A settlement is final.")
	require.Contains(t, r.log, `The proposal: {"who":"olga","digest":"913d"}`)
	r = s.requires(0, "", append([]string{"withdraw", "--digest", "913d"}, common...)...)
	require.Contains(t, r.log, "Withdraw the proposal 913d. Nothing is settled.")
	var posted []string
	for _, sent := range f.sent {
		if body, ok := strings.CutPrefix(sent, "POST /v1/operations/"+id+"/settle "); ok {
			posted = append(posted, body)
		}
	}
	require.Equal(t, []string{`{"fence":3,"reason":"ticket 7","outcome":"applied","propose":true}`,
		`{"fence":3,"reason":"ticket 7","digest":"913d"}`, `{"fence":3,"reason":"ticket 7","digest":"913d","withdraw":true}`}, posted)
}

// The key of a call is the one that the handler sends.
//
// CONTRACT X-3
func TestDerive(t *testing.T) {
	of, err := store.ParseID(id)
	require.NoError(t, err)
	s := &shell{t: t}
	r := s.requires(0, "", "derive", id, "refund")
	for _, key := range []store.DerivedKey{of.DeriveStep("refund"), of.DeriveCall("refund")} {
		require.Contains(t, r.out, key.UUID())
		require.Contains(t, r.out, key.String())
	}
	require.Contains(t, s.requires(0, "", "derive", id, "refund", "--inside", "pay").out, of.DeriveStep("refund").DeriveCall("pay").UUID())
}

// Each command has an example, and takes no key and no principal as an argument. The help says what the exit codes mean.
func TestHelp(t *testing.T) {
	s := &shell{t: t}
	c := &tool{}
	for _, command := range c.root().Commands() {
		require.NotEmpty(t, command.Example, command.Name())
		require.Contains(t, s.requires(0, "", command.Name(), "--help").out, "Examples:")
		for _, secret := range []string{"key", "principal", "issuer", "subject", "tenant", "client", "token"} {
			require.Nil(t, command.Flags().Lookup(secret), command.Name())
		}
	}
	require.Contains(t, s.requires(0, "", "--help").out, "  7  it is not known whether it was done")
}

// Bad input is refused with the name of the field and what to do, and nothing is sent.
func TestBadInput(t *testing.T) {
	f, s := newFake(t, nil)
	settle := func(rest ...string) []string { return append([]string{"settle", id}, rest...) }
	failing := filepath.Join(t.TempDir(), "answer.json")
	require.NoError(t, os.WriteFile(failing, []byte(`{"id":`), 0o600))
	for _, test := range []struct {
		input string
		args  []string
		want  string
	}{
		{"", []string{"bogus"}, "unknown command"},
		{"", []string{"list", "--bogus"}, "unknown flag"},
		{"", []string{"list", "-o", "yaml"}, "--output:"},
		{"", []string{"list", "--state", "running"}, "--state:"},
		{"", []string{"list", "--limit", "501"}, "--limit:"},
		{"", []string{"list", "--after", "9f2c"}, "--after:"},
		{"", []string{"show", "../keys"}, "ID:"},
		{"", []string{"show"}, "accepts 1 arg"},
		{"", []string{"derive", id, " "}, "NAME:"},
		{"", []string{"derive", "9f2c", "refund"}, "ID:"},
		{"", settle("--outcome", "applied", "--reason", "r"), "--fence:"},
		{"", settle("--outcome", "applied", "--fence", "1", "--reason", " "), "--reason:"},
		{"", settle("--fence", "1", "--reason", "r"), "--outcome:"},
		{"", settle("--fence", "1", "--reason", "r", "--outcome", "applied", "--undone", "u"), "--undone:"},
		{"", settle("--fence", "1", "--reason", "r", "--outcome", "not_applied", "--answer-file", failing), "--answer-file:"},
		{"", settle("--fence", "1", "--reason", "r", "--outcome", "applied", "--answer-file", failing), "--answer-file:"},
		{"", settle("--fence", "1", "--reason", "r", "--outcome", "applied", "--answer-file", "none"), "--answer-file:"},
		{"", settle("--fence", "1", "--reason", "r", "--outcome", "applied", "--digest", "d"), "--digest:"},
		{"", settle("--fence", "1", "--reason", "r", "--propose", "--digest", "d"), "--digest:"},
		{"", settle("--fence", "1", "--reason", "r", "--propose"), "--outcome:"},
		{"", settle("--reason", "r", "--digest", "d"), "--fence:"},
		{"", []string{"withdraw", id, "--fence", "1", "--reason", "r"}, "--digest:"},
		{"", []string{"retry", id, "--fence", "1"}, "--reason:"},
		{"", []string{"find"}, "the standard input is empty"},
		{"{", []string{"find", "--by-key"}, "the standard input:"},
		{`{"key":"secret-key"}`, []string{"find", "--by-key"}, "the standard input:"},
		{`{"principal":{"sub":"secret-key"},"key":"k"}`, []string{"find", "--by-key"}, "the standard input:"},
		{"", []string{"find", "--by-key", "--call", "c"}, "--call:"},
		{"", []string{"refuse-keys", "--before", "yesterday", "--reason", "r", "-y"}, "--before:"},
		{"", []string{"refuse-keys", "--before", "2026-01-01T00:00:00Z", "-y"}, "--reason:"},
		{"", []string{"refuse-keys", "--before", "2026-01-01T00:00:00Z", "--reason", "r"}, "--yes:"},
		{"", []string{"mark", "--reason", "r", "-y"}, "ID:"},
		{strings.Repeat(id+"\n", 501), []string{"mark", "--reason", "r", "-y"}, "at most 500"},
		{id + "\nxx", []string{"mark", "--reason", "r", "-y"}, "ID 2:"},
		{`{"issuer":"i"} {}`, []string{"erase", "--reason", "r", "-y"}, "the standard input:"},
		{"", []string{"list", "--token-file", "none"}, "IDEMCTL_TOKEN_FILE"},
		{"", []string{"list", "--url", "shop.example/v1"}, "IDEMCTL_URL"},
		{"", []string{"list", "--url", "http://me:secret-key@shop.example"}, "IDEMCTL_URL"},
		{"", []string{"status"}, "DATABASE_URL:"},
	} {
		r := s.requires(misused, test.input, test.args...)
		require.Contains(t, r.log, test.want)
		require.NotContains(t, r.log, "secret-key")
		require.Empty(t, r.out)
	}
	s.env["IDEMCTL_TOKEN"] = "two words"
	s.requires(misused, "", "list")
	s.env["IDEMCTL_TOKEN"] = ""
	s.requires(misused, "", "list")
	require.Empty(t, f.sent)
}

// Who sits at a terminal is told what will be done, and asked. A key that is typed is not shown.
func TestTerminal(t *testing.T) {
	f, s := newFake(t, map[string]answer{
		"GET /v1/operations/" + id:             {status: 200, body: operation("half_done", "")},
		"POST /v1/operations/" + id + "/retry": {status: 202, body: operation("half_done", "")},
		"POST /v1/operations/find":             {status: 200, body: `{"operations":[],"as":["a client's key"],"whole":true}`},
	})
	s.terminal, s.secret = true, "key-7"
	retry := []string{"retry", id, "--fence", "3", "--reason", "it is back"}
	for _, answer := range []string{"", "\n", "no\n", "y\n"} {
		r := s.requires(cancelled, answer, retry...)
		require.Contains(t, r.log, "Operation "+id)
		require.Contains(t, r.log, "try a half-done operation again now")
	}
	require.NotContains(t, strings.Join(f.sent, "\n"), "POST")
	s.requires(0, "yes\n", retry...)
	require.Equal(t, "POST /v1/operations/"+id+`/retry {"fence":3,"reason":"it is back"}`, f.sent[len(f.sent)-1])
	require.NotEmpty(t, f.keys[len(f.keys)-1])

	retry[3] = "2" // another attempt has come since
	require.Contains(t, s.requires(refused, "yes\n", retry...).log, "--fence: the operation has fence 3 now")

	r := s.requires(absent, "https://issuer.example\ncustomer-1\n\n\n", "find", "--by-key")
	require.NotContains(t, r.log, "key-7")
	require.Equal(t, `POST /v1/operations/find {"principal":{"issuer":"https://issuer.example","subject":"customer-1"},"key":"key-7"}`,
		f.sent[len(f.sent)-1])
}

// The exit code says what an answer means.
func TestExitCodes(t *testing.T) {
	marked := http.Header{"Idempotency-Problem": {"x"}}
	for _, test := range []struct {
		answer
		code int
		want string
	}{
		{answer{status: 401, body: `{"code":"unauthenticated","detail":"no"}`, header: marked}, denied, "401 unauthenticated: no"},
		{answer{status: 403, body: `{"code":"forbidden","title":"Not allowed"}`, header: marked}, denied, "Not allowed"},
		{answer{status: 404, body: `{"code":"operation_not_found"}`}, absent, "404"},
		{answer{status: 404, body: `<html>`}, failed, "is --url the address"},
		{answer{status: 409, body: `{"code":"not_settleable","detail":"its time\u001b is not over"}`}, refused, `its time\x1b is`},
		{answer{status: 302, header: http.Header{"Location": {"http://elsewhere.example"}}}, failed, "302"},
		{answer{status: 503, body: `{"code":"store_unavailable"}`}, failed, "503"},
		{answer{status: 200, body: `<html>login</html>`}, failed, "is --url the address"},
	} {
		_, s := newFake(t, map[string]answer{"GET /v1/operations/" + id: test.answer})
		require.Contains(t, s.requires(test.code, "", "show", id).log, test.want)
	}
	// A command: an answer that the guards have not made does not say what became of it.
	for _, test := range []struct {
		answer
		code int
	}{
		{answer{status: 409, body: `{"code":"not_settleable"}`, header: http.Header{"Idempotency-Result": {"not_applied"}}}, refused},
		{answer{status: 403, body: `{"code":"forbidden"}`, header: marked}, denied},
		{answer{status: 405}, uncertain},
		{answer{status: 302, header: http.Header{"Location": {"http://elsewhere.example"}}}, uncertain},
	} {
		f, s := newFake(t, map[string]answer{"POST /v1/keys/refusals": test.answer})
		s.requires(test.code, "", "refuse-keys", "--before", "2026-01-01T00:00:00Z", "--reason", "r", "--yes")
		require.Len(t, f.sent, 1)
	}
}
