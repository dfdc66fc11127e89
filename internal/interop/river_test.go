package interop_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
)

// riverTx is the attempt's transaction as River takes it.
type riverTx struct {
	gormstore.PgxDBTX
	others // deeper, so PgxDBTX's methods win
}

// others are Begin, Commit and the rest: River needs none of them to insert a job, and they panic.
type others struct{ pgx.Tx }

// Conn is asked for its settings: those of pgx's default.
func (riverTx) Conn() *pgx.Conn { return nil }

// receipt is a job.
type receipt struct {
	Operation string `json:"operation"`
}

func (receipt) Kind() string { return "receipt" }

// sendReceipt adds the job with the attempt: it is there if and only if the payment is.
func sendReceipt(ctx context.Context, jobs *river.Client[pgx.Tx]) error {
	tx, ok := gormstore.PgxTx(ctx)
	if !ok {
		return errNoAttempt
	}
	operation, _ := core.Operation(ctx)
	_, err := jobs.InsertTx(ctx, riverTx{PgxDBTX: tx}, receipt{Operation: operation.String()}, nil)
	return err
}

// A job of River commits with the rows and the answer, and is undone with them.
//
// CONTRACT Q-2
func TestRiver(t *testing.T) {
	pool, db := openPool(t)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	require.NoError(t, err)
	store, err := gormstore.New(db)
	require.NoError(t, err)
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	require.NoError(t, err)
	var failing atomic.Bool
	app := httpidem.NewRouter()
	app.Use(httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return authctx.User(shop, 17) }), httpidem.Idempotent(idem))
	app.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		if err := sendReceipt(r.Context(), jobs); err != nil || failing.Load() {
			http.Error(w, fmt.Sprint(err), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	send := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(`{"amount":"12.50"}`))
		r.Header.Set(wire.HeaderKey, key)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		return w
	}
	waiting := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM river_job WHERE kind = 'receipt'").Scan(&n))
		return n
	}
	w := send("a")
	require.Equal(t, http.StatusCreated, w.Code, w.Body)
	require.Equal(t, wire.ResultReused, send("a").Header().Get(wire.HeaderResult))
	require.Equal(t, 1, waiting())
	failing.Store(true)
	require.Equal(t, http.StatusInternalServerError, send("b").Code)
	require.Equal(t, 1, waiting(), "undone with the attempt")
	require.ErrorIs(t, sendReceipt(t.Context(), jobs), errNoAttempt)
}
