package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

// app makes the apps that are compared: the same command over the same pool, with this library, by hand, and without a key.
type app struct {
	style
	on opened
}

// principal is the one client of all apps.
var principal = core.Principal{Issuer: "https://issuer.example", Subject: "alice"}

// patience bounds a claim. It is longer than an app should wait, so that a busy machine shows in the figures and does not
// end the benchmark.
const patience = 30 * time.Second

// keyed is an app with this library. There is no framework and no token on either side: an adapter adds the same to both.
func (a app) keyed(recovery core.Recovery, do work) http.Handler {
	m, err := core.New(core.Config{Store: a.on.store, ClaimTimeout: patience, Policy: core.Policy{Recovery: recovery}})
	if err != nil {
		panic(err) // a mistake in the line above
	}
	return guarded(m, unkeyed(do))
}

// guarded is a handler behind a module.
func guarded(m *core.Module, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, refused := m.Admit(r, path, principal)
		if refused != nil {
			_ = refused.WriteTo(w)
			return
		}
		attempt, refused := m.Begin(r, path, principal)
		if refused != nil { // or replayed
			_ = refused.WriteTo(w)
			return
		}
		handler.ServeHTTP(attempt.Capture(w), attempt.Request())
		if answer := attempt.Finish(); answer != nil {
			_ = answer.WriteTo(w)
		}
	})
}

// rollback writes one row in the attempt's transaction.
func (a app) rollback() http.Handler {
	return a.keyed(core.Rollback, func(ctx context.Context, key string) error { return a.attempt(ctx).insert(ctx, key) })
}

// sealedRollback is rollback on a store that seals.
func (a app) sealedRollback() http.Handler {
	a.on.store = a.on.sealed
	return a.rollback()
}

// failing writes nothing and answers 500.
func (a app) failing() http.Handler {
	return a.keyed(core.Rollback, func(context.Context, string) error { return errors.New("nothing was written") })
}

// park writes nothing.
func (a app) park() http.Handler {
	return a.keyed(core.Park, func(context.Context, string) error { return nil })
}

// gin is a whole app, without tokens, whose handler does such work.
func (a app) gin(do work, guards ...gin.HandlerFunc) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(ginidem.Bridge(func(*gin.Context) (authctx.Principal, error) { return principal, nil }))
	r.POST(path, append(guards, func(c *gin.Context) {
		if err := handle(c.Writer, c.Request, do); err != nil {
			fail(c.Writer, err)
		}
	})...)
	return r
}

// ginBare writes the row in a transaction of the app's.
func (a app) ginBare() http.Handler { return a.gin(a.insert) }

// ginRollback is rollback in such an app.
func (a app) ginRollback() http.Handler {
	m, err := core.New(core.Config{Store: a.on.store, ClaimTimeout: patience, Policy: core.Policy{Recovery: core.Rollback}})
	if err != nil {
		panic(err) // a mistake in the line above
	}
	return a.gin(func(ctx context.Context, key string) error { return a.attempt(ctx).insert(ctx, key) }, ginidem.Idempotent(m))
}

// resume is resumeWith one call.
func (a app) resume() http.Handler { return a.resumeWith(1) }

// resumeWith writes a row, and then so many times calls a provider that answers at once and changes the row.
func (a app) resumeWith(calls int) http.Handler {
	answersAtOnce := func(context.Context, core.DerivedKey) error { return nil }
	return a.keyed(core.Resume, func(ctx context.Context, key string) error {
		err := gormstore.StepDo(ctx, "reserve", func(tx *gorm.DB) error { return a.step(tx).insert(ctx, key) })
		for i := 0; i < calls && err == nil; i++ {
			if err = core.CallDo(ctx, "charge"+strconv.Itoa(i), answersAtOnce, core.Dedup(time.Hour)); err != nil {
				break
			}
			err = gormstore.StepDo(ctx, "book"+strconv.Itoa(i), func(tx *gorm.DB) error { return a.step(tx).update(ctx, key) })
		}
		return err
	})
}
