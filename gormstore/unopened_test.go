package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore"
)

var olga = core.Principal{Issuer: alice.Issuer, Subject: "olga", Roles: []string{"operator"}}

// counter is where callers ask for their operations, and operators look at them.
type counter struct {
	t      *testing.T
	module *core.Module
	pages  http.Handler
}

func newCounter(t *testing.T, st *gormstore.Store) counter {
	t.Helper()
	const settle = "POST /v1/operations/:id/settle"
	m := try(core.New(core.Config{Store: st, Routes: core.Routes{"POST /v1/refunds": {Recovery: core.Resume},
		settle: {Recovery: core.Park, Roles: []string{"operator"}}}, ClaimTimeout: 2 * time.Second,
		OperatorRoles: []core.IssuerRole{{Issuer: olga.Issuer, Role: "operator"}},
		Observer:      core.ObserverFunc(func(context.Context, core.Event) {})})).ok(t)
	return counter{t, m, try(inspect.New(inspect.Config{Module: m, Settle: settle, Prefix: "/", SignIn: "/login",
		Caller: func(*http.Request) (core.Principal, error) { return olga, nil }})).ok(t)}
}

// page is a page that has no fault.
func (c counter) page(method, path string) string {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.pages.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	require.Equal(c.t, http.StatusOK, w.Code, "%s %s: %s", method, path, w.Body)
	return w.Body.String()
}

// asks sends a question of a caller.
func (c counter) asks(p core.Principal, serve func(*http.Request, core.Principal) *core.Reply, body string) *core.Reply {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", "sealed-Park")
	return serve(r, p)
}

// unopened are operations of alice that are completed, half done and unknown, and how an instance comes to be unable to open
// them.
func unopened(t *testing.T, hangs bool, run func(t *testing.T, db *gorm.DB, st *gormstore.Store)) {
	onDatabases(t, []string{"postgres", "sqlite"}, func(t *testing.T, open func(t *testing.T) *gorm.DB) {
		db, keys := open(t), aead(t, "2026-a")
		for name, c := range map[string]struct {
			option gormstore.Option
			change []string
		}{
			"no keys":         {gormstore.Lost("2020-a"), nil},
			"another key":     {gormstore.Unseal(aead(t, "2027-a")), nil},
			"a newer release": {gormstore.Seal(keys), []string{"UPDATE idempotency_record SET answer_encoding = 9", "UPDATE idempotency_step SET encoding = 9"}},
			"torn": {gormstore.Seal(keys), []string{"UPDATE idempotency_record SET body = substr(body, 1, 40) WHERE state = 2",
				"UPDATE idempotency_step SET result = substr(result, 1, 40)"}},
			"panics": {gormstore.Unseal(panicsOpening{}), nil},
			"hangs":  {gormstore.Unseal(hanging{t.Context().Done()}), nil},
		} {
			if hang := name == "hangs"; hang != hangs {
				continue
			}
			t.Run(name, func(t *testing.T) {
				execute(t, db, "DELETE FROM idempotency_step", "DELETE FROM idempotency_record")
				st := asked(t, try(gormstore.New(db, gormstore.Seal(keys))).ok(t))
				requireRecorded(t, sealedCommands(t, st)[core.Park]("sealed-Park"))
				m := newModule(t, st, core.Policy{Recovery: core.Park})
				failed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
				require.Equal(t, http.StatusBadGateway, serve(t, m, "unknown", failed).Code)
				require.Equal(t, http.StatusInternalServerError, newStepApp(t, st).post(charged(errors.New("later"))).Code)
				require.NoError(t, st.Close())
				execute(t, db, c.change...)
				advance(t, db, time.Hour)
				run(t, db, newStore(t, db, c.option))
			})
		}
	})
}

// charged is a handler that makes a call, and ends with err.
func charged(err error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, failed := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (string, error) { return iban, nil },
			core.Dedup(time.Hour))
		return errors.Join(failed, core.Checkpoint(ctx), err)
	}
}

// hanging is an AEAD that opens nothing, and says so never.
type hanging struct{ done <-chan struct{} }

func (h hanging) Encrypt([]byte, []byte) ([]byte, error) { return nil, errors.New("it only opens") }

// panicsOpening is an AEAD that only panics.
type panicsOpening struct{}

func (panicsOpening) Encrypt([]byte, []byte) ([]byte, error) { panic("seal") }
func (panicsOpening) Decrypt([]byte, []byte) ([]byte, error) { panic("open") }

func (h hanging) Decrypt([]byte, []byte) ([]byte, error) { <-h.done; return nil, nil }

