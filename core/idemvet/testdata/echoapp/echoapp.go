// Package echoapp is an app on Echo.
package echoapp

import (
	"github.com/labstack/echo/v4"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemvet/testdata/repo"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

type app struct{ db *gorm.DB }

func mount(e *echo.Echo, idem *core.Module, a app) {
	v1 := e.Group("/v1", echoidem.Idempotent(idem))
	v1.POST("/payments", a.stray)                        // guarded POST /v1/payments
	v1.POST("/tx", a.tx)                                 // guarded POST /v1/tx
	e.PUT("/single", a.stray, echoidem.Idempotent(idem)) // guarded PUT /single
	e.POST("/free", a.stray)
}

func (a app) stray(c echo.Context) error { return a.db.Create(&repo.Payment{}).Error } // want `straywrite: Create goes past the attempt`

func (a app) tx(c echo.Context) error {
	return gormstore.Tx(c.Request().Context()).Create(&repo.Payment{}).Error
}
