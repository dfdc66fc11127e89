package idemclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
)

// CONTRACT C-1
func TestKeyOfAnIntent(t *testing.T) {
	inBubble(t, "one key in all attempts and token refreshes", func(t *testing.T) {
		w := on(breaks(errReset), says(503), says(201, created, "", "paid"))
		refreshes := 0
		client := newClient(t, idemclient.Config{Transport: w, Authorize: func(r *http.Request) error {
			refreshes++
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", refreshes))
			return nil
		}})
		r := payment(t, address)
		before := r.Header.Clone()
		res := succeeded(t)(client.Do(t.Context(), "order-7", r))
		require.Equal(t, "paid", text(t, res))
		require.Equal(t, idemclient.Result{Attempts: 3, Ends: true}, idemclient.ResultOf(res))
		for i, s := range w.sent {
			require.Equal(t, w.sent[0].key, s.key)
			require.Equal(t, fmt.Sprint("Bearer ", i+1), s.token)
			require.Zero(t, strings.Compare(payload, s.body), "byte for byte")
			require.EqualValues(t, len(s.body), s.length)
		}
		require.Regexp(t, "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", w.sent[0].key)
		require.Equal(t, before, r.Header, "the caller's request is not changed")
		require.Empty(t, res.Request.Header.Get("Idempotency-Key"), "nor does the answer's show the key")
		require.Nil(t, res.Request.Body)
	})
	t.Run("the same intent has the same key", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		for range 2 { // although it has an answer
			succeeded(t)(pay(t, client, "order-7"))
		}
		succeeded(t)(pay(t, client, "order-8"))
		require.Equal(t, w.sent[0].key, w.sent[1].key)
		require.NotEqual(t, w.sent[0].key, w.sent[2].key)
	})
	t.Run("authorize cannot change the key", func(t *testing.T) {
		w := on(says(201, created))
		client := newClient(t, idemclient.Config{Transport: w, Authorize: func(r *http.Request) error {
			require.NotEmpty(t, r.Header.Get("Idempotency-Key"), "so that it can be signed")
			r.Header.Set("Idempotency-Key", "another")
			return nil
		}})
		require.ErrorIs(t, failed(t)(pay(t, client, "order-7")), idemclient.ErrOtherKey)
		require.Empty(t, w.sent)

		noToken := errors.New("no token")
		client = newClient(t, idemclient.Config{Transport: w, Authorize: func(*http.Request) error { return noToken }})
		e := failed(t)(pay(t, client, "order-7"))
		require.ErrorIs(t, e, noToken)
		require.False(t, e.Uncertain)
		require.Empty(t, w.sent)
	})
}

// CONTRACT C-1, M-6
func TestTheSameIntentAtOnce(t *testing.T) {
	b := newBank(t, core.Config{}, nil)
	journal := intents.NewMemoryJournal()
	var all sync.WaitGroup
	for range 2 { // two processes
		client := newClient(t, idemclient.Config{Transport: ownTransport(t), Journal: journal, FirstPause: 1e6})
		for range 8 {
			all.Go(func() {
				res, err := client.Do(context.WithoutCancel(t.Context()), "order-7", payment(t, b.URL+"/v1/payments"))
				if err != nil {
					t.Error(err)
					return
				}
				if body := text(t, res); body != "payment 1" {
					t.Error(body)
				}
			})
		}
	}
	all.Wait()
	require.Len(t, b.keys(), 1)
}

