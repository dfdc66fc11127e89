// Package mounted is an app on Gin.
package mounted

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/idemvet/testdata/repo"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

var db *gorm.DB

var routes = core.Routes{
	"POST /v1/payments": {Recovery: core.Rollback},
	"POST /v1/park":     {Recovery: core.Park},
	"PATCH /v1/name":    {Exempt: "sets a name"},
	"PUT /v1/later":     {Unguarded: "goes in with release 12"},
}

type app struct {
	db       *gorm.DB
	payments repo.Payments
}

func mount(r *gin.Engine, idem *core.Module, a *app) {
	r.POST("/free", a.field) // not guarded
	v1 := r.Group("/v1", ginidem.Idempotent(idem))
	v1.POST("/payments", a.field) // guarded POST /v1/payments
	v1.POST("/park", a.field)     // guarded POST /v1/park
	v1.PATCH("/name", a.field)    // guarded PATCH /v1/name
	v1.GET("/payments", a.field)
	v1.PUT("/later", func(*gin.Context) { a.db.Create(&repo.Payment{}) }) // guarded PUT /v1/later
	v1.POST("/tx", a.tx)                                                  // guarded POST /v1/tx
	v1.POST("/ctx", a.withContext)                                        // guarded POST /v1/ctx
	v1.POST("/gin", a.ginContext)                                         // guarded POST /v1/gin
	v1.POST("/session", a.ginSession)                                     // guarded POST /v1/session
	v1.POST("/derived", a.ginDerived)                                     // guarded POST /v1/derived
	v1.POST("/background", a.background)                                  // guarded POST /v1/background
	v1.POST("/todo", a.todo)                                              // guarded POST /v1/todo
	v1.POST("/timeout", a.timeout)                                        // guarded POST /v1/timeout
	v1.POST("/conn", a.connBackground)                                    // guarded POST /v1/conn
	v1.POST("/kept", a.kept)                                              // guarded POST /v1/kept
	r.POST("/free/gin", a.ginContext)                                     // not guarded
	v1.POST("/global", global)                                            // guarded POST /v1/global
	v1.POST("/given", a.given)                                            // guarded POST /v1/given
	v1.POST("/layers", a.layers)                                          // guarded POST /v1/layers
	v1.POST("/built", built(a.db))                                        // guarded POST /v1/built
	v1.POST("/meant", a.meant)                                            // guarded POST /v1/meant
	v1.POST("/literal", func(c *gin.Context) {                            // guarded POST /v1/literal
		a.db.Create(&repo.Payment{}) // want `straywrite: Create goes past the attempt`
	})
	nested := v1.Group("/nested")
	nested.DELETE("/x", global) // guarded DELETE /v1/nested/x
	more(v1.Group("/more"))
	late := r.Group("/late")
	late.Use(ginidem.Idempotent(idem))
	late.POST("/x", global) // guarded POST /late/x
	chained := r.Group("chained/").Use(ginidem.Idempotent(idem))
	chained.POST("x", global)                                     // guarded POST /chained/x
	r.POST("/single", ginidem.Idempotent(idem), global)           // guarded POST /single
	r.Handle("POST", "/handle", ginidem.Idempotent(idem), global) // guarded POST /handle
	guard := ginidem.Idempotent(idem)
	guard = wrapped(guard)
	h := a.field
	h = wrapped(h)
	r.POST("/wrapped", guard, h) // guarded POST /wrapped
}

func wrapped(h gin.HandlerFunc) gin.HandlerFunc { return h }

func more(g *gin.RouterGroup) { g.PUT("/x", global) } // guarded PUT /v1/more/x

func (a *app) field(c *gin.Context) { a.db.Create(&repo.Payment{}) } // want `straywrite: Create goes past the attempt`

func (a *app) tx(c *gin.Context) {
	ctx := c.Request.Context()
	tx := gormstore.Tx(ctx)
	tx.Create(&repo.Payment{})
	_ = repo.Save(tx, &repo.Payment{})
	_ = repo.New(tx).Forget(&repo.Payment{})
	_ = gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return tx.Create(&repo.Payment{}).Error })
	_ = repo.Audits{DB: a.db}.Note(ctx, &repo.Payment{})
	var found []repo.Payment
	a.db.Find(&found) // want `strayread: Find reads payments`
}

func (a *app) withContext(c *gin.Context) {
	db := a.db.WithContext(c.Request.Context())
	db.Model(&repo.Payment{}).Where("id = ?", 1).Update("id", 2)                      // want `straywrite: Update has the request's context, but`
	a.db.Session(&gorm.Session{Context: c.Request.Context()}).Create(&repo.Payment{}) // want `straywrite: Create has the request's context, but`
}

