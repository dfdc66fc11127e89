package idemclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemclient"
	"github.com/auth19/idem/core/intents"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/internal/cutproxy"
)

// through returns a client's configuration and the address of the bank behind a proxy.
func through(t *testing.T, b *bank, plan cutproxy.Plan) (idemclient.Config, string, *cutproxy.Proxy) {
	t.Helper()
	proxy, err := cutproxy.New(b.Listener.Addr().String(), plan)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	cfg := idemclient.Config{Transport: ownTransport(t), FirstPause: time.Millisecond, MaxPause: 4 * time.Millisecond,
		MaxAttempts: 1000}
	return cfg, "http://" + proxy.Addr() + "/v1/payments", proxy
}

// The connection is cut after every byte of the answer, and then of the request. Half of an answer is never taken for
// the answer, and an answer that did not arrive is replayed.
//
// CONTRACT C-1, C-2, M-3
func TestConnectionsThatAreCut(t *testing.T) {
	for name, direction := range map[string]cutproxy.Direction{"answer": cutproxy.ToClient, "request": cutproxy.ToServer} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, core.Config{}, nil)
			whole := false
			var after atomic.Int64
			cfg, url, _ := through(t, b, func(int) cutproxy.Fate { return cutproxy.Fate{Cut: direction, After: after.Add(1)} })
			cfg.Transport.(*http.Transport).DisableKeepAlives = true // one attempt, one connection
			// A request that was cut leaves nothing; each answer that was cut has its booking. Cut after cut, the intent ends.
			client := newClient(t, cfg)
			for intent := 1; !whole; intent++ {
				res := succeeded(t)(client.Do(t.Context(), fmt.Sprint("order-", intent), payment(t, url)))
				require.Equal(t, fmt.Sprint("payment ", intent), text(t, res))
				whole = idemclient.ResultOf(res).Attempts == 1
				require.Len(t, b.keys(), intent)
			}
			require.Greater(t, after.Load(), int64(150))
		})
	}
}

// CONTRACT C-2, M-6
func TestAProxyThatSendsEverythingTwice(t *testing.T) {
	b := newBank(t, core.Config{}, nil)
	cfg, url, _ := through(t, b, func(int) cutproxy.Fate { return cutproxy.Fate{Twice: true} })
	client := newClient(t, cfg)
	for i := range 20 {
		res := succeeded(t)(client.Do(t.Context(), fmt.Sprint("order-", i), payment(t, url)))
		require.Equal(t, http.StatusCreated, res.StatusCode)
	}
	require.Len(t, b.keys(), 20)
}

