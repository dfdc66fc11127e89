package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/golang-jwt/jwt/v5"
	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

var observer = core.LogObserver(slog.Default())

// newIdem returns the module with the table of routes.
func newIdem(ctx context.Context, db *gorm.DB) (*core.Module, error) {
	if err := gormstore.Migrate(ctx, db); err != nil {
		return nil, err
	}
	store, err := gormstore.New(db)
	if err != nil {
		return nil, err
	}
	return core.New(core.Config{Store: store, Observer: observer, Routes: core.Routes{
		"POST /v1/orders":        {Recovery: core.Rollback, Unwritten: core.UnwrittenRefused},
		"PUT /v1/shows/:id/like": {Unguarded: "a like too many, until the next release"},
	}})
}

// caller returns whom echo-jwt has let pass.
func caller(c echo.Context) (authctx.Principal, error) {
	token, _ := c.Get("user").(*jwt.Token)
	return authctx.Claims{Issuers: []string{issuer}}.FromToken(token)
}

// audit returns what a route, or its table in the database, lacks.
func audit(ctx context.Context, e *echo.Echo, idem *core.Module, db *gorm.DB) error {
	return errors.Join(echoidem.Audit(e, idem), gormstore.Audit(ctx, db, &Order{}))
}
