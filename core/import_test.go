package core_test

import (
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/memstore"
	"github.com/auth19/idem/core/operations"
	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/core/wire"
)

// past is a row of a home-grown table that is an hour old.
func past(key string, edits ...func(*operations.Past)) operations.Past {
	row := operations.Past{
		Principal: alice, Key: key, Method: http.MethodPost, Route: pattern, CreatedAt: time.Now().Add(-time.Hour),
		Answer: &core.Answer{Status: http.StatusCreated, Body: []byte("paid before"),
			Header: http.Header{"content-type": {"text/plain"}, "Set-Cookie": {"secret"}}},
	}
	for _, edit := range edits {
		edit(&row)
	}
	return row
}

func rowsOf(rows ...operations.Past) iter.Seq2[operations.Past, error] {
	return func(yield func(operations.Past, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// CONTRACT F-4, K-10, M-3, R-3, M-4, X-7
func TestImport(t *testing.T) {
	// What an old table has in upper case is found by the lower case that clients have to send from now on.
	t.Run("import of UUIDs in upper case", func(t *testing.T) {
		const key = "0193a8f3-9f6e-7c3a-8b1d-2f4c6e8a0b1c"
		a := newApp(t, core.Config{Policy: core.Policy{Recovery: core.Park, KeyFormat: core.UUIDKey}}, created)
		done, err := operations.New(a.module).Import(t.Context(), rowsOf(past(strings.ToUpper(key))))
		require.NoError(t, err)
		require.Equal(t, store.Imported{Added: 1}, done)
		require.Equal(t, "paid before", a.post(key, `{}`).Body.String())
		requireProblem(t, a.post(strings.ToUpper(key), `{}`), http.StatusBadRequest, core.CodeKeyInvalid)
	})
	t.Run("import", func(t *testing.T) {
		a := importing(t)
		done, err := operations.New(a.module).Import(t.Context(), rowsOf(past("key-1")))
		require.NoError(t, err)
		require.Equal(t, store.Imported{Added: 1}, done)

		for _, body := range []string{`{"amount":1}`, `{"amount":2}`} { // the hash is not known, and any command matches
			w := a.post("key-1", body)
			require.Equal(t, http.StatusCreated, w.Code)
			require.Equal(t, "paid before", w.Body.String())
			require.Equal(t, "text/plain", w.Header().Get("Content-Type"))
			require.Empty(t, w.Header().Get("Set-Cookie"))
			require.Equal(t, wire.ResultReused, w.Header().Get(wire.HeaderResult))
		}
		require.Zero(t, a.ran())
		// CONTRACT S-1
		a.postAs(core.Principal{Issuer: alice.Issuer, Subject: "bob"}, "key-1", "")
		require.Equal(t, 1, a.ran())

		done, err = operations.New(a.module).Import(t.Context(), rowsOf(past("key-1", func(p *operations.Past) { p.Answer.Body = []byte("other") })))
		require.NoError(t, err)
		require.Equal(t, store.Imported{Left: 1}, done)
		require.Equal(t, "paid before", a.post("key-1", "").Body.String())
	})
	t.Run("import unknown", func(t *testing.T) {
		a := importing(t)
		_, err := operations.New(a.module).Import(t.Context(), rowsOf(past("key-1", func(p *operations.Past) { p.Answer = nil })))
		require.NoError(t, err)
		requireProblem(t, a.post("key-1", ""), http.StatusConflict, core.CodeOutcomeUnknown)
		require.Zero(t, a.ran())
		_, err = operations.New(a.module).Settle(t.Context(), core.Scoping{}.RecordID(alice, "key-1"), core.Decision{Who: "operator", Why: "asked"})
		require.ErrorIs(t, err, store.ErrNotSettleable, "an old instance may still be at work")
	})
	t.Run("more rows than go to the store at a time", func(t *testing.T) {
		a := importing(t)
		rows := make([]operations.Past, 0, 250)
		for i := range 250 {
			rows = append(rows, past("key-"+time.Duration(i).String()))
		}
		done, err := operations.New(a.module).Import(t.Context(), rowsOf(rows...))
		require.NoError(t, err)
		require.Equal(t, store.Imported{Added: 250}, done)
	})
	t.Run("the first instance of the new release gave the key back; the old table has its answer", func(t *testing.T) {
		a := importing(t)
		a.handler = notApplied(status(http.StatusServiceUnavailable))
		require.Equal(t, http.StatusServiceUnavailable, a.post("key-1", `{}`).Code)
		done, err := operations.New(a.module).Import(t.Context(), rowsOf(past("key-1"), past("key-2")))
		require.NoError(t, err)
		require.Equal(t, store.Imported{Added: 1, Replaced: 1}, done)
		a.handler = created
		require.Equal(t, "reused", a.post("key-1", `{}`).Header().Get("Idempotency-Result"))
		require.Equal(t, 1, a.ran())
	})
}

// The old system has carried out a command that comes again. While the new attempt runs, the import cannot protect its key,
// and must not look as if it had.
//
// CONTRACT F-4
func TestImportOfAKeyWhoseAttemptRuns(t *testing.T) {
	a := importing(t)
	take := func() store.Imported {
		done, err := operations.New(a.module).Import(t.Context(), rowsOf(past("key-1"), past("key-2")))
		require.NoError(t, err)
		return done
	}
	var during, still store.Imported
	a.handler = notApplied(func(w http.ResponseWriter, r *http.Request) {
		during, still = take(), take()
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	require.Equal(t, http.StatusServiceUnavailable, a.post("key-1", `{}`).Code)
	require.Equal(t, store.Imported{Added: 1, Running: 1}, during)
	require.Equal(t, store.Imported{Left: 1, Running: 1}, still)
	require.False(t, still.Done(), "the attempt has given the key back")

	again := take()
	require.Equal(t, store.Imported{Replaced: 1, Left: 1}, again)
	require.False(t, again.Done())
	last := take()
	require.Equal(t, store.Imported{Left: 2}, last)
	require.True(t, last.Done())
	require.Equal(t, "reused", a.post("key-1", `{}`).Header().Get(wire.HeaderResult))
	require.Equal(t, 1, a.ran())
}

func importing(t *testing.T) *app {
	return newApp(t, core.Config{Routes: core.Routes{
		"POST " + pattern: {Recovery: core.Park, MaxAnswer: 100},
		"PATCH /profile":  {Exempt: "moves no money"},
	}}, created)
}

// CONTRACT T-2, M-5, R-4
func TestImportRetention(t *testing.T) {
	st := memstore.New()
	idem := newModule(t, core.Config{Store: st, Policy: core.Policy{Recovery: core.Park, MaxAnswer: 100}})
	now := time.Now()
	for name, test := range map[string]struct {
		created, expires time.Duration // before and after now; 0 leaves ExpiresAt out
		state            store.State
		left             time.Duration // of retention
	}{
		"the route's own":  {time.Hour, 0, store.Completed, 71 * time.Hour},
		"too short":        {time.Hour, time.Hour, store.Completed, 23 * time.Hour},
		"as it was":        {time.Hour, 40 * time.Hour, store.Completed, 40 * time.Hour},
		"too long":         {time.Hour, 700 * time.Hour, store.Completed, 71 * time.Hour},
		"over":             {80 * time.Hour, -time.Hour, store.Expired, -8 * time.Hour},
		"tombstone's over": {2000 * time.Hour, 0, store.Free, 0},
		"all is over":      {2000 * time.Hour, -time.Hour, store.Free, 0},
	} {
		t.Run(name, func(t *testing.T) {
			row := past(strings.ReplaceAll(name, " ", "-"))
			row.CreatedAt = now.Add(-test.created)
			if test.expires != 0 {
				row.ExpiresAt = now.Add(test.expires)
			}
			done, err := operations.New(idem).Import(t.Context(), rowsOf(row))
			require.NoError(t, err)
			rec, err := st.Find(t.Context(), core.Scoping{}.RecordID(alice, row.Key), store.Viewer{All: true})
			if test.state == store.Free {
				require.Equal(t, store.Imported{Over: 1}, done)
				require.ErrorIs(t, err, core.ErrNotFound)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.state, rec.State())
			require.Equal(t, test.left, rec.ExpiresAt.Sub(now))
			require.Equal(t, store.DefaultTombstone, rec.PurgeAt.Sub(rec.ExpiresAt))
			require.Equal(t, http.StatusCreated, rec.Answer.Status)
			require.Equal(t, test.state == store.Completed, len(rec.Answer.Body) > 0)
		})
	}

	// The old table still holds a key whose tombstone would be over. CONTRACT F-4
	old := past("old", func(p *operations.Past) { p.CreatedAt, p.ExpiresAt = now.Add(-2000*time.Hour), now.Add(time.Hour) })
	done, err := operations.New(idem).Import(t.Context(), rowsOf(old))
	require.NoError(t, err)
	require.Equal(t, store.Imported{Added: 1}, done)
	held := find(t, st, "old")
	require.Equal(t, store.Expired, held.State())
	require.True(t, held.PurgeAt.Equal(old.ExpiresAt), "as long as the old table")

	row := past("large", func(p *operations.Past) {
		p.Answer.Body, p.Answer.Header = make([]byte, 101), http.Header{"location": {"/1"}, "Etag": {"2"}}
	})
	_, err = operations.New(idem).Import(t.Context(), rowsOf(row))
	require.NoError(t, err)
	rec := find(t, st, "large")
	require.Equal(t, core.Answer{Status: http.StatusCreated, Header: http.Header{"Location": {"/1"}}, Partial: true}, rec.Answer)
}

func TestImportRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*operations.Past)
		want string
	}{
		"5xx":          {func(p *operations.Past) { p.Answer.Status = 500 }, "leave Answer out"},
		"undeclared":   {func(p *operations.Past) { p.Route = "/other" }, `"POST /other" is not a guarded route`},
		"exempt":       {func(p *operations.Past) { p.Method, p.Route = "PATCH", "/profile" }, "is not a guarded route"},
		"safe":         {func(p *operations.Past) { p.Method = "GET" }, "is not a guarded route"},
		"nobody":       {func(p *operations.Past) { p.Principal.Subject = "" }, "Principal"},
		"no key":       {func(p *operations.Past) { p.Key = "" }, "Key: want 1 to 255"},
		"key of words": {func(p *operations.Past) { p.Key = "a key" }, "Key: want 1 to 255"},
		"no time":      {func(p *operations.Past) { p.CreatedAt = time.Time{} }, "CreatedAt"},
		"the future":   {func(p *operations.Past) { p.CreatedAt = time.Now().Add(time.Minute) }, "CreatedAt"},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := operations.New(importing(t).module).Import(t.Context(), rowsOf(past("fine"), past("key-1", test.edit)))
			require.ErrorContains(t, err, "idem: Import: operation ")
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "key-1") // CONTRACT K-6
			require.Zero(t, done)
		})
	}

	failing := errors.New("connection lost")
	_, err := operations.New(importing(t).module).Import(t.Context(), func(yield func(operations.Past, error) bool) { yield(operations.Past{}, failing) })
	require.ErrorIs(t, err, failing)

	a := newApp(t, core.Config{Store: memstore.New(memstore.WithMaxRecords(1))}, created)
	_, err = operations.New(a.module).Import(t.Context(), rowsOf(past("key-1"), past("key-2")))
	require.ErrorIs(t, err, store.ErrFull)
}