// The server's own answers, from its guards.
//
// CONTRACT C-2, M-1, M-2, M-4
func TestTheLibrarysOwnServer(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		b := newBank(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-leave
			w.WriteHeader(http.StatusCreated)
		})
		journal := intents.NewMemoryJournal()
		first := newClient(t, idemclient.Config{Transport: ownTransport(t), Journal: journal})
		second := newClient(t, idemclient.Config{Transport: ownTransport(t), Journal: journal, MaxRetryAfter: time.Second})
		var all sync.WaitGroup
		all.Go(func() {
			res, err := first.Do(context.WithoutCancel(t.Context()), "order-7", payment(t, b.URL+"/v1/payments"))
			if err != nil || idemclient.ResultOf(res).Replayed {
				t.Error(res, err)
			}
		})
		<-entered
		res, err := second.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments"))
		close(leave)
		all.Wait()
		e := failed(t)(res, err)
		require.ErrorIs(t, e, idemclient.ErrInFlight)
		require.ErrorIs(t, e, idemclient.ErrGivenUp)
		require.Equal(t, core.CodeInFlight, e.Code)
		require.Equal(t, 2*time.Second, e.RetryAfter)
	})
	t.Run("outcome unknown", func(t *testing.T) {
		b := newBank(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		client := newClient(t, idemclient.Config{Transport: ownTransport(t)})
		require.ErrorIs(t, failed(t)(client.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments"))), idemclient.ErrOutcomeUnknown)
		e := failed(t)(client.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments")))
		require.ErrorIs(t, e, idemclient.ErrOutcomeUnknown)
		_, err := core.ParseID(e.Operation)
		require.NoError(t, err)
		require.Len(t, b.keys(), 1)
	})
	t.Run("key reused", func(t *testing.T) { reusesAKey(t, core.Config{}, http.StatusConflict) })
	t.Run("key reused, by the IETF's draft", func(t *testing.T) { // P-2: the code decides, not the status
		reusesAKey(t, core.Config{Profile: core.IETF, PolicyURL: "https://bank.example/"}, http.StatusUnprocessableEntity)
	})
	t.Run("a refusal is an answer", func(t *testing.T) {
		b := newBank(t, core.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) })
		client := newClient(t, idemclient.Config{Transport: ownTransport(t)})
		for _, replayed := range []bool{false, true} {
			res := succeeded(t)(client.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments")))
			require.Equal(t, http.StatusPaymentRequired, res.StatusCode)
			require.Equal(t, idemclient.Result{Attempts: 1, Replayed: replayed, Ends: true}, idemclient.ResultOf(res))
		}
	})
}

// Two callers who do not know of each other have the same key.
func reusesAKey(t *testing.T, cfg core.Config, status int) {
	b := newBank(t, cfg, nil)
	for i, want := range []error{nil, idemclient.ErrKeyReused} {
		client := newClient(t, idemclient.Config{Transport: ownTransport(t)})
		r := payment(t, b.URL+"/v1/payments")
		setBody(r, fmt.Sprint(i))
		r.Header.Set("Idempotency-Key", "the-same")
		res, err := client.Do(t.Context(), "order-7", r)
		require.ErrorIs(t, err, want)
		if want != nil {
			e := failed(t)(res, err)
			require.Equal(t, status, e.Status)
			require.Equal(t, 1, e.Attempts)
		}
	}
	require.Len(t, b.keys(), 1)
}

// A handler in steps refuses although a step is unfinished: the provider has charged, and its answer was lost. The refusal
// is not recorded, and the operation goes on. So it ends neither the intent nor its uncertainty.
//
// CONTRACT C-4, X-3
func TestARefusalOfAHalfDoneOperation(t *testing.T) {
	for _, status := range []int{402, 401, 404, 409, 422, 425, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var charged atomic.Int64
			b := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
				err := core.CallDo(r.Context(), "charge", func(context.Context, core.DerivedKey) error {
					if charged.Add(1) == 1 {
						return errReset
					}
					return nil
				}, core.Dedup(time.Hour))
				if err != nil {
					w.WriteHeader(status)
					return
				}
				w.WriteHeader(http.StatusCreated)
			})
			journal := intents.NewMemoryJournal()
			client := newClient(t, idemclient.Config{Transport: ownTransport(t), Journal: journal, MaxAttempts: 1})
			e := failed(t)(client.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments")))
			require.True(t, e.Uncertain)
			require.Equal(t, status, e.Status)
			if status == http.StatusTooEarly || status == http.StatusTooManyRequests {
				require.ErrorIs(t, e, idemclient.ErrGivenUp, "a repeat helps, and there is none left")
			} else {
				require.ErrorIs(t, e, idemclient.ErrOutcomeUnknown)
			}
			require.False(t, hasEnded(t, journal))

			res, err := client.Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments"))
			require.NoError(t, err, "the same intent goes on")
			require.Equal(t, http.StatusCreated, res.StatusCode)
		})
	}
}

