// Package echo5app is an app on Echo v5.
package echo5app

import (
	"github.com/labstack/echo/v5"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemvet/testdata/repo"
	"github.com/auth19/idem/echoidem/v5"
	"github.com/auth19/idem/gormstore"
)

type app struct{ db *gorm.DB }

func mount(e *echo.Echo, idem *core.Module, a app) {
	v1 := e.Group("/v1", echoidem.Idempotent(idem))
	v1.POST("/payments", a.stray)                        // guarded POST /v1/payments
	v1.POST("/tx", a.tx)                                 // guarded POST /v1/tx
	v1.POST("/conn", a.shared)                           // guarded POST /v1/conn
	v1.Add("DELETE", "/x", a.stray)                      // guarded DELETE /v1/x
	e.PUT("/single", a.stray, echoidem.Idempotent(idem)) // guarded PUT /single
	e.POST("/free", a.stray)
}

func (a app) stray(c *echo.Context) error { return a.db.Create(&repo.Payment{}).Error } // want `straywrite: Create goes past the attempt`

func (a app) tx(c *echo.Context) error {
	return gormstore.Tx(c.Request().Context()).Create(&repo.Payment{}).Error
}

func (a app) conn(c *echo.Context) *gorm.DB { return a.db.WithContext(c.Request().Context()) }

func (a app) shared(c *echo.Context) error { return a.conn(c).Create(&repo.Payment{}).Error } // want `straywrite: Create has the request's context, but`
