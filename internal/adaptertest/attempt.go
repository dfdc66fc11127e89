package adaptertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

// A panic leaves nothing Behind, and reaches the recovery middleware, or net/http, as it was.
//
// CONTRACT
func panics(t *testing.T, a Adapter) {
	all := maps.Clone(a.Panics)
	all["custom recovery"] = Panic{a.Middleware(func(c Context, next func() error) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = c.String(http.StatusBadGateway, v.(string))
			}
		}()
		return next()
	}), "boom", http.StatusBadGateway, "boom"}
	all["no recovery"] = Panic{nil, "boom", 0, ""}
	all["abort, uncovered"] = Panic{nil, http.ErrAbortHandler, 0, ""}
	for name, test := range all {
		for _, recovery := range []core.Recovery{core.Park, core.Rollback, core.Resume} {
			t.Run(name+" "+recovery.String(), func(t *testing.T) { testPanic(t, a, test, recovery) })
		}
	}
}

func testPanic(t *testing.T, a Adapter, test Panic, recovery core.Recovery) {
	cfg := core.Config{Policy: core.Policy{Recovery: recovery}} // in memory
	sqlite := NewSQLite(t)
	if recovery == core.Rollback {
		cfg = sqlite.Config()
	}
	var runs atomic.Int64
	var outer []Middleware
	if test.Recovery != nil {
		outer = append(outer, test.Recovery)
	}
	outer = append(outer, a.Middleware(func(c Context, next func() error) error {
		request, writer, panicked := c.Request(), c.Writer(), true
		defer func() {
			if !panicked {
				return
			}
			assert.Equal(t, request.URL, c.Request().URL)
			assert.Same(t, writer, c.Writer(), "the writer is its own again")
			assert.True(t, c.Untouched())
			assert.Empty(t, c.Writer().Header().Get("X-Handler"))
			_, inAttempt := core.Operation(c.Request().Context())
			assert.False(t, inAttempt)
		}()
		err := next()
		panicked = false
		return err
	}))
	client := paying(t, a, cfg, func(c Context) error {
		Pay(t, c.Request().Context())
		if recovery == core.Resume {
			commit(t, c)
		}
		c.Writer().Header().Set("X-Handler", "1")
		err := c.String(http.StatusCreated, "paid")
		if runs.Add(1) == 1 {
			panic(test.Value)
		}
		return err
	}, outer...)
	first := client.Do(Call{Key: "key-1"})
	if test.Status == 0 {
		require.Error(t, first.Err)
	} else {
		require.NoError(t, first.Err)
		require.Equal(t, test.Status, first.Status)
		require.Equal(t, test.Body, first.Body)
		require.Empty(t, first.Header.Get("X-Handler"))
	}
	require.Zero(t, sqlite.Payments(t))
	if test.Status != 0 && recovery != core.Rollback {
		require.Equal(t, "unknown", first.Result())
		require.Equal(t, recovery == core.Resume, first.Header.Get("Retry-After") == "2", "whether a repeat continues")
	}
	again := client.Do(Call{Key: "key-1"})
	if recovery == core.Park {
		RequireProblem(t, http.StatusConflict, "outcome_unknown", again)
		require.EqualValues(t, 1, runs.Load())
		return
	}
	require.Equal(t, http.StatusCreated, again.Status)
	require.Equal(t, "created", again.Result())
	if recovery == core.Rollback {
		require.EqualValues(t, 1, sqlite.Payments(t))
	}
}

// Answer and rows come and go together.
//
// CONTRACT
func rollback(t *testing.T, a Adapter) {
	message := func(c Context, status int) error { return c.JSON(status, map[string]string{"message": "m"}) }
	t.Run("answered", func(t *testing.T) { testRollback(t, a, a.New(), message) })
	if a.Rendering != nil {
		app, a := a.Rendering(func(c Context, err error) {
			var status statusError
			if errors.As(err, &status) && c.Untouched() {
				_ = message(c, int(status))
			}
		})
		t.Run("rendered", func(t *testing.T) {
			testRollback(t, a, app, func(_ Context, status int) error { return statusError(status) })
		})
	}

	sqlite := NewSQLite(t)
	cfg := sqlite.Config()
	cfg.Policy.MaxAnswer = 100
	client := paying(t, a, cfg, func(c Context) error {
		Pay(t, c.Request().Context())
		return c.String(http.StatusCreated, strings.Repeat("x", 101))
	})
	// CONTRACT R-4
	RequireProblem(t, http.StatusInternalServerError, "answer_too_large", client.Do(Call{Key: "key-1"}))
	require.Zero(t, sqlite.Payments(t))
}