// A release has changed the steps of a half-done operation. Repeats would only use its attempts up, and the money may have
// moved: the client does not repeat, and asks.
//
// CONTRACT C-2, C-4, X-3
func TestStepsThatHaveChanged(t *testing.T) {
	step := "charge"
	b := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
		_ = core.CallDo(r.Context(), step, func(context.Context, core.DerivedKey) error { return errReset }, core.Dedup(time.Hour))
		w.WriteHeader(http.StatusBadGateway)
	})
	cfg := idemclient.Config{Transport: ownTransport(t), Journal: intents.NewMemoryJournal(), MaxAttempts: 1}
	e := failed(t)(newClient(t, cfg).Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments")))
	require.ErrorIs(t, e, idemclient.ErrGivenUp)

	step, cfg.MaxAttempts, cfg.FirstPause = "pay", 5, time.Millisecond
	e = failed(t)(newClient(t, cfg).Do(t.Context(), "order-7", payment(t, b.URL+"/v1/payments")))
	require.ErrorIs(t, e, idemclient.ErrOutcomeUnknown)
	require.Equal(t, core.CodeStepsChanged, e.Code)
	require.True(t, e.Uncertain)
	require.Len(t, b.keys(), 2, "one run each")
}

// net/http sends a request again by itself, because it has an Idempotency-Key, if a connection that was used before breaks.
// The first of the two may have been carried out, and so the answer to the second tells nothing unless it is marked.
//
// CONTRACT C-4
func TestACommandThatItsTransportSendsTwice(t *testing.T) {
	for _, status := range []int{200, 302, 400, 401, 403, 404, 405, 413, 422} {
		for _, mark := range []string{"", wire.ResultReused} {
			t.Run(fmt.Sprint(status, mark), func(t *testing.T) {
				var commands atomic.Int64
				bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == http.MethodGet:
					case commands.Add(1) == 1: // carried out; then the process is killed
						_, _ = io.Copy(io.Discard, r.Body)
						panic(http.ErrAbortHandler)
					default:
						w.Header().Set(wire.HeaderResult, mark)
						w.WriteHeader(status)
					}
				}))
				defer bank.Close()
				journal := intents.NewMemoryJournal()
				client := newClient(t, idemclient.Config{Transport: ownTransport(t), Journal: journal})
				look, err := http.NewRequestWithContext(t.Context(), http.MethodGet, bank.URL, nil)
				require.NoError(t, err)
				res, err := client.RoundTrip(look) // leaves an idle connection
				require.NoError(t, err)
				text(t, res)

				res, err = client.Do(t.Context(), "order-7", payment(t, bank.URL))
				require.EqualValues(t, 2, commands.Load())
				entry, _, _ := journal.Find(t.Context(), "order-7")
				if mark != "" {
					require.NoError(t, err)
					require.Equal(t, idemclient.Result{Attempts: 1, Ends: true}, idemclient.ResultOf(res))
					require.True(t, entry.Ended)
					return
				}
				e := failed(t)(res, err)
				require.ErrorIs(t, e, idemclient.ErrStillUncertain)
				require.True(t, e.Uncertain)
				require.False(t, entry.Ended)
			})
		}
	}
}

// CONTRACT C-2
func TestServersThatAreNotReached(t *testing.T) {
	t.Run("nothing that was not even connected can have moved money", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		url := "http://" + listener.Addr().String()
		require.NoError(t, listener.Close())
		client := newClient(t, idemclient.Config{Transport: ownTransport(t), FirstPause: time.Millisecond, MaxAttempts: 3})
		e := failed(t)(client.Do(t.Context(), "order-7", payment(t, url)))
		require.ErrorIs(t, e, idemclient.ErrGivenUp)
		require.Equal(t, 3, e.Attempts)
		require.False(t, e.Uncertain)

		var refused *net.OpError
		require.ErrorAs(t, e, &refused)
	})
	t.Run("a server that takes no connections", func(t *testing.T) {
		transport := ownTransport(t)
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		client := newClient(t, idemclient.Config{Transport: transport, AttemptTimeout: time.Millisecond, FirstPause: time.Millisecond, MaxAttempts: 2})
		e := failed(t)(client.Do(t.Context(), "order-7", payment(t, "http://bank.example")))
		require.ErrorContains(t, e, "Config.AttemptTimeout")
		require.Equal(t, 2, e.Attempts)
		require.False(t, e.Uncertain)
	})
	t.Run("a server that cannot be trusted gets nothing, and is not asked again", func(t *testing.T) {
		reached := false
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		server.Config.ErrorLog = quiet()
		server.StartTLS()
		defer server.Close()
		client := newClient(t, idemclient.Config{Transport: ownTransport(t)})
		e := failed(t)(client.Do(t.Context(), "order-7", payment(t, server.URL)))
		var untrusted *tls.CertificateVerificationError
		require.ErrorAs(t, e, &untrusted)
		require.Equal(t, 1, e.Attempts)
		require.False(t, e.Uncertain)
		require.False(t, reached)
	})
}

