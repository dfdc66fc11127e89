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
	v1.POST("/payments", a.stray) // want `POST /v1/payments writes past the attempt: Create at echo5app/`
	v1.POST("/tx", a.tx)
	v1.POST("/conn", a.shared)
	v1.Add("DELETE", "/x", a.stray)                      // want `DELETE /v1/x writes past`
	e.PUT("/single", a.stray, echoidem.Idempotent(idem)) // want `PUT /single writes past`
	e.POST("/free", a.stray)
}

func (a app) stray(c *echo.Context) error { return a.db.Create(&repo.Payment{}).Error }

func (a app) tx(c *echo.Context) error {
	return gormstore.Tx(c.Request().Context()).Create(&repo.Payment{}).Error
}

func (a app) conn(c *echo.Context) *gorm.DB { return a.db.WithContext(c.Request().Context()) }

func (a app) shared(c *echo.Context) error { return a.conn(c).Create(&repo.Payment{}).Error }