// A row that cannot be opened breaks no list, no page, no question about other rows, no sweep and no erasure. Its own caller
// is told 503, and no part of it.
//
// CONTRACT F-9, M-7, M-8, T-3
func TestUnopenedRowBreaksNothing(t *testing.T) {
	t.Parallel()
	unopened(t, false, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		c := newCounter(t, st)
		done, half, unknown := idOf(t, db, 2), idOf(t, db, 1), idOf(t, db, 3)

		require.Contains(t, c.page(http.MethodGet, "/"), "1")
		require.Contains(t, c.page(http.MethodGet, "/operations?state=half_done"), half.String()[:8])
		require.Contains(t, c.page(http.MethodGet, "/operations?state=unknown"), unknown.String()[:8])
		for method, path := range map[string]string{http.MethodGet: "/operations/", http.MethodPost: "/operations/"} {
			for _, id := range []store.ID{done, half} {
				at := path + id.String()
				if method == http.MethodPost {
					at += "/answer"
				}
				require.Contains(t, c.page(method, at), "this instance cannot read it")
			}
		}
		require.NotContains(t, c.page(http.MethodGet, "/operations/"+unknown.String()+"/settle"), iban, "nor has it an example")

		to := func(what operations.Handler) func(r *http.Request, p core.Principal) *core.Reply {
			return func(r *http.Request, p core.Principal) *core.Reply {
				return operations.New(c.module).Serve(what, r, p, done.String())
			}
		}
		for _, question := range []operations.Handler{operations.Show, operations.Own} {
			reply := c.asks(alice, to(question), "")
			require.Equal(t, http.StatusServiceUnavailable, reply.Status, "%s", reply.Body)
			require.NotContains(t, string(reply.Body), "201", "nothing is told")
		}
		reply := c.asks(olga, to(operations.Show), "")
		require.Equal(t, http.StatusOK, reply.Status, "%s", reply.Body)
		require.Contains(t, string(reply.Body), `"partial":true`)
		for question, what := range map[string]operations.Handler{
			"": operations.List, `{"text":"` + done.String() + `"}`: operations.Find} {
			reply := c.asks(olga, to(what), question)
			require.Equal(t, http.StatusOK, reply.Status, "%s", reply.Body)
		}
		erased := try(operations.New(c.module).Erase(t.Context(), operations.Erasure{Principal: alice, Who: "olga", Why: "asked"})).ok(t)
		require.Equal(t, 1, erased.Records)
		require.Len(t, erased.Open, 2, "they are needed, sealed or not")
		require.Equal(t, 0, query[int](t, db, "SELECT count(*) FROM idempotency_record WHERE state = 2 OR body IS NOT NULL"))
		advance(t, db, 40*24*time.Hour)
		require.Equal(t, 1, sweep(t, st, 10).Dropped)
	})
}

// An AEAD that hangs takes half of the time of a question, whatever the number of rows: the rest is enough for the answer.
//
// CONTRACT F-9, X-13
func TestAEADThatHangsBreaksNoPage(t *testing.T) {
	t.Parallel()
	unopened(t, true, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		c, done := newCounter(t, st), idOf(t, db, 2)
		for n := range 20 { // more results of its steps
			execute(t, db, fmt.Sprintf("INSERT INTO idempotency_step (record_id, name, kind, state, fence, started_at, finished_at, "+
				"encoding, result) SELECT record_id, name || '%d', kind, state, fence, started_at, finished_at, encoding, result "+
				"FROM idempotency_step WHERE name = 'charge'", n))
		}
		require.Contains(t, c.page(http.MethodGet, "/operations/"+done.String()), "this instance cannot read it")
		begun := time.Now()
		require.Contains(t, c.page(http.MethodGet, "/operations/"+idOf(t, db, 1).String()), "this instance cannot read it")
		require.Less(t, time.Since(begun), 30*time.Second, "5 s for all results together")
		w := serve(t, newModule(t, st, core.Policy{Recovery: core.Park}), "sealed-Park", http.NotFoundHandler())
		require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
	})
}

// A completed row that cannot be opened becomes a tombstone in its time.
//
// CONTRACT T-3, M-5
func TestUnopenedRowIsSwept(t *testing.T) {
	t.Parallel()
	unopened(t, false, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		advance(t, db, store.DefaultRetention)
		require.Equal(t, 1, sweep(t, st, 10).Tombstones)
		w := serve(t, newModule(t, st, core.Policy{Recovery: core.Park}), "sealed-Park", http.NotFoundHandler())
		require.Contains(t, w.Body.String(), "key_expired")
		require.Equal(t, 0, query[int](t, db, "SELECT count(*) FROM idempotency_record WHERE body IS NOT NULL"))
	})
}

// The attempt of an instance that cannot open the result of a step runs nothing, and counts: the operation waits for its
// next attempt, and an instance that can goes on without a second call.
//
// CONTRACT F-9, X-10, H-4
func TestUnopenedStepWaitsForAnotherInstance(t *testing.T) {
	t.Parallel()
	unopened(t, false, func(t *testing.T, db *gorm.DB, st *gormstore.Store) {
		for attempts := 2; attempts < 5; attempts++ {
			w := newStepApp(t, st).post(func(context.Context) error { t.Error("it runs"); return nil })
			require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
			require.Equal(t, "unknown", w.Header().Get("Idempotency-Result"))
			require.Equal(t, attempts, query[int](t, db, "SELECT attempts FROM idempotency_record WHERE state = 1"))
			again := newStepApp(t, st).post(func(context.Context) error { t.Error("it runs"); return nil })
			if attempts > 2 { // behind the first two there is no pause
				require.Equal(t, "in_flight", again.Header().Get("Idempotency-Problem"), again.Body)
			} else {
				attempts++
			}
			advance(t, db, time.Hour)
		}
		execute(t, db, "UPDATE idempotency_record SET answer_encoding = 1", "UPDATE idempotency_step SET encoding = 2")
		if strings.HasSuffix(t.Name(), "torn") {
			return // nobody can
		}
		require.NoError(t, st.Close())
		calls := 0
		w := newStepApp(t, newStore(t, db, gormstore.Seal(aead(t, "2026-a")))).post(func(ctx context.Context) error {
			got, err := core.Call(ctx, "charge", func(context.Context, core.DerivedKey) (string, error) { calls++; return "", nil },
				core.Dedup(time.Hour))
			require.Equal(t, iban, got)
			return err
		})
		requireRecorded(t, w)
		require.Zero(t, calls)
	})
}

// idOf is the id of the one record in a state.
func idOf(t *testing.T, db *gorm.DB, state int) (id store.ID) {
	t.Helper()
	var b []byte
	require.NoError(t, db.Raw("SELECT id FROM idempotency_record WHERE state = ?", state).Row().Scan(&b))
	require.Equal(t, len(id), copy(id[:], b))
	return id
}
