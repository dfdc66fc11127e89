package interop_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
)

// An app in layers, without GORM: its transaction manager keeps a *sql.Tx in the context, and its repositories take it there.
// docs/databases-and-mappers.md shows what changes.

type txKey struct{}

type manager struct{ db *sql.DB }

// Do runs fn in a transaction.
func (m manager) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	if _, ok := gormstore.SQLTx(ctx); ok {
		return fn(ctx) // the attempt commits, with the answer
	}
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(context.WithValue(ctx, txKey{}, tx)); err != nil {
		return err
	}
	return tx.Commit()
}

// conn is what repositories run their statements on.
func conn(ctx context.Context, db *sql.DB) gormstore.DBTX {
	if tx, ok := gormstore.SQLTx(ctx); ok { // first
		return tx
	}
	if tx, ok := ctx.Value(txKey{}).(*sql.Tx); ok {
		return tx
	}
	return db
}

// withdrawal is the money table as the audit wants it. The app uses no GORM, and the model for nothing else.
type withdrawal struct{ gormstore.Once }

func (withdrawal) TableName() string { return "withdrawals" }

// errBookedBefore: the second line has found a row of another command.
var errBookedBefore = errors.New("this operation has booked another command")

// errNoOperation: a job without an attempt has to give its rows an id of its own.
var errNoOperation = errors.New("withdrawals are booked in an attempt")

type withdrawals struct{ db *sql.DB }

// add books a withdrawal, once for each operation. created is false if an earlier attempt has booked it.
func (w withdrawals) add(ctx context.Context, amount int) (created bool, err error) {
	tx := conn(ctx, w.db)
	operation, ok := core.Origin(ctx) // of the attempt, or of a message
	if !ok {
		return false, errNoOperation // all jobs together could book one row
	}
	command, _ := core.CommandHashOf(ctx)
	result, err := tx.ExecContext(ctx, `INSERT INTO withdrawals (operation_id, command_hash, amount) VALUES ($1, $2, $3)
		ON CONFLICT (operation_id) DO NOTHING`, operation.String(), command.String(), amount)
	if err != nil {
		return false, err
	}
	if n, err := result.RowsAffected(); n == 1 || err != nil {
		return n == 1, err
	}
	var before string // an earlier attempt has booked it, and its record was lost
	const booked = `SELECT command_hash FROM withdrawals WHERE operation_id = $1`
	if err := tx.QueryRowContext(ctx, booked, operation.String()).Scan(&before); err != nil {
		return false, err
	}
	if before != command.String() {
		return false, errBookedBefore
	}
	return false, nil // its other rows are there too
}

// CONTRACT D-1, D-2, D-3, X-6
func TestTransactionManager(t *testing.T) {
	pool, db := openPool(t)
	own, err := db.DB()
	require.NoError(t, err)
	for _, statement := range []string{
		"CREATE TABLE withdrawals (id bigserial PRIMARY KEY, operation_id varchar(64) NOT NULL, command_hash varchar(70) NOT NULL, amount int)",
		"CREATE TABLE audit (amount int CHECK (amount < 1000))",
	} {
		_, err = pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	store, err := gormstore.New(db)
	require.NoError(t, err)
	require.ErrorContains(t, gormstore.Audit(t.Context(), db, &withdrawal{}), "money table withdrawals")
	_, err = pool.Exec(t.Context(), "CREATE UNIQUE INDEX ON withdrawals (operation_id)")
	require.NoError(t, err)
	require.NoError(t, gormstore.Audit(t.Context(), db, &withdrawal{}))

	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	require.NoError(t, err)
	service, repository := manager{own}, withdrawals{own}
	withdraw := func(ctx context.Context, amount int) error {
		return service.Do(ctx, func(ctx context.Context) error {
			created, err := repository.add(ctx, amount)
			if err != nil || !created {
				return err
			}
			_, err = conn(ctx, own).ExecContext(ctx, "INSERT INTO audit VALUES ($1)", amount)
			return err
		})
	}
	app := httpidem.NewRouter()
	app.Use(httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return authctx.User(shop, 17) }), httpidem.Idempotent(idem))
	amounts := map[string]int{"7": 7, "8": 8, "1000": 1000}
	app.HandleFunc("POST /withdrawals", func(w http.ResponseWriter, r *http.Request) {
		switch err := withdraw(r.Context(), amounts[r.Header.Get("Amount")]); {
		case errors.Is(err, errBookedBefore):
			w.WriteHeader(http.StatusConflict)
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	send := func(key, amount string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/withdrawals", strings.NewReader(`{"amount":`+amount+`}`))
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Amount", amount)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		return w
	}
	rows := func() (n int) {
		var audited int
		const both = "SELECT (SELECT count(*) FROM withdrawals), (SELECT count(*) FROM audit)"
		require.NoError(t, pool.QueryRow(t.Context(), both).Scan(&n, &audited))
		require.Equal(t, n, audited, "a row that was there before is booked with nothing else")
		return n
	}

	require.Equal(t, http.StatusCreated, send("first", "7").Code)
	require.Equal(t, wire.ResultReused, send("first", "7").Header().Get(wire.HeaderResult))
	require.Equal(t, 1, rows())
	require.Equal(t, http.StatusInternalServerError, send("fails", "1000").Code)
	require.Equal(t, 1, rows(), "the manager has committed nothing by itself")

	_, err = pool.Exec(t.Context(), "DELETE FROM idempotency_record")
	require.NoError(t, err)
	w := send("first", "7")
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, wire.ResultCreated, w.Header().Get(wire.HeaderResult))
	require.Equal(t, 1, rows(), "the second line")
	_, err = pool.Exec(t.Context(), "DELETE FROM idempotency_record")
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, send("first", "8").Code)
	require.Equal(t, 1, rows())

	require.ErrorIs(t, withdraw(t.Context(), 7), errNoOperation)
	job := func(amount int) error {
		return service.Do(t.Context(), func(ctx context.Context) error {
			_, err := conn(ctx, own).ExecContext(ctx, "INSERT INTO audit VALUES ($1)", amount)
			return err
		})
	}
	require.NoError(t, job(7), "a job without an attempt has a transaction of its own")
	require.Error(t, job(1000))
	var audited int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM audit").Scan(&audited))
	require.Equal(t, 2, audited)
}