// CONTRACT C-1
func TestWhatIsSent(t *testing.T) {
	t.Run("nothing is sent without an intent", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		for _, intent := range []string{"", "a\nb", "a\x00b", "a\xffb", strings.Repeat("x", 256)} {
			e := failed(t)(pay(t, client, intent))
			require.ErrorIs(t, e, intents.ErrNoIntent)
			require.ErrorContains(t, e, "nothing was sent")
			_, err := client.Key(t.Context(), intent)
			require.ErrorIs(t, err, intents.ErrNoIntent)
		}
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, "SETTLE"} {
			r := payment(t, address)
			r.Method = method
			_, err := (&http.Client{Transport: client}).Do(r)
			require.ErrorIs(t, err, intents.ErrNoIntent, method)
		}
		require.Empty(t, w.sent)
	})
	t.Run("safe methods pass untouched", func(t *testing.T) {
		for _, method := range []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace} {
			w := on(says(503, "", "the answer itself"))
			client := newClient(t, idemclient.Config{Transport: w, Authorize: func(*http.Request) error { panic("not asked") }})
			r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
			require.NoError(t, err)
			res := succeeded(t)(client.Do(t.Context(), "", r))
			require.Equal(t, 503, res.StatusCode)
			require.Equal(t, "the answer itself", text(t, res))
			require.Len(t, w.sent, 1)
			require.Empty(t, w.sent[0].key)
		}
	})
	// A journal that does not answer stops the command, and one that does not take its end does not stop the answer.
	t.Run("a journal that fails", func(t *testing.T) {
		w := on(says(201, created))
		down := errors.New("the database is down")
		var told []idemclient.Try
		cfg := idemclient.Config{Transport: w, Journal: &failingJournal{begin: down},
			Observe: func(_ context.Context, a idemclient.Try) { told = append(told, a) }}
		e := failed(t)(pay(t, newClient(t, cfg), "order-7"))
		require.ErrorIs(t, e, down)
		require.Zero(t, e.Attempts)
		require.Empty(t, w.sent)
		_, err := newClient(t, cfg).Key(t.Context(), "order-7")
		require.ErrorIs(t, err, down)

		cfg.Journal = &failingJournal{end: down}
		res := succeeded(t)(pay(t, newClient(t, cfg), "order-7"))
		require.Equal(t, 201, res.StatusCode)
		require.Len(t, told, 1)
		require.ErrorIs(t, told[0].Err, down)
	})
}

// CONTRACT C-1
func TestCommandOfAnIntent(t *testing.T) {
	t.Run("another command under the same intent is not sent", func(t *testing.T) {
		client := newClient(t, idemclient.Config{Transport: on(says(201, created))})
		succeeded(t)(pay(t, client, "order-7"))

		same := payment(t, "http://BANK.example/v1/payments")
		same.Body, same.GetBody = nil, nil
		setBody(same, "{ \"amount\" : \"12.50\" }") // the same by meaning (H-2)
		succeeded(t)(client.Do(t.Context(), "order-7", same))

		for what, change := range map[string]func(r *http.Request){
			"amount": func(r *http.Request) { setBody(r, `{"amount":"12.51"}`) },
			"path":   func(r *http.Request) { r.URL.Path += "/2" },
			"query":  func(r *http.Request) { r.URL.RawQuery = "a=b" },
			"method": func(r *http.Request) { r.Method = http.MethodPut },
			"host":   func(r *http.Request) { r.Host = "other.example" },
			"place":  func(r *http.Request) { r.Host, r.URL.Host = "", "other.example" },
			"type":   func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		} {
			w, client := onWire(t, says(201, created))
			succeeded(t)(pay(t, client, "order-7"))
			r := payment(t, address)
			change(r)
			e := failed(t)(client.Do(t.Context(), "order-7", r))
			require.ErrorIs(t, e, idemclient.ErrKeyReused, what)
			require.Zero(t, e.Attempts, what)
			require.Len(t, w.sent, 1, what)
		}
	})
	// A key is known only where it was sent. The same host under another address is named in the request's Host.
	t.Run("the host belongs to the command", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		to := func(host, address string) error {
			r := payment(t, "http://"+address+"/v1/payments")
			r.Host = host
			_, err := client.Do(t.Context(), "order-7", r)
			return err
		}
		require.NoError(t, to("", "bank.example"))
		require.NoError(t, to("bank.example", "10.0.0.1:8080"))
		require.NoError(t, to("BANK.example", "10.0.0.2:8080"))
		for host, address := range map[string]string{
			"": "other.example", "other.example": "bank.example", "tank.example": "bank.example", "bank.example:8080": "bank.example",
		} {
			err := to(host, address)
			require.ErrorIs(t, err, idemclient.ErrKeyReused, "%q at %s", host, address)
			require.ErrorContains(t, err, "if the server's address has changed, set the request's Host to the old one")
		}
		require.Len(t, w.sent, 3)
	})
	t.Run("the key that a request brings", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		bring := func(intent string, lines ...string) error {
			r := payment(t, address)
			r.Header["Idempotency-Key"] = lines
			_, err := client.Do(t.Context(), intent, r)
			return err
		}
		require.NoError(t, bring("order-7", "my-own-key"))
		require.NoError(t, bring("order-7", "my-own-key"))
		require.NoError(t, bring("order-7"))
		require.Equal(t, []string{"my-own-key", "my-own-key", "my-own-key"}, []string{w.sent[0].key, w.sent[1].key, w.sent[2].key})
		for what, lines := range map[string][]string{
			"another": {"another-key"}, "two": {"my-own-key", "my-own-key"}, "empty": {""}, "long": {strings.Repeat("x", 256)},
			"blank": {"a b"}, "list": {"a,b"},
		} {
			require.ErrorIs(t, bring("order-7", lines...), idemclient.ErrOtherKey, what)
		}
		require.Len(t, w.sent, 3)

		require.NoError(t, bring("order-8"))
		r := payment(t, address)
		setBody(r, "another command")
		r.Header.Set("Idempotency-Key", "another-key")
		succeeded(t)(client.Do(t.Context(), "order-9", payment(t, address)))
		_, err := client.Do(t.Context(), "order-9", r)
		require.ErrorIs(t, err, idemclient.ErrOtherKey)
		planned(t)(client.Key(t.Context(), "order-10"))
		_, err = client.Do(t.Context(), "order-10", r)
		require.ErrorIs(t, err, idemclient.ErrOtherKey)
		require.NoError(t, bring("order-10"), "what was refused is not the intent's command")
	})
}

