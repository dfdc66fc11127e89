package idemclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs a subtest in a bubble of testing/synctest: time passes there as soon as everybody waits.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// line is a transport in memory: it answers as it was told, and remembers what was sent and when.
type line struct {
	mu      sync.Mutex
	answers []func(*http.Request) (*http.Response, error) // the last one answers all further attempts
	sent    []sent
}

type sent struct {
	at     time.Time
	method string
	key    string
	token  string
	body   string
	length int64
}

func (w *line) RoundTrip(r *http.Request) (*http.Response, error) {
	s := sent{at: time.Now(), method: r.Method, key: r.Header.Get("Idempotency-Key"), token: r.Header.Get("Authorization"),
		length: r.ContentLength}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		s.body = string(body)
	}
	w.mu.Lock()
	answer := w.answers[min(len(w.sent), len(w.answers)-1)]
	w.sent = append(w.sent, s)
	w.mu.Unlock()
	return answer(r)
}

// pauses are the times between the attempts.
func (w *line) pauses() (pauses []time.Duration) {
	for i := 1; i < len(w.sent); i++ {
		pauses = append(pauses, w.sent[i].at.Sub(w.sent[i-1].at))
	}
	return pauses
}

// says answers with a status, header lines "Name: value", and behind an empty line a body.
func says(status int, lines ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		header, body := http.Header{}, ""
		for i, line := range lines {
			if line == "" {
				body = strings.Join(lines[i+1:], "\n")
				break
			}
			name, value, _ := strings.Cut(line, ": ")
			header.Add(name, value)
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// created is how a server of this library marks the first answer to a command (M-3).
const created = "Idempotency-Result: created"

// problem answers as the guards do.
func problem(code core.Code, lines ...string) func(*http.Request) (*http.Response, error) {
	p := core.NewProblem(code, "a detail")
	p.Operation = operation
	reply := p.Reply()
	for name := range reply.Header {
		lines = append(lines, name+": "+reply.Header.Get(name))
	}
	return says(reply.Status, append(lines, "", string(reply.Body))...)
}

// busy refuses as the guards do, before anything is run.
var busy = problem(core.CodeTooManyOpen)

// relayed answers as a handler does that passes on the problem of another service: the guards drop the header.
func relayed(code core.Code, lines ...string) func(*http.Request) (*http.Response, error) {
	answer := problem(code, lines...)
	return func(r *http.Request) (*http.Response, error) {
		res, err := answer(r)
		res.Header.Del(wire.HeaderProblem)
		return res, err
	}
}

// unguarded is the profile of a server that does not mark its answers.
func unguarded() idemclient.Provider {
	p := idemclient.Standard()
	p.Definite = idemclient.Succeeded
	return p
}

const operation = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// breaks ends an attempt with an error of the network.
func breaks(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

var errReset = errors.New("connection reset by peer")

// hangs never answers.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func on(answers ...func(*http.Request) (*http.Response, error)) *line { return &line{answers: answers} }

func newClient(t *testing.T, cfg idemclient.Config) *idemclient.Client {
	t.Helper()
	client, err := idemclient.New(cfg)
	require.NoError(t, err)
	return client
}

// onWire is a client and the transport that it has.
func onWire(t *testing.T, answers ...func(*http.Request) (*http.Response, error)) (*line, *idemclient.Client) {
	t.Helper()
	w := on(answers...)
	return w, newClient(t, idemclient.Config{Transport: w})
}

// payment is a money command.
func payment(t *testing.T, url string) *http.Request {
	t.Helper()
	// Its context is not the one of Do.
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader(payload))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return r
}

const payload = `{"amount":"12.50"}`

const address = "http://bank.example/v1/payments"

// pay sends the payment of an intent.
func pay(t *testing.T, client *idemclient.Client, intent string) (*http.Response, error) {
	t.Helper()
	return client.Do(t.Context(), intent, payment(t, address))
}

// failed returns a function for the error of a call, which must be the client's own: failed(t)(client.Do(…)).
func failed(t *testing.T) func(res *http.Response, err error) *idemclient.Error {
	return func(res *http.Response, err error) *idemclient.Error {
		t.Helper()
		require.Error(t, err)
		require.Nil(t, res)
		e, ok := errors.AsType[*idemclient.Error](err)
		require.True(t, ok, "%T: %v", err, err)
		return e
	}
}

// succeeded returns a function for the answer of a call that succeeds: succeeded(t)(client.Do(…)).
func succeeded(t *testing.T) func(res *http.Response, err error) *http.Response {
	return func(res *http.Response, err error) *http.Response {
		t.Helper()
		require.NoError(t, err)
		return res
	}
}

// planned is the same for Key.
func planned(t *testing.T) func(key string, err error) string {
	return func(key string, err error) string {
		t.Helper()
		require.NoError(t, err)
		return key
	}
}

// found is the same for Lookup.
func found(t *testing.T) func(o *idemclient.Operation, err error) *idemclient.Operation {
	return func(o *idemclient.Operation, err error) *idemclient.Operation {
		t.Helper()
		require.NoError(t, err)
		return o
	}
}

// hasEnded tells whether the intent order-7 has ended.
func hasEnded(t *testing.T, journal intents.Journal) bool {
	t.Helper()
	entry, _, err := journal.Find(t.Context(), "order-7")
	require.NoError(t, err)
	return entry.Ended
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return string(body)
}

// bank is a server of this library over real HTTP.
type bank struct {
	*httptest.Server

	mu     sync.Mutex
	booked []string // keys
}

// newBank serves a guarded POST /v1/payments. book runs in the handler, after the booking; nil does nothing.
func newBank(t *testing.T, cfg core.Config, book http.HandlerFunc) *bank {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Policy.Recovery == 0 {
		cfg.Policy.Recovery = core.Park
	}
	idem, err := core.New(cfg)
	require.NoError(t, err)
	b := &bank{}
	caller := core.Principal{Issuer: "https://issuer.example", Subject: "caller-1"}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_ = operations.New(idem).Serve(operations.Own, r, caller, "").WriteTo(w)
			return
		}
		r, reply := idem.Admit(r, r.URL.Path, caller)
		if reply == nil {
			var attempt *core.Attempt
			if attempt, reply = idem.Begin(r, r.URL.Path, caller); attempt != nil {
				b.book(attempt, w, book)
				reply = attempt.Finish()
			}
		}
		_ = reply.WriteTo(w)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *bank) book(attempt *core.Attempt, w http.ResponseWriter, then http.HandlerFunc) {
	r := attempt.Request()
	b.mu.Lock()
	b.booked = append(b.booked, r.Header.Get("Idempotency-Key"))
	number := len(b.booked)
	b.mu.Unlock()
	capture := attempt.Capture(w)
	if then != nil {
		then(capture, r)
		return
	}
	capture.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(capture, "payment %d", number)
}

func (b *bank) keys() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.booked
}

// ownTransport is a transport whose connections end with the test.
func ownTransport(t *testing.T) *http.Transport {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// quiet is the log of a server whose complaints are expected.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
