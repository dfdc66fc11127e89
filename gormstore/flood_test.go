package gormstore_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

// Many more commands at once than the pool has connections. A command that cannot be claimed in time gets 503, and the
// others succeed. After the repeats, each command that was answered was carried out once. Another principal is answered
// meanwhile.
//
// CONTRACT M-6, F-1
func TestFloodOfKeys(t *testing.T) {
	floods(t, func(t *testing.T, f *flood) {
		key := func(i int) string { return "key-" + strconv.Itoa(i) }
		f.wave(key)
		if f.recovery == core.Rollback {
			waited := try(f.db.DB()).ok(t).Stats().WaitCount
			require.Zero(t, waited, "neither an attempt with a place waits for a connection, nor a look")
		}
		f.repeat(key)
		f.requireOnce(t)
	})
}

// As many repeats of one command at once: it is carried out once, and every repeat gets its answer.
//
// CONTRACT M-2, M-3, M-6
func TestFloodOfRepeats(t *testing.T) {
	floods(t, func(t *testing.T, f *flood) {
		key := func(int) string { return "one" }
		f.wave(key)
		f.repeat(key)
		f.requireOnce(t)
		require.Len(t, f.answered, 1+bystanders)
	})
}

// floods runs a test with each recovery.
func floods(t *testing.T, run func(t *testing.T, f *flood)) {
	t.Helper()
	for _, recovery := range []core.Recovery{core.Rollback, core.Park, core.Resume} {
		t.Run(recovery.String(), func(t *testing.T) {
			t.Parallel()
			run(t, newFlood(t, core.Config{Policy: core.Policy{Recovery: recovery}}))
		})
	}
}

// maxInFlight is how much memory a request in flight may take: many times what it does, and a small part of what its
// caps allow. The goroutine, the request and the recorder of the test are in it.
const maxInFlight = 64 << 10

// untilAllAreIn lets every request have its turn, and stay in its handler, for as long as a busy machine takes.
var untilAllAreIn = core.Config{
	ClaimTimeout: time.Hour, Policy: core.Policy{Recovery: core.Park, Lease: time.Hour, Deadline: time.Hour},
}

// A request in flight costs its own few kilobytes, and no buffer of the size of a cap; nor does it keep a connection.
//
// CONTRACT F-1
func TestFloodInFlight(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		f := newFlood(t, untilAllAreIn)
		f.requireSmall(t)
		require.Equal(t, flooders+1, f.rows(t, "WHERE state = 2"))
	})
	t.Run("memory", func(t *testing.T) {
		f := &flood{t: t, effects: map[string]int{}, answered: map[string]string{}}
		cfg := untilAllAreIn
		cfg.Store = memstore.New()
		f.mount(t, cfg)
		f.requireSmall(t)
	})
}

// requireSmall measures requests that are all in the handler.
func (f *flood) requireSmall(t *testing.T) {
	t.Helper()
	var arrived sync.WaitGroup
	arrived.Add(flooders)
	leave := make(chan struct{})
	f.hold = func() {
		arrived.Done()
		<-leave
	}
	before := memory()
	var wg sync.WaitGroup
	for i := range flooders {
		wg.Go(func() { assert.Equal(t, http.StatusCreated, f.post("alice", "key-"+strconv.Itoa(i))) })
	}
	arrived.Wait()
	each := (memory() - before) / flooders
	f.hold = nil
	assert.Equal(t, http.StatusCreated, f.post("bob", "key"), "there is room for others")
	close(leave)
	wg.Wait()
	t.Logf("%d bytes for each of %d requests in flight", each, flooders)
	require.Less(t, each, maxInFlight)
}

// memory is what is in use, by the heap and by goroutines.
func memory() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// bystanders is how many commands another principal sends during a flood, one after the other.
const bystanders = 10

// flood is an Echo app on a pool of ten connections, and what its commands have done.
type flood struct {
	t        *testing.T
	db       *gorm.DB
	app      *echo.Echo
	recovery core.Recovery
	hold     func() // in the handler, if set

	mu       sync.Mutex
	effects  map[string]int    // by principal and key
	answered map[string]string // the one body that a command may be answered with
}

func newFlood(t *testing.T, cfg core.Config) *flood {
	t.Helper()
	db := newPostgres(t, 10)
	f := &flood{t: t, db: db, effects: map[string]int{}, answered: map[string]string{}}
	cfg.Store, cfg.SweepEvery = newStore(t, db), time.Second
	idem := f.mount(t, cfg)
	if f.recovery != core.Rollback { // claims that are cut on a busy machine are to be released
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, idem.Run(ctx)) })
		t.Cleanup(func() {
			stop()
			running.Wait()
		})
	}
	return f
}