type failingJournal struct{ begin, find, end error }

func (j *failingJournal) Begin(_ context.Context, e intents.Entry) (intents.Entry, error) {
	e.Key = intents.NewKey()
	return e, j.begin
}

func (j *failingJournal) Find(context.Context, string) (intents.Entry, bool, error) {
	return intents.Entry{}, false, j.find
}

func (j *failingJournal) End(context.Context, string) error { return j.end }

// CONTRACT C-2
func TestObserveIsToldOfEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []idemclient.Try
		client := newClient(t, idemclient.Config{
			Transport: on(breaks(errReset), problem(core.CodeInFlight), says(201, created, "Idempotent-Replayed: true")),
			Observe:   func(_ context.Context, a idemclient.Try) { told = append(told, a) },
		})
		res := succeeded(t)(pay(t, client, "order-7"))
		require.Equal(t, idemclient.Result{Attempts: 3, Replayed: true, Ends: true}, idemclient.ResultOf(res))
		for i := range told {
			require.Equal(t, i < 2, told[i].Retry)
			require.Equal(t, i < 2, told[i].Pause > 0)
			told[i].Pause = 0
		}
		require.Equal(t, []idemclient.Try{
			{Intent: "order-7", Number: 1, Err: errReset, Retry: true},
			{Intent: "order-7", Number: 2, Status: 409, Code: core.CodeInFlight, Err: idemclient.ErrInFlight, Retry: true},
			{Intent: "order-7", Number: 3, Status: 201, Replayed: true},
		}, told)
	})
	require.Zero(t, idemclient.ResultOf(nil))
	require.Zero(t, idemclient.ResultOf(&http.Response{}))
}

// CONTRACT C-4, C-1, C-6
func TestIntentsInTheJournal(t *testing.T) {
	// Whose first attempt it is knows that nothing was carried out before; a plan before it changes nothing of that.
	t.Run("the first attempt of a planned intent is certain", func(t *testing.T) {
		client := newClient(t, idemclient.Config{Transport: on(busy), Direct: true, MaxAttempts: 1})
		planned(t)(client.Key(t.Context(), "order-7"))
		require.False(t, failed(t)(pay(t, client, "order-7")).Uncertain)
		require.True(t, failed(t)(pay(t, client, "order-7")).Uncertain, "another process may have sent it meanwhile")
	})
	t.Run("an intent that its caller has ended", func(t *testing.T) {
		w, journal := on(says(201, created)), callersJournal{intents.NewMemoryJournal()}
		client := newClient(t, idemclient.Config{Transport: w, Journal: journal, CallerEnds: true})
		for range 2 { // its row was not written
			succeeded(t)(pay(t, client, "order-7"))
		}
		require.NoError(t, journal.End(t.Context(), "order-7"))
		e := failed(t)(pay(t, client, "order-7"))
		require.ErrorIs(t, e, idemclient.ErrEnded)
		require.True(t, e.Uncertain, "an earlier sending may have been carried out behind that")
		require.Zero(t, e.Attempts)
		ctx, _ := inHandler(t)
		require.ErrorIs(t, failed(t)(client.Do(ctx, "order-7", payment(t, address))), idemclient.ErrEnded)
		other := changed(t, func(r *http.Request) { setBody(r, "another command") })
		require.ErrorIs(t, failed(t)(client.Do(t.Context(), "order-7", other)), idemclient.ErrKeyReused)
		require.Len(t, w.sent, 2)

		succeeded(t)(pay(t, newClient(t, idemclient.Config{Transport: w, Journal: journal}), "order-7"))
		require.Len(t, w.sent, 3, "a client that ends its intents itself gets the replay")
	})
	t.Run("a journal without a key", func(t *testing.T) {
		w := on(says(201, created))
		require.ErrorContains(t, failed(t)(pay(t, newClient(t, idemclient.Config{Transport: w, Journal: keyless{}}), "order-7")), "without a key")
		require.Empty(t, w.sent)
	})
}

