// Package shapes writes past the attempt in the ways that apps have.
package shapes

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/sync/errgroup"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/ginidem"
	"github.com/auth19/idem/gormstore"
)

type payment struct {
	ID    uint
	Items []item
}

type item struct{ ID, PaymentID uint }

type app struct {
	*gorm.DB // embedded
	book     func(ctx context.Context, p *payment) error
	audits   map[string]func()
	ctx      context.Context
	tx       manager
}

func mount(r *gin.Engine, idem *core.Module, db *gorm.DB) {
	a := &app{DB: db, ctx: context.Background(), tx: manager{db}}
	a.book = func(_ context.Context, p *payment) error {
		return db.Create(p).Error // want `straywrite: Create goes past the attempt.*POST /function-field: functionField > `
	}
	a.audits = map[string]func(){"paid": a.audit}
	g := r.Group("", ginidem.Idempotent(idem), a.touch)
	g.POST("/embedded", a.embedded)                  // guarded POST /embedded
	g.POST("/function-field", a.functionField)       // guarded POST /function-field
	g.POST("/function-map", a.functionMap)           // guarded POST /function-map
	g.POST("/association", a.association)            // guarded POST /association
	g.POST("/raw", a.raw)                            // guarded POST /raw
	g.POST("/replaced", a.replaced)                  // guarded POST /replaced
	g.POST("/generic", a.generic)                    // guarded POST /generic
	g.POST("/goroutines", a.goroutines)              // guarded POST /goroutines
	g.POST("/tx-goroutines", a.txGoroutines)         // guarded POST /tx-goroutines
	g.POST("/contexts", a.contexts)                  // guarded POST /contexts
	g.POST("/begun", a.begun)                        // guarded POST /begun
	g.POST("/own-transaction", a.ownTransaction)     // guarded POST /own-transaction
	g.POST("/manager", a.managed)                    // guarded POST /manager
	g.POST("/copied", a.copied)                      // guarded POST /copied
	g.POST("/unit", a.unitOfWork)                    // guarded POST /unit
	g.POST("/set", a.put, a.taken)                   // guarded POST /set
	g.POST("/call", a.call)                          // guarded POST /call
	g.POST("/deferred", a.deferred)                  // guarded POST /deferred
	g.POST("/generic-handler", handle(a.bookGently)) // guarded POST /generic-handler
	g.POST("/recursive", a.recursive)                // guarded POST /recursive

	own := r.Group("", ginidem.Idempotent(idem))
	own.POST("/decorated", decorated(db, decorated(db, a.innermost, a.checks), a.checks)) // guarded POST /decorated
	r.POST("/unguarded", decorated(db, a.unguarded, a.unguarded))
}

// touch is middleware behind the guard.
func (a *app) touch(c *gin.Context) {
	a.Model(&payment{}).Update("id", 1) // want `straywrite: Update goes past the attempt.* and 19 more: touch\]`
	c.Next()
}

func (a *app) embedded(*gin.Context) {
	a.Create(&payment{}) // want `straywrite: Create goes past`
}

func (a *app) functionField(c *gin.Context) { _ = a.book(c.Request.Context(), &payment{}) }

func (a *app) functionMap(*gin.Context) { a.audits["paid"]() }

func (a *app) audit() {
	a.Save(&payment{}) // want `straywrite: Save goes past`
}

func (a *app) association(c *gin.Context) {
	p := &payment{}
	_ = gormstore.Tx(c.Request.Context()).Model(p).Association("Items").Append(&item{})
	_ = a.Model(p).Association("Items").Append(&item{}) // want `straywrite: Append goes past`
	_ = a.Model(p).Association("Items").Clear()         // want `straywrite: Clear goes past`
	_ = a.Model(p).Association("Items").Find(&p.Items)
}

const insert = "-- a payment\nINSERT INTO payments (id) VALUES (?) RETURNING id"

