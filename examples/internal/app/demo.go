package app

import (
	"context"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/examples/internal/database"
	"github.com/auth19/idem/examples/internal/demo"
)

// isDemo reports whether the app runs for somebody who tries it: with its embedded database and the secret that everybody
// knows. Only then are there the routes of the demo, which hand out tokens and break answers.
func (s Settings) isDemo() bool {
	return s.Database.IsEmbedded() && s.JWTSecret == developmentSecret && s.JWKSURL == ""
}

// openDemo adds the demo to the table of routes, and its table to the database. Outside of demo mode it does nothing, and
// a.Demo stays nil.
func (a *App) openDemo(ctx context.Context, table core.Routes) error {
	if !a.Settings.isDemo() {
		return nil
	}
	a.Demo = demo.New(a.DB, func(name, role string) (string, error) {
		return a.Settings.sign(name, role, time.Now())
	})
	maps.Copy(table, demo.Routes())
	return database.Migrate(ctx, a.DB, demo.Models()...)
}

// withFaults puts the faults of the demo in front of the router, in demo mode.
func (a *App) withFaults(address net.Addr, router http.Handler) http.Handler {
	if a.Demo == nil {
		return router
	}
	return a.Demo.Faults(address.String(), router)
}