// CONTRACT C-2, C-4
func TestRedirectsAreNotFollowed(t *testing.T) {
	for i, status := range []int{301, 302, 303, 307, 308, 303} {
		var elsewhere atomic.Int64
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
		bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL+"/elsewhere")
			if i == 5 { // the command's own answer
				w.Header().Set(wire.HeaderResult, wire.ResultCreated)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "moved")
		}))
		client := newClient(t, idemclient.Config{Transport: ownTransport(t), Provider: unguarded()})

		res := succeeded(t)(client.Do(t.Context(), "order-7", payment(t, bank.URL)))
		require.Equal(t, status, res.StatusCode)
		require.Equal(t, "moved", text(t, res))
		require.Equal(t, other.URL+"/elsewhere", res.Header.Get("Location"))

		follows := &http.Client{Transport: client}
		r := payment(t, bank.URL)
		_, err := follows.Do(r.WithContext(idemclient.WithIntent(t.Context(), "order-8")))
		require.ErrorIs(t, err, idemclient.ErrRedirected)
		require.ErrorContains(t, err, fmt.Sprint(status))
		e, ok := errors.AsType[*idemclient.Error](err)
		require.True(t, ok)
		require.True(t, e.Uncertain, "whatever a redirect says, the command was sent")

		stays := &http.Client{Transport: client, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		res, err = stays.Do(payment(t, bank.URL).WithContext(idemclient.WithIntent(t.Context(), "order-9")))
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode)
		require.NoError(t, res.Body.Close())
		require.Zero(t, elsewhere.Load(), status)

		get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, bank.URL, nil)
		require.NoError(t, err)
		res, err = follows.Do(get)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.EqualValues(t, 1, elsewhere.Load(), "a safe request is none of our business")
		bank.Close()
		other.Close()
	}
}