// callersJournal is a journal in which callers end their intents.
type callersJournal struct{ *intents.MemoryJournal }

type keyless struct{ *failingJournal }

func (keyless) Begin(_ context.Context, e intents.Entry) (intents.Entry, error) { return e, nil }

func setBody(r *http.Request, body string) {
	r.Body = io.NopCloser(strings.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	r.ContentLength = int64(len(body))
}

// closing is a body that can be read once, and tells whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// CONTRACT C-2
func TestABodyThatCannotBeRewoundIsNotSent(t *testing.T) {
	once := func() (*http.Request, *closing) {
		r := payment(t, address)
		body := &closing{Reader: strings.NewReader("read me once")}
		r.Body, r.GetBody, r.ContentLength = body, nil, -1
		return r, body
	}
	w := on(says(503), says(201, created))
	r, body := once()
	client := newClient(t, idemclient.Config{Transport: w})
	require.ErrorIs(t, failed(t)(client.Do(t.Context(), "order-7", r)), idemclient.ErrNotRewindable)
	require.True(t, body.closed)
	require.Empty(t, w.sent)

	r, _ = once()
	client = newClient(t, idemclient.Config{Transport: w, MaxBuffer: 11})
	e := failed(t)(client.Do(t.Context(), "order-7", r))
	require.ErrorIs(t, e, idemclient.ErrNotRewindable)
	require.ErrorContains(t, e, "above Config.MaxBuffer (11 bytes)")
	require.Empty(t, w.sent)

	synctest.Test(t, func(t *testing.T) { // where the caller asks for it
		r, body := once()
		client := newClient(t, idemclient.Config{Transport: w, MaxBuffer: 12})
		succeeded(t)(client.Do(t.Context(), "order-7", r))
		require.True(t, body.closed)
		require.Len(t, w.sent, 2)
		for _, s := range w.sent {
			require.Equal(t, "read me once", s.body)
			require.EqualValues(t, 12, s.length)
		}
	})
}

// CONTRACT C-2
func TestBodies(t *testing.T) {
	t.Run("a body that cannot be read is not sent", func(t *testing.T) {
		w, client := onWire(t, says(201, created))
		gone := errors.New("disk gone")
		for what, change := range map[string]func(r *http.Request){
			"GetBody fails": func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, gone } },
			"read fails": func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) {
					return io.NopCloser(io.MultiReader(strings.NewReader("12"), failing{gone})), nil
				}
			},
		} {
			r := payment(t, address)
			change(r)
			require.ErrorIs(t, failed(t)(client.Do(t.Context(), "order-7", r)), gone, what)
		}
		r := payment(t, address)
		r.ContentLength = 1000 // a truncated file, say: a part of a command is none
		require.ErrorContains(t, failed(t)(client.Do(t.Context(), "order-7", r)), "ContentLength of 1000 and a body of 18 bytes")
		require.Empty(t, w.sent)
	})
	// GetBody is asked once: the same bytes go out in every attempt, even where the caller's buffer changes meanwhile.
	inBubble(t, "the body is the same in every attempt", func(t *testing.T) {
		buffer := []byte(`{"amount":"12.50"}`)
		w := on(func(*http.Request) (*http.Response, error) {
			copy(buffer, `{"amount":"99`)
			return nil, errReset
		}, says(201, created))
		r := payment(t, address)
		setBody(r, "")
		r.ContentLength = int64(len(buffer))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(buffer))), nil }
		succeeded(t)(newClient(t, idemclient.Config{Transport: w}).Do(t.Context(), "order-7", r))
		require.Equal(t, w.sent[0].body, w.sent[1].body)
	})
	t.Run("a command without a body", func(t *testing.T) {
		w, client := onWire(t, says(204, created))
		for i, body := range []io.ReadCloser{nil, http.NoBody} {
			succeeded(t)(client.Do(t.Context(), "cancel", &http.Request{Method: http.MethodDelete, URL: payment(t, address).URL, Body: body}))
			require.Zero(t, w.sent[i].length)
			require.NotEmpty(t, w.sent[i].key)
		}
		require.ErrorContains(t, failed(t)(client.Do(t.Context(), "nowhere", &http.Request{Method: http.MethodPost})), "names no host")
	})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
