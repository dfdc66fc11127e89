package drill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the database is read without the apps
	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/crashtest"
	"github.com/auth19/idem/internal/apptest"
	"github.com/auth19/idem/internal/pgtest"
)

const (
	lease    = time.Second
	patience = 10 * time.Minute // of a busy machine, on which all takes its time
)

// lane is a database, and one life of an app after the other.
type lane struct {
	testing.TB
	url   string
	db    *sql.DB
	side  side
	app   *apptest.Process // nil: none is alive
	gates *crashtest.Gates
	made  int // commands
	left  int // commands that the older app has left alone
}

func newLane(t testing.TB) *lane {
	l := &lane{TB: t, url: pgtest.URL(t)}
	db, err := sql.Open("pgx", l.url)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	l.db = db
	t.Cleanup(func() {
		l.kill()
		require.NoError(t, db.Close())
	})
	return l
}

// start starts an app of the side, on the database at url. A busy machine may lose many attempts, and parks none for that.
func start(t testing.TB, s side, url string) *apptest.Process {
	return apptest.Start(t, s.program, t.TempDir(), "DATABASE_URL="+url, "LEASE="+lease.String(), "DEADLINE=10s", "ATTEMPTS=1000")
}

// be makes the living app one of the side.
func (l *lane) be(s side) {
	l.Helper()
	if l.app != nil && l.side.name == s.name {
		return
	}
	l.kill()
	l.gates = crashtest.NewGates()
	url, err := l.gates.Postgres(l.url)
	require.NoError(l, err)
	l.side, l.app = s, start(l, s, url)
}

// kill kills the app with SIGKILL, and waits until the server has no work of it any more.
func (l *lane) kill() {
	if l.app == nil {
		return
	}
	l.app.Kill(l)
	l.gates.Close()
	l.app = nil
	for apps := 1; apps > 0; time.Sleep(time.Millisecond) {
		require.NoError(l, l.db.QueryRowContext(context.WithoutCancel(l.Context()), `SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&apps))
	}
}

// command is one that a client sends, and repeats.
type command struct {
	apptest.Request
	id      core.ID
	effects map[string]int // what it brings about, once
	unknown bool           // outcome_unknown is a correct answer
}

// kind makes commands of a route.
type kind func(send func(command) apptest.Response, tokens map[string]string, name string) command

// payment is a command of a Rollback route.
func payment(_ func(command) apptest.Response, tokens map[string]string, name string) command {
	return of("customer-1", tokens, "/v1/payments", name, `{"order_id":"`+name+`","amount":"10.00","currency":"EUR","method":"pm_ok"}`,
		map[string]int{"payment": 1})
}

// refund is a command of a Resume route, of a payment that it makes before.
func refund(send func(command) apptest.Response, tokens map[string]string, name string) command {
	paid := send(payment(nil, tokens, "paid-"+name))
	return of("customer-1", tokens, paid.Header.Get("Location")+"/refunds", name, `{"amount":"4.00"}`,
		map[string]int{"refund": 1, "provider": 1})
}

// payout is a command of a Park route.
func payout(_ func(command) apptest.Response, tokens map[string]string, name string) command {
	c := of("seller-1", tokens, "/v1/payouts", name, `{"amount":"7.00","currency":"EUR","method":"pm_ok"}`,
		map[string]int{"payout": 1, "provider": 1})
	c.unknown = true // the provider cannot be asked twice
	return c
}

func of(who string, tokens map[string]string, path, key, body string, effects map[string]int) command {
	id := core.Scoping{}.RecordID(core.Principal{Issuer: "https://issuer.example", Subject: who}, key)
	return command{id: id, effects: effects,
		Request: apptest.Request{Method: http.MethodPost, Path: path, Token: tokens[who], Key: key, Body: body}}
}

// command makes a new command of a kind, in an app that has worked before and is at rest.
func (l *lane) command(route kind) command {
	l.Helper()
	l.made++
	c := route(l.persist, l.app.Tokens, fmt.Sprintf("c-%d", l.made))
	require.NoError(l, l.gates.Rest(patience))
	l.gates.Count()
	return c
}

// final reports whether a client stops repeating after this answer (C-2).
func final(r apptest.Response) bool {
	return r.Status < 500 && r.Code() != string(core.CodeInFlight) && r.Status != http.StatusTooManyRequests
}

// until sends a request again and again until done returns true for its answer.
func (l *lane) until(r apptest.Request, done func(apptest.Response) bool) apptest.Response {
	l.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		answer, err := l.app.Try(l.Context(), r)
		if err == nil && done(answer) {
			return answer
		}
		if time.Now().After(deadline) {
			require.FailNow(l, "there is no final answer", "%s: %v, %d %s\n%s", r.Path, err, answer.Status, answer.Body, l.app.Log())
		}
	}
}

// persist repeats a command until its answer is final, and once more.
func (l *lane) persist(c command) apptest.Response {
	l.Helper()
	answer := l.until(c.Request, final)
	again := l.until(c.Request, final)
	require.Equal(l, answer.Status, again.Status, again.Body)
	require.Equal(l, answer.Body, again.Body)
	return answer
}

// effects counts what the commands have done, by their operations and by names.
func effects(t testing.TB, db *sql.DB) map[string]map[string]int {
	rows, err := db.QueryContext(t.Context(), `SELECT operation_id, kind, count(*) FROM ledger GROUP BY 1, 2
UNION ALL SELECT operation, 'provider', count(*) FROM provider_charges GROUP BY 1`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	counted := map[string]map[string]int{}
	for rows.Next() {
		var operation, name string
		var count int
		require.NoError(t, rows.Scan(&operation, &name, &count))
		if counted[operation] == nil {
			counted[operation] = map[string]int{}
		}
		counted[operation][name] = count
	}
	require.NoError(t, rows.Err())
	return counted
}

// effects counts what a command has done.
func (l *lane) effects(c command) map[string]int { return effects(l, l.db)[c.id.String()] }

// row is what an attempt changes in a record.
type row struct {
	Version         int16
	Fence, Attempts int64
}

// record reads the record of a command. There may be none.
func (l *lane) record(c command) (r row, there bool) {
	err := l.db.QueryRowContext(l.Context(), "SELECT hash_version, fence, attempts FROM idempotency_record WHERE id = $1", c.id[:]).
		Scan(&r.Version, &r.Fence, &r.Attempts)
	if !errors.Is(err, sql.ErrNoRows) {
		require.NoError(l, err)
	}
	return r, err == nil
}