// mount makes the app.
func (f *flood) mount(t *testing.T, cfg core.Config) *core.Module {
	t.Helper()
	f.recovery = cfg.Policy.Recovery
	idem := try(core.New(cfg)).ok(t)
	who := func(c echo.Context) (authctx.Principal, error) {
		return authctx.Principal{Issuer: "https://issuer.example", Subject: c.Request().Header.Get("Subject")}, nil
	}
	f.app = echo.New()
	f.app.Group("/v1", echoidem.Bridge(who), echoidem.Idempotent(idem)).POST("/payments", f.pay)
	return idem
}

// pay has its effect in the way of its recovery: a row, a row in a step, a call.
func (f *flood) pay(c echo.Context) error {
	if f.hold != nil {
		f.hold()
	}
	ctx := c.Request().Context()
	id, _ := core.Operation(ctx)
	insert := func(tx *gorm.DB) error { return tx.Create(&effect{Name: f.nameOf(c.Request())}).Error }
	var err error
	switch f.recovery {
	case core.Rollback:
		err = insert(gormstore.Tx(ctx))
	case core.Resume:
		err = gormstore.StepDo(ctx, "book", insert)
	default:
		f.mu.Lock()
		f.effects[f.nameOf(c.Request())]++
		f.mu.Unlock()
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, map[string]string{"paid": id.String()})
}

func (f *flood) nameOf(r *http.Request) string {
	return r.Header.Get("Subject") + " " + r.Header.Get("Idempotency-Key")
}

// wave sends a command from each of the flooders at once, and those of another principal meanwhile.
func (f *flood) wave(key func(i int) string) {
	atOnce(flooders+1, func(i int) int {
		if i < flooders {
			return f.post("alice", key(i))
		}
		for i := range bystanders {
			f.untilCreated("bob", "key-"+strconv.Itoa(i))
		}
		return 0
	})
}

// repeat repeats commands as their clients would, a thousand of them at most.
func (f *flood) repeat(key func(i int) string) {
	atOnce(8, func(client int) int {
		for i := client; i < min(flooders, 1000); i += 8 {
			f.untilCreated("alice", key(i))
		}
		return 0
	})
}

func (f *flood) untilCreated(subject, key string) {
	for f.post(subject, key) != http.StatusCreated && !f.t.Failed() {
		time.Sleep(time.Millisecond)
	}
}

// post sends one command, and looks at its answer.
func (f *flood) post(subject, key string) (status int) {
	r := httptest.NewRequest(http.MethodPost, "/v1/payments", strings.NewReader(`{"amount":"12.50"}`))
	r.ContentLength = -1 // in chunks: nobody knows how much is to come
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Subject", subject)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	f.app.ServeHTTP(w, r)

	body := w.Body.String()
	if w.Code == http.StatusCreated {
		f.mu.Lock()
		defer f.mu.Unlock()
		name := f.nameOf(r)
		f.answered[name] = cmp.Or(f.answered[name], body)
		assert.Equal(f.t, f.answered[name], body, "one answer for each command")
		return w.Code
	}
	var problem struct{ Code core.Code }
	assert.NoError(f.t, json.Unmarshal([]byte(body), &problem), body)
	assert.Contains(f.t, []core.Code{core.CodeInFlight, core.CodeStoreUnavailable}, problem.Code, body)
	assert.NotEmpty(f.t, w.Header().Get("Retry-After"))
	return w.Code
}

// requireOnce checks that each command that was answered was carried out, once, and no other.
func (f *flood) requireOnce(t *testing.T) {
	t.Helper()
	var rows []effect
	require.NoError(t, f.db.Find(&rows).Error)
	for _, row := range rows {
		f.effects[row.Name]++
	}
	require.Len(t, f.effects, len(f.answered))
	for name := range f.answered {
		require.Equal(t, 1, f.effects[name], name)
	}
	require.Equal(t, len(f.answered), f.rows(t, "WHERE state = 2"), "and each has its record")
}

// rows counts records.
func (f *flood) rows(t *testing.T, where string) (n int) {
	t.Helper()
	require.NoError(t, f.db.WithContext(context.WithoutCancel(t.Context())).
		Raw("SELECT count(*) FROM idempotency_record "+where).Scan(&n).Error)
	return n
}
