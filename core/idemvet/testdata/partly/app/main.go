// Command app is whole. Beside it are packages that are not, and that it does not import.
package main

import (
	"github.com/gin-gonic/gin"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemvet/testdata/partly/lib"
	"github.com/auth19/idem/ginidem"
)

func main() { mount(gin.New(), nil, nil) }

func mount(r *gin.Engine, idem *core.Module, db *gorm.DB) {
	r.POST("/pay", ginidem.Idempotent(idem), func(*gin.Context) { lib.Save(db) })
}
