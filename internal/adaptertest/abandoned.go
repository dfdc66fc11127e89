package adaptertest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// Timeout is a timeout middleware: it runs next in another goroutine, and answers without waiting for its end when
// timeout is closed, or when its own time is up.
type Timeout func(c Context, timeout <-chan struct{}, next func() error) error

// inTime runs next in another goroutine, and reports whether it has ended before the timeout.
func inTime(timeout <-chan struct{}, next func() error) (ended bool, err error) {
	done := make(chan error, 1)
	go func() { done <- next() }()
	select {
	case err := <-done:
		return true, err
	case <-timeout:
		return false, nil
	}
}

// naive answers with the writer that the handler has too.
func naive(c Context, timeout <-chan struct{}, next func() error) error {
	if ended, err := inTime(timeout, next); ended {
		return err
	}
	return c.NoContent(http.StatusGatewayTimeout)
}

// buffered gives the handler a writer of its own, and leaves it there.
func buffered(c Context, timeout <-chan struct{}, next func() error) error {
	own, b := c.Inner(), &buffer{header: http.Header{}}
	c.SetWriter(b)
	if ended, err := inTime(timeout, next); ended {
		return err
	}
	c.SetWriter(own)
	err := c.NoContent(http.StatusGatewayTimeout)
	c.SetWriter(b)
	return err
}

// abandoned is a request whose handler goes on after its middleware has answered.
type abandoned struct {
	context atomic.Value  // the framework's
	started chan struct{} // its handler has
	timeout chan struct{} // of its middleware
	once    sync.Once
	goOn    chan bool     // its handler's: false panics
	ended   chan struct{} // its goroutine has
}

func abandon() *abandoned {
	return &abandoned{started: make(chan struct{}), timeout: make(chan struct{}), goOn: make(chan bool, 1),
		ended: make(chan struct{})}
}

// finish lets the handler go on, and waits for its end.
func (a *abandoned) finish(write bool) {
	a.once.Do(func() { a.goOn <- write })
	<-a.ended
}

// requireNoSuccess requires an answer that says that something went wrong, or none, or one that breaks off.
func requireNoSuccess(t *testing.T, a Answer) {
	t.Helper()
	if a.Err == nil {
		require.GreaterOrEqual(t, a.Status, 400, a.Body)
	}
}

// firstStatus is a writer of middleware in front: it hides all but the interface, and believes the first status. What is
// done against an empty 200 of an abandoned handler is done behind it.
type firstStatus struct {
	http.ResponseWriter
	status int
}

func (w *firstStatus) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
	}
}

// Middleware in front runs the chain in another goroutine, and writes into the capture when its time is up, or nothing at
// all. The client gets no success, and a repeat gets the truth.
//
// CONTRACT X-12
func abandonedClient(t *testing.T, a Adapter) {
	for name, answer := range map[string]func(c Context) error{
		"status":  func(c Context) error { return c.NoContent(http.StatusServiceUnavailable) },
		"body":    func(c Context) error { return c.String(http.StatusGatewayTimeout, "timed out") },
		"refusal": func(c Context) error { return c.String(http.StatusRequestTimeout, "timed out") },
		"success": func(c Context) error { return c.String(http.StatusAccepted, "still working") },
		"nothing": func(Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			started, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			wrap := a.Middleware(func(c Context, next func() error) error {
				c.SetWriter(&firstStatus{ResponseWriter: c.Inner()})
				return next()
			})
			abandoning := a.Middleware(func(c Context, next func() error) error {
				if c.Request().Header.Get("X-Abandon") == "" {
					return next()
				}
				go func() {
					defer close(ended)
					_ = next()
				}()
				<-started
				return answer(c)
			})
			d := NewSQLite(t)
			client := paying(t, a, d.Config(), func(c Context) error {
				Pay(t, c.Request().Context())
				if c.Request().Header.Get("X-Abandon") != "" {
					close(started)
					<-goOn
				}
				return c.String(http.StatusCreated, "paid")
			}, wrap, abandoning)
			requireNoSuccess(t, client.Do(Call{Key: "key-1", Headers: map[string]string{"X-Abandon": "1"}}))
			close(goOn)
			<-ended
			first, again := client.Do(Call{Key: "key-1"}), client.Do(Call{Key: "key-1"})
			require.Equal(t, first.Body, again.Body)
			if d.Payments(t) == 0 {
				require.GreaterOrEqual(t, again.Status, 400)
			} else {
				require.EqualValues(t, 1, d.Payments(t))
				require.Less(t, again.Status, 400)
			}
		})
	}
}

// A handler that was abandoned ends like one that panics, and writes into nobody else's answer: its context is another
// principal's by then, who is refused until it has ended; or nobody's yet.
//
// CONTRACT X-12
func abandonedHandler(t *testing.T, a Adapter) {
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		for name, timeout := range a.Timeouts {
			t.Run(name+" "+recovery.String(), func(t *testing.T) { testAbandoned(t, a, timeout, recovery, later) })
		}
		t.Run("naive "+recovery.String(), func(t *testing.T) { testAbandoned(t, a, naive, recovery, later) })
		t.Run("naive, at once "+recovery.String(), func(t *testing.T) { testAbandoned(t, a, naive, recovery, atOnce) })
		t.Run("buffered "+recovery.String(), func(t *testing.T) { testAbandoned(t, a, buffered, recovery, later) })
		t.Run("buffered, nobody next "+recovery.String(), func(t *testing.T) { testAbandoned(t, a, buffered, recovery, alone) })
	}
}

// meeting is when an abandoned handler goes on.
type meeting int

const (
	alone  meeting = iota // before another request gets its context
	later                 // after another request has got its context, and has been answered
	atOnce                // after the guards have refused that request, while its answer is still open
)

