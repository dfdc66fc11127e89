package galera

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/httpidem"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/gormstore"
	"github.com/auth19/idem/gormstore/internal/dialect/mysql/suite/subject"
	"github.com/auth19/idem/internal/mariatest"
)

// settings are those of an app's address: see docs/beyond-one-machine.md.
const settings = "?wsrep_sync_wait=1&timeout=5s&readTimeout=20s&writeTimeout=20s"

// world is a cluster with an instance of an app on each node.
type world struct {
	cluster *mariatest.Cluster
	dbs     [mariatest.Nodes]*gorm.DB
	apps    [mariatest.Nodes]http.Handler
	runs    counter // of handlers, by command
	calls   counter // at the provider, by derived key
	keys    counter // the provider's derived keys, by command
	outside bool    // rows are written outside of the attempt

	pause func(node int) // is called in a handler; nil: nothing is
}

func newWorld(t *testing.T, settings string) *world {
	t.Helper()
	w := &world{cluster: mariatest.NewCluster(t)}
	w.cluster.Nodes[0].Exec(t, "CREATE DATABASE app")
	for n, node := range w.cluster.Nodes {
		if n == mariatest.Nodes-1 { // see docs/database.md
			settings += "&multiStatements=true"
		}
		db := open(t, node, settings)
		w.dbs[n] = db
		if n == 0 {
			require.NoError(t, gormstore.Migrate(t.Context(), db))
			// Nothing but the library keeps a command from being booked twice.
			require.NoError(t, db.Exec("CREATE TABLE entry (id bigint PRIMARY KEY AUTO_INCREMENT, command varchar(64) NOT NULL, "+
				"part varchar(16) NOT NULL, run varchar(64) NOT NULL, INDEX (command)) ENGINE=InnoDB").Error)
		}
		w.apps[n] = w.app(t, n)
	}
	return w
}

func open(t *testing.T, node *mariatest.Node, settings string) *gorm.DB {
	t.Helper()
	return subject.Open(t, node.Address()+"app"+settings)
}

// app is an instance over a node.
func (w *world) app(t *testing.T, n int) http.Handler {
	t.Helper()
	st, err := gormstore.New(w.dbs[n], gormstore.Untried())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	idem, err := core.New(core.Config{Store: st, ClaimTimeout: 10 * time.Second, Routes: core.Routes{
		"POST /rollback/{command}": {Recovery: core.Rollback},
		"POST /resume/{command}":   {Recovery: core.Resume, Lease: 6 * time.Second, ResumePause: 100 * time.Millisecond},
		"POST /park/{command}":     {Recovery: core.Park, Lease: 6 * time.Second},
	}})
	require.NoError(t, err)
	caller := httpidem.Bridge(func(*http.Request) (authctx.Principal, error) { return authctx.User("https://shop.example", 17) })
	router := httpidem.NewRouter()
	router.Group("", caller).Handle("GET /operation", httpidem.Operations(idem, operations.Own))
	group := router.Group("", caller, httpidem.Idempotent(idem))
	for recovery, handle := range map[string]func(ctx context.Context, command, run string) error{
		"rollback": w.rollback, "resume": w.resume, "park": w.park,
	} {
		group.HandleFunc("POST /"+recovery+"/{command}", func(answer http.ResponseWriter, r *http.Request) {
			command := recovery + "/" + r.PathValue("command")
			run := fmt.Sprintf("%d at %d", w.runs.add(command), n)
			if w.pause != nil {
				w.pause(n)
			}
			if err := handle(r.Context(), command, run); err != nil {
				http.Error(answer, err.Error(), http.StatusInternalServerError)
				return
			}
			answer.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprint(answer, run)
		})
	}
	return router
}

func (w *world) rollback(ctx context.Context, command, run string) error {
	tx := gormstore.Tx(ctx)
	if w.outside {
		tx = w.dbs[0].WithContext(gormstore.Outside(ctx))
	}
	return book(tx, command, "whole", run)
}

func book(tx *gorm.DB, command, part, run string) error {
	return tx.Exec("INSERT INTO entry (command, part, run) VALUES (?, ?, ?)", command, part, run).Error
}

func (w *world) resume(ctx context.Context, command, run string) error {
	part := func(name string) error {
		return gormstore.StepDo(ctx, name, func(tx *gorm.DB) error { return book(tx, command, name, run) })
	}
	charge := func(_ context.Context, key core.DerivedKey) (string, error) {
		if w.calls.add(key.String()) == 1 {
			w.keys.add(command)
		}
		return "charged", nil
	}
	if err := part("reserve"); err != nil {
		return err
	}
	if _, err := core.Call(ctx, "charge", charge, core.Dedup(time.Hour)); err != nil {
		return err
	}
	return part("capture")
}

// park has no row: the handler itself is what must not happen twice.
func (w *world) park(context.Context, string, string) error { return nil }

// send sends a command to the instance of a node.
func (w *world) send(node int, command string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/"+command, strings.NewReader(`{"amount":"12.50"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", command)
	answer := httptest.NewRecorder()
	w.apps[node].ServeHTTP(answer, r)
	return answer
}

// counter counts by name.
type counter struct {
	mu sync.Mutex
	of map[string]int
}

func (c *counter) add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[name]++
	return c.of[name]
}

func (c *counter) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[name]
}
