// Package app is the part that both example apps share: settings, databases, the idempotency module, and serving.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"

	"gorm.io/gorm"

	"github.com/auth19/idem/authctx"
	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/inspect"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/examples/internal/demo"
	"github.com/auth19/idem/examples/internal/provider"
	"github.com/auth19/idem/examples/internal/shop"
	"github.com/auth19/idem/examples/internal/web"
	"github.com/auth19/idem/gormstore"
)

// App is an example app without its web framework.
type App struct {
	Settings Settings
	DB       *gorm.DB
	Shop     *shop.Shop
	Idem     *core.Module
	Verifier *authctx.Verifier
	Observer core.Observer
	Demo     *demo.Demo // nil outside of demo mode

	Inspector http.Handler // the pages for operators, below /idem/
	SignIn    http.Handler // their sign-in, at /idem-sign-in

	numbers    *inspect.Numbers
	signInLink string // with the operator's ticket; "" where the app cannot make tokens
	closers    []func() error
}

// Sizes of the pools: small enough for several instances on one server with the usual 100 connections.
const (
	connections         = 20
	providerConnections = 4
)

// Open sets up the app by its environment variables, and migrates its tables. What it starts ends with ctx, or with Close.
// The observers are told what is logged, too.
func Open(ctx context.Context, observers ...core.Observer) (_ *App, err error) {
	a := &App{numbers: inspect.NewNumbers()}
	a.Observer = core.Observers(append(observers, core.LogObserver(slog.Default()), a.numbers)...)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if a.Settings, err = LoadSettings(os.Getenv); err != nil {
		return nil, err
	}
	if a.Verifier, err = a.Settings.verifier(ctx); err != nil {
		return nil, err
	}
	if a.DB, err = a.open(ctx, a.Settings.Database, connections); err != nil {
		return nil, err
	}
	// The store comes first: it refuses an SQLite file that another process has, before anything is changed.
	store, err := gormstore.New(a.DB, gormstore.StallAfter(a.Settings.Stall))
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	a.closers = append(a.closers, store.Close)
	if err := gormstore.Migrate(ctx, a.DB); err != nil {
		return nil, err
	}
	if err := database.Migrate(ctx, a.DB, shop.Models()...); err != nil {
		return nil, err
	}
	format, operators := core.AnyKey, core.AnyKey
	if a.Settings.KeyAge > 0 {
		format, operators = core.TimedKey, core.UUIDKey
	}
	table := routes(operators)
	maps.Copy(table, inspectorRoutes())
	if err := a.openDemo(ctx, table); err != nil {
		return nil, err
	}
	service, err := a.provider(ctx)
	if err != nil {
		return nil, err
	}
	a.Shop = shop.New(a.DB, service, a.Settings.Unsafe)
	a.Idem, err = core.New(core.Config{
		Store:  store,
		Routes: table,
		Policy: core.Policy{
			Lease: a.Settings.Lease, Deadline: a.Settings.Deadline, Retention: a.Settings.Retention,
			MaxAttempts: a.Settings.Attempts, KeyFormat: format, KeyAge: a.Settings.KeyAge,
			Unwritten: core.UnwrittenRefused, // each success of a Rollback route writes
		},
		Resume:          map[string]core.Resumer{refunds: a.resumeRefund},
		SupervisorRoles: []core.IssuerRole{{Issuer: issuer, Role: shop.RoleOperator}},
		Observer:        a.Observer,
		PolicyURL:       "/idempotency",
	})
	if err != nil {
		return nil, err
	}
	if a.Inspector, err = a.newInspector(); err != nil {
		return nil, err
	}
	a.SignIn = a.newSignIn()
	return a, nil
}

// resumeRefund answers as the handler of the refunds does, for an operation whose client does not come back.
func (a *App) resumeRefund(ctx context.Context, operation core.Record) (*core.Answer, error) {
	refund, err := a.Shop.ResumeRefund(ctx, operation.ID)
	status, media, answer := http.StatusCreated, "application/json", any(refund)
	if err != nil {
		problem := web.ProblemOf(err)
		if problem.Status >= http.StatusInternalServerError {
			return nil, err // it is tried again later
		}
		status, media, answer = problem.Status, web.ProblemType, problem
	}
	body, err := json.Marshal(answer)
	return &core.Answer{Status: status, Header: http.Header{"Content-Type": {media}}, Body: body}, err
}

// provider returns the payment provider: another service if the settings name one, else the simulator.
func (a *App) provider(ctx context.Context) (shop.Provider, error) {
	if a.Settings.ProviderURL != "" {
		return provider.NewRemote(a.Settings.ProviderURL, a.Settings.ProviderToken)
	}
	ledger, err := a.open(ctx, a.Settings.Database.Provider(), providerConnections)
	if err != nil {
		return nil, err
	}
	return provider.New(ledger), database.Migrate(ctx, ledger, provider.Models()...)
}

// open opens a database and remembers to close it.
func (a *App) open(ctx context.Context, address database.Address, connections int) (*gorm.DB, error) {
	db, err := address.Open(ctx, connections)
	if err == nil {
		a.closers = append(a.closers, func() error { return database.Close(db) })
	}
	return db, err
}

// Close closes what Open has opened, in reverse order.
func (a *App) Close() error {
	var errs []error
	for len(a.closers) > 0 {
		last := len(a.closers) - 1
		errs = append(errs, a.closers[last]())
		a.closers = a.closers[:last]
	}
	return errors.Join(errs...)
}