func (a *app) raw(c *gin.Context) {
	var id uint
	gormstore.Tx(c.Request.Context()).Raw(insert, 1).Scan(&id)
	a.Raw(insert, 1).Scan(&id)                                                             // want `straywrite: Raw goes past`
	a.Raw("WITH p AS (UPDATE payments SET id = 2 RETURNING id) SELECT * FROM p").Scan(&id) // want `straywrite: Raw goes past`
	a.Raw("SELECT id FROM payments WHERE state = 'to update'").Scan(&id)                   // want `strayread: Scan reads payments`
	a.Raw("SELECT id FROM payments FOR NO KEY UPDATE").Scan(&id)                           // want `straywrite: Raw goes past`
	a.Clauses(clause.Locking{Strength: "UPDATE"}).First(&payment{}, id)                    // want `straywrite: First goes past`
	gormstore.Tx(c.Request.Context()).Clauses(clause.Locking{Strength: "UPDATE"}).First(&payment{}, id)
	a.Clauses(clause.OrderBy{}).First(&payment{}, id) // want `strayread: First reads payments`
	own := gormstore.Tx(c.Request.Context()).Begin()  // want `txbegin: Begin on the attempt's transaction fails`
	own.Create(&payment{})
	_ = gormstore.Tx(c.Request.Context()).Transaction(func(tx *gorm.DB) error { return tx.Create(&payment{}).Error })
	a.Exec("SET LOCAL lock_timeout = 100")
	a.Exec("UPDATE " + c.Param("table") + " SET id = 3") // want `straywrite: Exec goes past`
}

func (a *app) replaced(c *gin.Context) {
	tx := gormstore.Tx(c.Request.Context())
	tx.Create(&payment{})
	tx = a.DB
	tx.Create(&payment{}) // want `straywrite: Create goes past`
	db := a.DB
	if c.Query("plain") == "" {
		db = gormstore.Tx(c.Request.Context())
	}
	db.Create(&payment{})
}

func (a *app) generic(c *gin.Context) {
	ctx := c.Request.Context()
	_ = gorm.G[payment](gormstore.Tx(ctx)).Create(ctx, &payment{})
	_ = gorm.G[payment](a.DB).Create(context.Background(), &payment{})     // want `straywrite: Create goes past`
	_ = gorm.G[payment](a.DB).Create(ctx, &payment{})                      // want `straywrite: Create has the request's context, but`
	_, _ = gorm.G[payment](a.DB).Where("id = ?", 1).Update(a.ctx, "id", 2) // want `straywrite: Update goes past`
	_, _ = gorm.G[payment](a.DB).Where("id = ?", 1).First(ctx)             // want `strayread: First reads payments`
}

func (a *app) goroutines(c *gin.Context) {
	go a.later()
	go func() {
		a.Delete(&payment{}) // want `straywrite: Delete in a goroutine is no part of the attempt`
	}()
	time.AfterFunc(time.Second, func() {
		a.Delete(&payment{}) // want `straywrite: Delete in a goroutine`
	})
	var group errgroup.Group
	group.Go(func() error {
		return a.Delete(&payment{}).Error // want `straywrite: Delete in a goroutine`
	})
	_ = group.Wait()
	go func() {
		var all []payment
		a.Find(&all)
	}()
}

func (a *app) later() {
	a.Create(&payment{}) // want `straywrite: Create in a goroutine`
}

func (a *app) txGoroutines(c *gin.Context) {
	ctx := c.Request.Context()
	tx := gormstore.Tx(ctx)
	time.AfterFunc(0, func() {
		tx.Create(&payment{}) // want `txgoroutine: a goroutine uses`
	})
	go save(tx)
	go a.note(ctx)
	_ = gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error {
		go tx.Create(&payment{}) // want `txgoroutine: a goroutine uses`
		return nil
	})
}

func save(tx *gorm.DB) {
	tx.Save(&payment{}) // want `txgoroutine: a goroutine uses`
}

func (a *app) note(ctx context.Context) {
	tx := gormstore.Tx(ctx) // want `txgoroutine: a goroutine uses`
	var all []payment
	tx.Find(&all)
}

func (a *app) contexts(c *gin.Context) {
	a.looks(c.Request.Context())
	a.asks(c.Copy())
	a.asks(context.Background())
	_ = gormstore.Tx(a.ctx)      // want `attemptctx: Tx is given a context that does not carry the attempt`
	_, _ = core.Operation(a.ctx) // want `attemptctx: Operation is given`
}

func (a *app) looks(ctx context.Context) { gormstore.Tx(ctx).Create(&payment{}) }

func (a *app) asks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	gormstore.Tx(ctx).Create(&payment{}) // want `attemptctx: Tx is given`
}

func (a *app) begun(c *gin.Context) {
	tx := a.WithContext(c.Request.Context()).Begin()
	defer tx.Rollback()
	tx.Create(&payment{}) // want `straywrite: Create has the request's context, but`
	tx.Commit()
}

func (a *app) ownTransaction(c *gin.Context) {
	_ = a.Transaction(func(tx *gorm.DB) error {
		return tx.Create(&payment{}).Error // want `straywrite: Create goes past`
	})
	_ = gormstore.Tx(c.Request.Context()).Transaction(func(tx *gorm.DB) error { return tx.Create(&payment{}).Error })
}

// manager keeps a transaction in the context, as many apps do.
type manager struct{ db *gorm.DB }

