// Package echoapp is an app on Echo.
package echoapp

import (
	"context"
	"database/sql"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemvet/testdata/repo"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

type app struct {
	db    *gorm.DB
	plain *sql.DB
}

func mount(e *echo.Echo, idem *core.Module, a app) {
	v1 := e.Group("/v1", echoidem.Idempotent(idem))
	v1.POST("/payments", a.stray)                        // guarded POST /v1/payments
	v1.POST("/tx", a.tx)                                 // guarded POST /v1/tx
	e.PUT("/single", a.stray, echoidem.Idempotent(idem)) // guarded PUT /single
	e.POST("/free", a.stray)
	v1.POST("/kept", a.kept, keepTx)   // guarded POST /v1/kept
	v1.POST("/own", own, a.ownContext) // guarded POST /v1/own
	v1.POST("/embedded", a.embedded)   // guarded POST /v1/embedded
}

func (a app) stray(c echo.Context) error { return a.db.Create(&repo.Payment{}).Error } // want `straywrite: Create goes past the attempt`

func (a app) tx(c echo.Context) error {
	return gormstore.Tx(c.Request().Context()).Create(&repo.Payment{}).Error
}

// execer is what the repositories write through: the app's database, or a transaction that middleware keeps.
type execer interface {
	Exec(ctx context.Context, query string, args ...any) error
}

type plainDB struct{ db *sql.DB }

func (p plainDB) Exec(ctx context.Context, query string, args ...any) error {
	_, err := p.db.ExecContext(ctx, query, args...) // the attempt's transaction is in the context
	return err
}

type attemptTx struct{ tx gormstore.DBTX }

func (a *attemptTx) Exec(ctx context.Context, query string, args ...any) error {
	_, err := a.tx.ExecContext(ctx, query, args...)
	return err
}

func keepTx(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		tx, ok := gormstore.SQLTx(c.Request().Context())
		if !ok {
			return echo.ErrInternalServerError
		}
		c.Set("tx", &attemptTx{tx})
		return next(c)
	}
}

func (a app) conn(c echo.Context) execer {
	if tx, ok := c.Get("tx").(execer); ok {
		return tx
	}
	return plainDB{a.plain}
}

func (a app) kept(c echo.Context) error {
	return a.conn(c).Exec(c.Request().Context(), "INSERT INTO payments (amount) VALUES ($1)", 1)
}

// embedding is the app's database, and more.
type embedding struct{ *sql.DB }

func (a app) embedded(c echo.Context) error {
	if _, err := (embedding{a.plain}).begin().ExecContext(c.Request().Context(), "DELETE FROM payments"); err != nil { // want `straywrite: ExecContext goes past`
		return err
	}
	_, err := (embedding{a.plain}).begin().ExecContext(c.Request().Context(), "DELETE FROM payments") // want `straywrite: ExecContext goes past`
	return err
}

func (e embedding) begin() gormstore.DBTX { return e }

// ownContext is a context of the app's own, with its database beside the request.
type ownContext struct {
	echo.Context

	db *gorm.DB
}

func (a app) ownContext(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error { return next(&ownContext{c, a.db}) }
}

// own writes without the request's context: the write guard does not see it.
func own(c echo.Context) error {
	return c.(*ownContext).db.Begin().Create(&repo.Payment{}).Error // want `straywrite: Create goes past the attempt`
}