func (a *app) ginContext(c *gin.Context) { a.db.WithContext(c).Create(&repo.Payment{}) } // want `straywrite: Create goes past the attempt`

func (a *app) ginSession(c *gin.Context) {
	a.db.Session(&gorm.Session{Context: c}).Save(&repo.Payment{}) // want `straywrite: Save goes past the attempt`
}

func (a *app) ginDerived(c *gin.Context) {
	var ctx context.Context = c
	ctx = context.WithValue(ctx, app{}, 1)
	a.db.Session(&gorm.Session{Context: ctx}).Save(&repo.Payment{}) // want `straywrite: Save goes past the attempt`
}

func (a *app) background(c *gin.Context) {
	a.db.WithContext(context.Background()).Create(&repo.Payment{}) // want `straywrite: Create goes past the attempt`
}

func (a *app) todo(c *gin.Context) {
	a.db.Session(&gorm.Session{Context: context.TODO()}).Delete(&repo.Payment{}) // want `straywrite: Delete goes past the attempt`
}

func (a *app) timeout(c *gin.Context) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.db.WithContext(ctx).Model(&repo.Payment{}).Update("id", 4) // want `straywrite: Update goes past the attempt`
}

func (a *app) conn(ctx context.Context) *gorm.DB { return a.db.WithContext(ctx) }

func (a *app) connBackground(c *gin.Context) { a.conn(context.Background()).Create(&repo.Payment{}) } // want `straywrite: Create goes past the attempt`

// kept writes through the attempt, or on purpose not. The request's context alone is not enough.
func (a *app) kept(c *gin.Context) {
	gormstore.Tx(c.Request.Context()).WithContext(c).Create(&repo.Payment{})
	gormstore.Tx(c.Request.Context()).WithContext(context.Background()).Create(&repo.Payment{})
	ctx := context.Background()
	if c.Request != nil {
		ctx = c.Request.Context()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	a.db.WithContext(ctx).Create(&repo.Payment{}) // want `straywrite: Create has the request's context, but`
	a.connOf(c).Create(&repo.Payment{})           // want `straywrite: Create has the request's context, but`
	a.orBackground(ctx)
	a.db.WithContext(gormstore.Outside(context.Background())).Create(&repo.Payment{}) // on purpose
}

func (a *app) connOf(c *gin.Context) *gorm.DB { return a.db.WithContext(c.Request.Context()) }

func (a *app) orBackground(ctx context.Context) {
	if ctx == nil {
		ctx = context.Background()
	}
	a.db.WithContext(ctx).Create(&repo.Payment{}) // want `straywrite: Create has the request's context, but`
}

func global(c *gin.Context) { db.Exec("DELETE FROM payments") } // want `straywrite: Exec goes past the attempt`

func (a *app) given(c *gin.Context) { _ = repo.Save(a.db, &repo.Payment{}) }

func (a *app) layers(c *gin.Context) {
	_ = a.payments.Book(c.Request.Context(), &repo.Payment{})
	_ = a.payments.Forget(&repo.Payment{})
}

func built(db *gorm.DB) gin.HandlerFunc {
	return func(c *gin.Context) { db.Model(&repo.Payment{}).Update("id", 3) } // want `straywrite: Update goes past the attempt`
}

func (a *app) meant(c *gin.Context) {
	//idemvet:ignore the audit log stays, whatever becomes of the payment
	a.db.Create(&repo.Payment{})
	//idemvet:ignore
	_ = c
}

func contexts(c *gin.Context) {
	gormstore.Tx(c)                    // want `attemptctx: Tx is given a context that does not carry`
	gormstore.Tx(context.Background()) // want `attemptctx: Tx is given a context that does not carry`
	core.KeepRows(context.TODO())      // want `attemptctx: KeepRows is given`
	gormstore.Tx(c.Request.Context())
}

func goroutines(c *gin.Context) {
	ctx := c.Request.Context()
	tx := gormstore.Tx(ctx)
	go func() { tx.Create(&repo.Payment{}) }()  // want `a goroutine uses the attempt's transaction`
	go func() { _ = gormstore.Tx(ctx) }()       // want `a goroutine uses the attempt's transaction`
	go func(tx *gorm.DB) { tx.Create(nil) }(tx) // want `a goroutine uses the attempt's transaction`
	go func() { db.Create(&repo.Payment{}) }()
	tx.Create(&repo.Payment{})
}
