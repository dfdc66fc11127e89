package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gin-gonic/gin"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

var observer = core.LogObserver(slog.Default())

// newIdem returns the module with the table of routes.
func newIdem(ctx context.Context) (*core.Module, error) {
	if err := gormstore.Migrate(ctx, db); err != nil {
		return nil, err
	}
	store, err := gormstore.New(db)
	if err != nil {
		return nil, err
	}
	return core.New(core.Config{Store: store, Observer: observer, Routes: core.Routes{
		"POST /api/transfers": {Recovery: core.Rollback, Unwritten: core.UnwrittenRefused},
		"POST /api/wallet":    {Unguarded: "goes in with the next release"},
		"POST /login":         {Exempt: "a repeat makes one more token"},
	}})
}

// caller returns the user whom the app's own middleware has let pass.
func caller(c *gin.Context) (authctx.Principal, error) {
	return authctx.User("https://wallet.example", c.GetUint("user_id")) // never change the issuer: all keys would be free
}

// audit returns what a route, or its table in the database, lacks.
func audit(ctx context.Context, r *gin.Engine, idem *core.Module) error {
	return errors.Join(ginidem.Audit(r, idem), gormstore.Audit(ctx, db, &Transfer{}))
}
