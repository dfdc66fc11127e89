package echoidem_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// abandoned is a request whose handler goes on after its middleware has answered.
type abandoned struct {
	context atomic.Value  // echo.Context
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

// run runs the chain in another goroutine, and abandons it at the timeout.
func (a *abandoned) run(c echo.Context, next echo.HandlerFunc) (inTime bool, err error) {
	done := make(chan error, 1)
	go func() { done <- next(c) }()
	select {
	case err := <-done:
		return true, err
	case <-a.timeout:
		return false, nil
	}
}

// buffer is the writer of timeout middleware: what the handler writes leaves in time or never.
type buffer struct {
	http.ResponseWriter
	header http.Header
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header         { return b.header }
func (b *buffer) WriteHeader(int)             {}
func (b *buffer) Write(p []byte) (int, error) { return b.body.Write(p) }

// timeout is timeout middleware for a request that will be abandoned.
type timeout func(c echo.Context, a *abandoned, next echo.HandlerFunc) error

func naive(c echo.Context, a *abandoned, next echo.HandlerFunc) error {
	if inTime, err := a.run(c, next); inTime {
		return err
	}
	return c.NoContent(http.StatusGatewayTimeout)
}

func buffered(c echo.Context, a *abandoned, next echo.HandlerFunc) error {
	w := c.Response().Writer
	b := &buffer{ResponseWriter: w, header: http.Header{}}
	c.Response().Writer = b
	if inTime, err := a.run(c, next); inTime {
		return err
	}
	c.Response().Writer = w
	err := c.NoContent(http.StatusGatewayTimeout)
	c.Response().Writer = b
	return err
}

// stock is Echo's own. Its timeout is a time: the handler begins before or after it, and ends after it in any case.
func stock(c echo.Context, _ *abandoned, next echo.HandlerFunc) error {
	return middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: 200 * time.Millisecond})(next)(c) //nolint:staticcheck // what apps have
}

// A handler that was abandoned ends like one that panics, and writes into nobody else's answer: its context is another
// principal's by then, who is refused until it has ended; or nobody's yet.
//
// CONTRACT X-12
func TestAbandonedHandler(t *testing.T) {
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		t.Run("stock "+recovery.String(), func(t *testing.T) { testAbandoned(t, stock, recovery, true) })
		t.Run("naive "+recovery.String(), func(t *testing.T) { testAbandoned(t, naive, recovery, true) })
		t.Run("buffered "+recovery.String(), func(t *testing.T) { testAbandoned(t, buffered, recovery, true) })
		t.Run("buffered, nobody next "+recovery.String(), func(t *testing.T) { testAbandoned(t, buffered, recovery, false) })
	}
}

func testAbandoned(t *testing.T, middleware timeout, recovery core.Recovery, recycled bool) {
	d := newSQLite(t)
	cfg := core.Config{Policy: core.Policy{Recovery: recovery}} // in memory
	if recovery == core.Rollback {
		cfg = d.config()
	}
	var told, charges atomic.Int64
	cfg.Observer = core.ObserverFunc(func(_ context.Context, e core.Event) {
		if e.Kind == core.EventAbandoned && assert.Error(t, e.Err) {
			told.Add(1)
		}
	})
	var now atomic.Pointer[abandoned]
	var met atomic.Bool // the other request has got the abandoned one's context
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			a := now.Load()
			if c.Request().Header.Get("X-Abandon") == "" {
				met.Store(c == a.context.Load())
				return next(c)
			}
			a.context.Store(c)
			return middleware(c, a, func(c echo.Context) error {
				defer close(a.ended)
				defer func() { _ = recover() }()
				return next(c)
			})
		}
	})
	guarded(t, e, cfg).POST("/pay", func(c echo.Context) error {
		pay(t, c)
		if recovery == core.Resume {
			assert.NoError(t, core.CallDo(c.Request().Context(), "charge", func(context.Context, core.DerivedKey) error {
				charges.Add(1)
				return nil
			}))
		}
		a := now.Load()
		switch {
		case c.Request().Header.Get("X-Abandon") != "":
			close(a.started)
			if !<-a.goOn {
				panic("nobody has met it")
			}
			return c.String(http.StatusCreated, "for a")
		case c.Request().Header.Get("X-Other") != "":
			if c == a.context.Load() {
				a.finish(true)
			}
			return c.String(http.StatusCreated, "for b")
		default:
			return c.String(http.StatusCreated, "for a, again")
		}
	})
	app := serve(t, e)
	other := sign(t, claimsOf("customer-2", "customer"))

	for range 200 { // the pool gives the context to the next request, most of the time
		a, key := abandon(), rand.Text()
		now.Store(a)
		rows, charged := d.payments(t), charges.Load()
		first := make(chan answer, 1)
		go func() { first <- app.do(call{key: key, headers: map[string]string{"X-Abandon": "1"}}) }()
		<-a.started
		close(a.timeout)
		require.NoError(t, (<-first).err)

		b := call{key: key, token: other, headers: map[string]string{"X-Other": "1"}}
		if recycled {
			second := app.do(b)
			if !met.Load() {
				a.finish(false)
				told.Store(0)
				continue
			}
			requireProblem(t, http.StatusInternalServerError, "misconfigured", second)
			require.Contains(t, second.body, "another goroutine")
		}
		a.finish(true)
		require.EqualValues(t, 1, told.Load())
		require.Equal(t, rows, d.payments(t))

		again := app.do(call{key: key})
		if recovery == core.Park {
			requireProblem(t, http.StatusConflict, "outcome_unknown", again)
		} else {
			require.Equal(t, "for a, again", again.body)
			require.Equal(t, "created", again.header.Get("Idempotency-Result"))
		}
		if recovery == core.Resume {
			require.Equal(t, charged+1, charges.Load(), "the step is not repeated")
		}
		for _, result := range []string{"created", "reused"} {
			got := app.do(b)
			require.Equal(t, "for b", got.body)
			require.Equal(t, result, got.header.Get("Idempotency-Result"))
		}
		return
	}
	t.Fatal("no context was given to another request")
}

// Handlers and inner middleware may replace request and writer, and leave them so.
//
// CONTRACT X-12
func TestReplacedRequestAndWriter(t *testing.T) {
	type own struct{}
	for name, inner := range map[string]func(c echo.Context, next echo.HandlerFunc) error{
		"request": func(c echo.Context, next echo.HandlerFunc) error {
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), own{}, 1)))
			return next(c)
		},
		"writer": func(c echo.Context, next echo.HandlerFunc) error {
			c.Response().Writer = struct{ http.ResponseWriter }{c.Response().Writer}
			return next(c)
		},
		"response": func(c echo.Context, next echo.HandlerFunc) error {
			c.SetResponse(echo.NewResponse(c.Response(), c.Echo()))
			return next(c)
		},
		"buffer": func(c echo.Context, next echo.HandlerFunc) error {
			b := &buffer{ResponseWriter: c.Response().Writer, header: http.Header{}}
			c.Response().Writer = b
			err := next(c)
			b.ResponseWriter.WriteHeader(http.StatusCreated)
			_, _ = b.ResponseWriter.Write(b.body.Bytes())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := echo.New()
			guarded(t, e, core.Config{}).POST("/pay", func(c echo.Context) error {
				return inner(c, func(c echo.Context) error { return c.String(http.StatusCreated, "paid") })
			})
			got := serve(t, e).requireReplay(call{})
			require.Equal(t, http.StatusCreated, got.status)
			require.Equal(t, "paid", got.body)
		})
	}
}