type key struct{}

func (m manager) do(ctx context.Context, f func(ctx context.Context) error) error {
	return f(context.WithValue(ctx, key{}, gormstore.Tx(ctx)))
}

func (m manager) ownDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.db.Transaction(func(tx *gorm.DB) error { return f(context.WithValue(context.Background(), key{}, tx)) })
}

func (m manager) conn(ctx context.Context) *gorm.DB {
	if tx, ok := ctx.Value(key{}).(*gorm.DB); ok {
		return tx
	}
	return m.db
}

func (a *app) managed(c *gin.Context) {
	_ = a.tx.do(c.Request.Context(), func(ctx context.Context) error { return a.tx.conn(ctx).Create(&payment{}).Error })
	_ = a.tx.ownDo(c.Request.Context(), func(ctx context.Context) error {
		return a.tx.conn(ctx).Create(&payment{}).Error // want `straywrite: Create goes past`
	})
}

// repositories is a service whose copy has another transaction, but forgets the audit log.
type repositories struct{ payments, audits *repository }

type repository struct{ db *gorm.DB }

func (r *repository) withTx(tx *gorm.DB) *repository { return &repository{db: tx} }

func (r *repository) add() {
	r.db.Create(&payment{}) // want `straywrite: Create goes past.*POST /copied: copied > add`
}

func (r *repository) book() { r.db.Create(&payment{}) }

func (a *app) copied(c *gin.Context) {
	all := repositories{&repository{a.DB}, &repository{a.DB}}
	bound := repositories{payments: all.payments.withTx(gormstore.Tx(c.Request.Context())), audits: all.audits}
	bound.payments.book()
	bound.audits.add()
}

// unit is filled by a method of its own.
type unit struct{ tx *gorm.DB }

func (u *unit) begin(ctx context.Context) { u.tx = gormstore.Tx(ctx) }

func (u *unit) save() { u.tx.Save(&payment{}) }

func (a *app) unitOfWork(c *gin.Context) {
	u := new(unit)
	u.begin(c.Request.Context())
	u.save()
}

// put is middleware that keeps the transaction for the handler.
func (a *app) put(c *gin.Context) {
	c.Set("tx", gormstore.Tx(c.Request.Context()))
	c.Next()
}

func (a *app) taken(c *gin.Context) { c.MustGet("tx").(*gorm.DB).Create(&payment{}) }

// call is what core.Call runs: no transaction is open there.
func (a *app) call(c *gin.Context) {
	_ = core.CallDo(c.Request.Context(), "charge", func(ctx context.Context, _ core.DerivedKey) error {
		return a.WithContext(ctx).Create(&payment{}).Error
	})
}

func (a *app) deferred(*gin.Context) {
	defer func() {
		a.Save(&payment{}) // want `straywrite: Save goes past`
	}()
}

type form struct{ ID uint }

func (a *app) bookGently(_ context.Context, f form) error {
	return a.Create(&payment{ID: f.ID}).Error // want `straywrite: Create goes past.*POST /generic-handler`
}

func handle[T any](serve func(context.Context, T) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		var in T
		_ = c.ShouldBindJSON(&in)
		_ = serve(c.Request.Context(), in)
	}
}

type node struct{ children []*node }

// recursive has a closure that calls itself.
func (a *app) recursive(*gin.Context) {
	var walk func(n *node)
	walk = func(n *node) {
		a.Save(&payment{}) // want `straywrite: Save goes past.*POST /recursive: recursive > `
		for _, child := range n.children {
			walk(child)
		}
	}
	walk(new(node))
}

type step func(c *gin.Context)

// decorated puts a closure around itself, once for each step.
func decorated(db *gorm.DB, h gin.HandlerFunc, steps ...step) gin.HandlerFunc {
	for i := range steps {
		next, run := h, steps[i]
		h = func(c *gin.Context) {
			db.Delete(&payment{}) // want `straywrite: Delete goes past.*POST /decorated: `
			run(c)
			next(c)
		}
	}
	return h
}

func (a *app) innermost(*gin.Context) {
	a.Create(&payment{}) // want `straywrite: Create goes past.*POST /decorated: innermost`
}

func (a *app) checks(*gin.Context) {
	a.Create(&payment{}) // want `straywrite: Create goes past.*POST /decorated: .* > checks`
}

func (a *app) unguarded(*gin.Context) { a.Create(&payment{}) }

// Outside of guarded routes.
func worker(a *app) {
	a.Create(&payment{})
	tx := gormstore.Tx(context.Background()) // want `attemptctx: Tx is given`
	go tx.Create(&payment{})                 // want `txgoroutine: a goroutine uses`
}