func testAbandoned(t *testing.T, a Adapter, timeout Timeout, recovery core.Recovery, when meeting) {
	d := NewSQLite(t)
	cfg := core.Config{Policy: core.Policy{Recovery: recovery}} // in memory
	if recovery == core.Rollback {
		cfg = d.Config()
	}
	var told, charges atomic.Int64
	cfg.Observer = core.ObserverFunc(func(_ context.Context, e core.Event) {
		if e.Kind == core.EventAbandoned && assert.Error(t, e.Err) {
			told.Add(1)
		}
	})
	var now atomic.Pointer[abandoned]
	var met atomic.Bool // the other request has got the abandoned one's context
	outer := a.Middleware(func(c Context, next func() error) error {
		late := now.Load()
		if c.Request().Header.Get("X-Abandon") == "" {
			met.Store(c.Own() == late.context.Load())
			err := next()
			if when == atOnce && met.Load() {
				late.finish(true)
			}
			return err
		}
		late.context.Store(c.Own())
		return timeout(c, late.timeout, func() error {
			defer close(late.ended)
			defer func() { _ = recover() }()
			return next()
		})
	})
	client := paying(t, a, cfg, func(c Context) error {
		Pay(t, c.Request().Context())
		if recovery == core.Resume {
			assert.NoError(t, core.CallDo(c.Request().Context(), "charge", func(context.Context, core.DerivedKey) error {
				charges.Add(1)
				return nil
			}))
		}
		late := now.Load()
		switch {
		case c.Request().Header.Get("X-Abandon") != "":
			close(late.started)
			if !<-late.goOn {
				panic("nobody has met it")
			}
			return c.String(http.StatusCreated, "for a")
		case c.Request().Header.Get("X-Other") != "":
			if c.Own() == late.context.Load() {
				late.finish(true)
			}
			return c.String(http.StatusCreated, "for b")
		default:
			return c.String(http.StatusCreated, "for a, again")
		}
	}, outer)
	other := Sign(t, ClaimsOf("customer-2", "customer"))

	for range 200 { // the pool gives the context to the next request, most of the time
		late, key := abandon(), rand.Text()
		now.Store(late)
		rows, charged := d.Payments(t), charges.Load()
		first := make(chan Answer, 1)
		go func() { first <- client.Do(Call{Key: key, Headers: map[string]string{"X-Abandon": "1"}}) }()
		<-late.started
		close(late.timeout)
		requireNoSuccess(t, <-first)

		b := Call{Key: key, Token: other, Headers: map[string]string{"X-Other": "1"}}
		if when != alone {
			second := client.Do(b)
			if !met.Load() {
				late.finish(false)
				told.Store(0)
				continue
			}
			RequireProblem(t, http.StatusInternalServerError, "misconfigured", second)
			require.Contains(t, second.Body, "another goroutine")
			require.True(t, json.Valid([]byte(second.Body)), "%s", second.Body)
		}
		late.finish(true)
		require.EqualValues(t, 1, told.Load())
		require.Equal(t, rows, d.Payments(t))

		again := client.Do(Call{Key: key})
		if recovery == core.Park {
			RequireProblem(t, http.StatusConflict, "outcome_unknown", again)
		} else {
			require.Equal(t, "for a, again", again.Body)
			require.Equal(t, "created", again.Result())
		}
		if recovery == core.Resume {
			require.Equal(t, charged+1, charges.Load(), "the step is not repeated")
		}
		for _, result := range []string{"created", "reused"} {
			got := client.Do(b)
			require.Equal(t, "for b", got.Body)
			require.Equal(t, result, got.Result())
		}
		return
	}
	t.Fatal("no context was given to another request")
}

// http.TimeoutHandler gives the whole app a writer of its own, and answers 503 when its time is up. An attempt whose context
// has that deadline ends then, too. Without a deadline it goes on, and a repeat gets its answer.
//
// CONTRACT
func timeoutHandlerInFront(t *testing.T, a Adapter) {
	for _, deadline := range []bool{true, false} {
		started, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		app, d := a.New(), NewSQLite(t)
		Guarded(t, a, app, d.Config()).Handle(http.MethodPost, "/pay", a.Handler(func(c Context) error {
			Pay(t, c.Request().Context())
			if c.Request().Header.Get("X-Abandon") != "" {
				close(started)
				if deadline {
					<-c.Request().Context().Done()
				} else {
					<-goOn
				}
			}
			return c.String(http.StatusCreated, "paid")
		}))
		client := Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Abandon") == "" {
				app.ServeHTTP(w, r)
				return
			}
			inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				app.ServeHTTP(w, r)
			})
			timeout := 2 * time.Second // time enough for the handler to begin and to pay
			if !deadline {
				ctx, cancel := context.WithCancel(r.Context())
				go func() { <-started; cancel() }()
				r, timeout = r.WithContext(ctx), time.Hour
			}
			http.TimeoutHandler(inner, timeout, "timed out").ServeHTTP(w, r)
		}))
		first := client.Do(Call{Key: "key-1", Headers: map[string]string{"X-Abandon": "1"}})
		requireNoSuccess(t, first)
		results := []string{"created", "reused"}
		if !deadline {
			require.Equal(t, http.StatusServiceUnavailable, first.Status)
			close(goOn)
			results[0] = "reused"
		}
		<-ended
		require.Equal(t, !deadline, d.Payments(t) == 1)
		for _, result := range results {
			again := client.Do(Call{Key: "key-1"})
			require.Equal(t, "paid", again.Body)
			require.Equal(t, result, again.Result())
		}
		require.EqualValues(t, 1, d.Payments(t))
	}
}
