package ginidem_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
)

// abandoned is a request whose handler goes on after its middleware has answered.
type abandoned struct {
	context atomic.Pointer[gin.Context]
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
func (a *abandoned) run(c *gin.Context) (inTime bool) {
	a.context.Store(c)
	done := make(chan struct{})
	go func() {
		defer close(a.ended)
		defer func() { _ = recover() }()
		c.Next()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-a.timeout:
		return false
	}
}

// buffer is the writer of timeout middleware: what the handler writes leaves in time or never.
type buffer struct {
	gin.ResponseWriter
	header http.Header
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header               { return b.header }
func (b *buffer) WriteHeader(int)                   {}
func (b *buffer) WriteHeaderNow()                   {}
func (b *buffer) Write(p []byte) (int, error)       { return b.body.Write(p) }
func (b *buffer) WriteString(s string) (int, error) { return b.body.WriteString(s) }

func naive(c *gin.Context, a *abandoned) {
	if !a.run(c) {
		c.AbortWithStatus(http.StatusGatewayTimeout)
	}
}

func buffered(c *gin.Context, a *abandoned) {
	w := c.Writer
	b := &buffer{ResponseWriter: w, header: http.Header{}}
	c.Writer = b
	if !a.run(c) {
		c.Abort()
		c.Writer = w
		c.String(http.StatusGatewayTimeout, "timeout")
		c.Writer = b
	}
}

// A handler that was abandoned ends like one that panics, and writes into nobody else's answer: its context is another
// principal's by then, who is refused until it has ended; or nobody's yet.
//
// CONTRACT X-12
func TestAbandonedHandler(t *testing.T) {
	for _, recovery := range []core.Recovery{core.Rollback, core.Resume, core.Park} {
		t.Run("naive "+recovery.String(), func(t *testing.T) { testAbandoned(t, naive, recovery, true) })
		t.Run("buffered "+recovery.String(), func(t *testing.T) { testAbandoned(t, buffered, recovery, true) })
		t.Run("buffered, nobody next "+recovery.String(), func(t *testing.T) { testAbandoned(t, buffered, recovery, false) })
	}
}

func testAbandoned(t *testing.T, middleware func(*gin.Context, *abandoned), recovery core.Recovery, recycled bool) {
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
	r := gin.New()
	r.Use(func(c *gin.Context) {
		if c.GetHeader("X-Abandon") != "" {
			middleware(c, now.Load())
			return
		}
		met.Store(c == now.Load().context.Load())
	})
	guarded(t, r, cfg).POST("/pay", func(c *gin.Context) {
		pay(t, c)
		if recovery == core.Resume {
			assert.NoError(t, core.CallDo(c.Request.Context(), "charge", func(context.Context, core.DerivedKey) error {
				charges.Add(1)
				return nil
			}))
		}
		a := now.Load()
		switch {
		case c.GetHeader("X-Abandon") != "":
			close(a.started)
			if !<-a.goOn {
				panic("nobody has met it")
			}
			c.String(http.StatusCreated, "for a")
		case c.GetHeader("X-Other") != "":
			if c == a.context.Load() {
				a.finish(true)
			}
			c.String(http.StatusCreated, "for b")
		default:
			c.String(http.StatusCreated, "for a, again")
		}
	})
	app := serve(t, r)
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
	for name, inner := range map[string]gin.HandlerFunc{
		"request": func(c *gin.Context) {
			c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), own{}, 1))
		},
		"writer": func(c *gin.Context) { c.Writer = struct{ gin.ResponseWriter }{c.Writer} },
		"buffer": func(c *gin.Context) {
			b := &buffer{ResponseWriter: c.Writer, header: http.Header{}}
			c.Writer = b
			c.Next()
			b.ResponseWriter.WriteHeader(http.StatusCreated)
			_, _ = b.ResponseWriter.Write(b.body.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := gin.New()
			guarded(t, r, core.Config{}).POST("/pay", inner, func(c *gin.Context) { c.String(http.StatusCreated, "paid") })
			got := serve(t, r).requireReplay(call{})
			require.Equal(t, http.StatusCreated, got.status)
			require.Equal(t, "paid", got.body)
		})
	}
}