// statusError is rendered as its status.
type statusError int

func (statusError) Error() string { return "m" }

// testRollback: a handler answers by answer, with the status and the JSON {"message":"m"}.
func testRollback(t *testing.T, a Adapter, app App, answer func(c Context, status int) error) {
	sqlite := NewSQLite(t)
	v1 := Guarded(t, a, app, sqlite.Config())
	client := Serve(t, app)
	for status, want := range map[int]struct {
		rows   int64
		replay bool
		result string // of an answer that is not recorded
	}{
		201: {1, true, ""}, 303: {1, true, ""},
		402: {0, true, ""}, 409: {0, true, ""}, // the rows are undone, the answer is kept
		403: {0, false, "not_applied"}, 429: {0, false, "not_applied"}, // the key is free
		500: {0, false, ""}, 503: {0, false, ""},
	} {
		path := fmt.Sprintf("/%d", status)
		v1.Handle(http.MethodPost, path, a.Handler(func(c Context) error {
			Pay(t, c.Request().Context())
			return answer(c, status)
		}))
		t.Run(path, func(t *testing.T) {
			before, c := sqlite.Payments(t), Call{Path: "/v1" + path, Key: path}
			if want.replay {
				got := client.With(t).RequireReplay(c)
				require.Equal(t, status, got.Status)
				require.JSONEq(t, `{"message":"m"}`, got.Body)
			} else {
				for range 2 {
					got := client.Do(c)
					require.Equal(t, status, got.Status)
					require.JSONEq(t, `{"message":"m"}`, got.Body)
					require.Equal(t, want.result, got.Result())
				}
			}
			require.Equal(t, want.rows, sqlite.Payments(t)-before)
		})
	}
}

// A conflict in the database is answered by the library, whatever error the handler has made of it: the error handling
// of the app writes nothing behind that.
//
// CONTRACT X-0
func conflict(t *testing.T, a Adapter) {
	cfg := NewSQLite(t).Config()
	cfg.Store = conflicting{cfg.Store.(*gormstore.Store)}
	app, a := Careless(a, http.StatusInternalServerError)
	Guarded(t, a, app, cfg).Handle(http.MethodPost, "/pay", a.Handler(func(Context) error { return errors.New("declined") }))
	got := Serve(t, app).Do(Call{Key: "key-1"})
	RequireProblem(t, http.StatusServiceUnavailable, "rolled_back", got)
	require.True(t, json.Valid([]byte(got.Body)), got.Body)
}

// conflicting is a store whose transactions end in a conflict.
type conflicting struct{ *gormstore.Store }

func (s conflicting) Begin(ctx context.Context, c store.Claim) (store.Attempt, store.Claimed, error) {
	tx, claimed, err := s.Store.Begin(ctx, c)
	return conflictingTx{tx}, claimed, err
}

type conflictingTx struct{ store.Attempt }

func (c conflictingTx) Rollback() error { return errors.Join(core.ErrRetryable, c.Attempt.Rollback()) }