// CONTRACT C-4, C-1
func TestTransports(t *testing.T) {
	// A transport below the client that follows redirects has sent the command to somebody else, or shows the answer to a
	// GET.
	t.Run("a transport that follows redirects", func(t *testing.T) {
		for _, status := range []int{302, 307} {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Idempotency-Result", "created")
			}))
			bank := httptest.NewServer(http.RedirectHandler(other.URL, status))
			follows := &http.Client{Transport: ownTransport(t)}
			journal := intents.NewMemoryJournal()
			client := newClient(t, idemclient.Config{Journal: journal, Transport: roundTrip(follows.Do)})
			e := failed(t)(client.Do(t.Context(), "order-7", payment(t, bank.URL)))
			require.ErrorIs(t, e, idemclient.ErrRedirected)
			require.True(t, e.Uncertain)
			require.Equal(t, 1, e.Attempts)
			require.False(t, hasEnded(t, journal))
			bank.Close()
			other.Close()
		}
	})
	// A transport with two networks has sent the command over the first, and tells that there was no connection over the
	// second.
	t.Run("a transport that tries two networks", func(t *testing.T) {
		away := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errReset }}
		first := on(breaks(errReset))
		for _, command := range []*http.Request{payment(t, address), {Method: http.MethodDelete, URL: payment(t, address).URL}} {
			twice := roundTrip(func(r *http.Request) (*http.Response, error) {
				if _, err := first.RoundTrip(r); err == nil {
					t.Error("it breaks")
				}
				return away.RoundTrip(r)
			})
			require.True(t, failed(t)(newClient(t, idemclient.Config{Transport: twice, MaxAttempts: 1}).Do(t.Context(), "order-7", command)).Uncertain)
		}
		// One that only looks on is believed.
		logged := roundTrip(func(r *http.Request) (*http.Response, error) { return away.RoundTrip(r) })
		require.False(t, failed(t)(newClient(t, idemclient.Config{Transport: logged, MaxAttempts: 1}).Do(t.Context(), "order-7", payment(t, address))).Uncertain)
		for name, transport := range map[string]http.RoundTripper{"plain": away, "logged": logged} {
			empty := &http.Request{Method: http.MethodDelete, URL: payment(t, address).URL}
			res, err := newClient(t, idemclient.Config{Transport: transport, MaxAttempts: 1}).Do(t.Context(), "order-7", empty)
			require.Equal(t, name == "logged", failed(t)(res, err).Uncertain, "%v", err)
		}
	})
	t.Run("as a transport", func(t *testing.T) {
		b := newBank(t, core.Config{}, nil)
		cfg, url, _ := through(t, b, func(n int) cutproxy.Fate {
			if n < 3 {
				return cutproxy.Fate{Cut: cutproxy.ToClient, After: 20}
			}
			return cutproxy.Fate{}
		})
		client := &http.Client{Transport: newClient(t, cfg), Timeout: 10 * time.Second}
		r := payment(t, url).WithContext(idemclient.WithIntent(t.Context(), "order-7"))
		res := succeeded(t)(client.Do(r))
		require.Equal(t, "payment 1", text(t, res))
		require.Greater(t, idemclient.ResultOf(res).Attempts, 1)
		require.True(t, idemclient.ResultOf(res).Replayed)
		require.Len(t, b.keys(), 1)

		_, err := client.Post(url, "application/json", strings.NewReader("{}"))
		require.ErrorIs(t, err, intents.ErrNoIntent)
	})
}

// The provider behind a service is away for 20 s, or for 6 h. The client with its defaults ends in time, knows that nothing is
// certain, and keeps the intent: the next Do of it gets the answer, and nothing is charged twice.
//
// CONTRACT X-10, C-4
func TestAProvidersOutage(t *testing.T) {
	for _, away := range []time.Duration{20 * time.Second, 6 * time.Hour} {
		var charged atomic.Int64
		var back time.Time
		b := newBank(t, core.Config{Policy: core.Policy{Recovery: core.Resume}}, func(w http.ResponseWriter, r *http.Request) {
			err := core.CallDo(r.Context(), "charge", func(context.Context, core.DerivedKey) error {
				if time.Now().Before(back) {
					return errors.New("the provider is away")
				}
				charged.Add(1)
				return nil
			}, core.Dedup(23*time.Hour))
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		inBubble(t, away.String(), func(t *testing.T) {
			back = time.Now().Add(away)
			client := newClient(t, idemclient.Config{Journal: intents.NewMemoryJournal(),
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					w := httptest.NewRecorder()
					b.Config.Handler.ServeHTTP(w, r)
					return w.Result(), nil
				})})
			begun := time.Now()
			res, err := client.Do(t.Context(), "order-7", payment(t, "http://bank/v1/payments"))
			if err != nil {
				e := failed(t)(res, err)
				require.True(t, e.Uncertain)
				require.Less(t, time.Since(begun), 6*time.Minute)
				time.Sleep(time.Until(back.Add(10 * time.Minute))) // the longest pause
				res, err = client.Do(t.Context(), "order-7", payment(t, "http://bank/v1/payments"))
			}
			succeeded(t)(res, err)
			require.Equal(t, int64(1), charged.Load())
			require.Len(t, slices.Compact(b.keys()), 1)
		})
	}
}