// A client that goes away does not end the attempt, and gets the answer when it comes again.
//
// CONTRACT R-5
func clientGoesAway(t *testing.T, a Adapter) {
	began := make(chan struct{})
	client := paying(t, a, core.Config{}, func(c Context) error {
		close(began)
		<-c.Get("client").(context.Context).Done()
		assert.NoError(t, c.Request().Context().Err())
		_, bounded := c.Request().Context().Deadline()
		assert.True(t, bounded)
		if w, ok := c.Writer().(interface{ CloseNotify() <-chan bool }); ok {
			select {
			case <-w.CloseNotify():
				t.Error("the writer said that the client went away")
			default:
			}
		}
		return c.String(http.StatusCreated, "paid")
	}, a.Middleware(func(c Context, next func() error) error {
		c.Set("client", c.Request().Context())
		return next()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	require.ErrorIs(t, client.In(ctx).Do(Call{Key: "key-1"}).Err, context.Canceled)

	again := client.Do(Call{Key: "key-1"})
	for again.Status == http.StatusConflict { // the attempt is still ending
		again = client.Do(Call{Key: "key-1"})
	}
	require.Equal(t, http.StatusCreated, again.Status)
	require.Equal(t, "reused", again.Result())
	require.Equal(t, "paid", again.Body)
}

// A success whose transaction carried no write is told of, once for each route at full volume, or refused: its rows are not
// in it. A read does not silence that.
//
// CONTRACT X-11
func transactionWithoutAWrite(t *testing.T, a Adapter) {
	var log bytes.Buffer
	database := NewSQLite(t)
	require.NoError(t, database.DB.Exec("CREATE TABLE unwritten (n integer)").Error)
	cfg := database.Config()
	cfg.Policy.Recovery, cfg.Routes = 0, core.Routes{}
	cfg.Observer = core.LogObserver(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	run := func(text string) func(ctx context.Context) error {
		return func(ctx context.Context) error { return gormstore.Tx(ctx).Exec(text).Error }
	}
	read := func(ctx context.Context) error {
		tx, _ := gormstore.SQLTx(ctx)
		row := tx.QueryRowContext(ctx, "SELECT count(*), max(n) FROM unwritten")
		return errors.Join(gormstore.Tx(ctx).Raw("SELECT 1").Scan(new(int)).Error, row.Scan(new(int), new(any)))
	}
	nothing := func(context.Context) error { return nil }
	const insert = "INSERT INTO unwritten VALUES (1)"
	allowed, refused := core.UnwrittenAllowed, core.UnwrittenRefused
	tests := map[string]struct {
		policy           core.Unwritten
		status, warnings int
		want             int // 0: status
		work             func(ctx context.Context) error
	}{
		"/pay":     {0, http.StatusCreated, 1, 0, nothing},
		"/see":     {0, http.StatusSeeOther, 1, 0, nothing},
		"/refusal": {0, http.StatusConflict, 0, 0, nothing},
		"/failure": {0, http.StatusInternalServerError, 0, 0, nothing},
		"/asked":   {0, http.StatusCreated, 1, 0, func(ctx context.Context) error { gormstore.Tx(ctx); return nil }},
		"/read":    {0, http.StatusCreated, 1, 0, read},
		"/savepoint": {0, http.StatusCreated, 1, 0, func(ctx context.Context) error {
			return gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error { return read(tx.Statement.Context) })
		}},
		"/written":           {0, http.StatusCreated, 0, 0, run(insert)},
		"/written/in/a/with": {0, http.StatusCreated, 0, 0, run("WITH x(n) AS (SELECT 1) INSERT INTO unwritten SELECT n FROM x")},
		"/written/by/sql": {0, http.StatusCreated, 0, 0, func(ctx context.Context) error {
			tx, _ := gormstore.SQLTx(ctx)
			_, err := tx.ExecContext(ctx, insert)
			return err
		}},

		"/allowed":          {allowed, http.StatusCreated, 0, 0, read},
		"/refused":          {refused, http.StatusCreated, 1, http.StatusInternalServerError, read},
		"/refused/see":      {refused, http.StatusSeeOther, 1, http.StatusInternalServerError, nothing},
		"/refused/refusal":  {refused, http.StatusConflict, 0, 0, nothing},
		"/refused/written":  {refused, http.StatusCreated, 0, 0, run(insert)},
		"/refused/no/money": {refused, http.StatusNotFound, 0, 0, read},
	}
	for path, test := range tests {
		cfg.Routes["POST /v1"+path] = core.Policy{Recovery: core.Rollback, Unwritten: test.policy}
	}
	app := a.New()
	v1 := Guarded(t, a, app, cfg)
	for path, test := range tests {
		v1.Handle(http.MethodPost, path, a.Handler(func(c Context) error {
			if err := test.work(c.Request().Context()); err != nil {
				return err
			}
			return c.NoContent(test.status)
		}))
	}
	client := Serve(t, app)
	for path, test := range tests {
		log.Reset()
		for _, key := range []string{"key-1", "key-2", "key-3"} {
			got := client.Do(Call{Path: "/v1" + path, Key: path + key})
			require.NoError(t, got.Err)
			require.Equal(t, cmp.Or(test.want, test.status), got.Status, path)
			if test.want != 0 {
				RequireProblem(t, test.want, "transaction_unused", got)
				require.Empty(t, got.Result(), "the key is free")
			}
		}
		require.Equal(t, test.warnings, strings.Count(log.String(), "idem: transaction_unused"), path)
		require.Equal(t, test.warnings, strings.Count(log.String(), "write through gormstore.Tx(ctx)"), "it says what to do")
		require.Equal(t, test.warnings, strings.Count(log.String(), "level=WARN"), path)
	}
}
