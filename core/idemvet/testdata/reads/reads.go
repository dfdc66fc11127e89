// Package reads reads past the attempt what the attempt has written.
package reads

import (
	"context"
	"database/sql"
	"errors"

	"github.com/labstack/echo/v4"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/echoidem"
	"github.com/auth19/idem/gormstore"
)

type Order struct{ ID, Total uint }

type Line struct{ ID, OrderID uint }

func (Line) TableName() string { return "shop.order_lines" }

// Cart has a list, which GORM creates with it, and one that is a column.
type Cart struct {
	ID    uint
	Items []Item
	Notes []Note `gorm:"serializer:json"`
}

type Item struct{ ID, CartID uint }

type Note struct{ ID uint }

type app struct {
	db  *gorm.DB
	own *sql.DB
	s   *service
}

func mount(e *echo.Echo, idem *core.Module, db *gorm.DB, own *sql.DB) {
	a := &app{db, own, &service{db}}
	g := e.Group("", echoidem.Idempotent(idem))
	g.POST("/layers", a.layers)     // guarded POST /layers
	g.POST("/ways", a.ways)         // guarded POST /ways
	g.POST("/texts", a.texts)       // guarded POST /texts
	g.POST("/before", a.before)     // guarded POST /before
	g.POST("/branches", a.branches) // guarded POST /branches
	g.POST("/failed", a.failed)     // guarded POST /failed
	g.POST("/resumed", a.resumed)   // guarded POST /resumed
	g.POST("/twice", a.twice)       // guarded POST /twice
	g.POST("/meant", a.meant)       // guarded POST /meant
	g.POST("/lists", a.lists)       // guarded POST /lists
	g.POST("/locked", a.locked)     // guarded POST /locked
}

type service struct{ db *gorm.DB }

// place writes the order's lines through the attempt.
func (s *service) place(ctx context.Context) (Order, error) {
	order := Order{}
	err := gormstore.Tx(ctx).Transaction(func(tx *gorm.DB) error {
		return errors.Join(tx.Create(&order).Error, tx.Create(&[]Line{{OrderID: order.ID}}).Error)
	})
	return order, err
}

func (s *service) lines(of uint) (all []Line) {
	s.db.Where("order_id = ?", of).Find(&all) // want `strayread: Find reads order_lines past the attempt.*POST /layers: layers > lines`
	return all
}

// The controller reads the order's lines back after the service has written them.
func (a *app) layers(c echo.Context) error {
	order, err := a.s.place(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(201, a.s.lines(order.ID))
}

func (a *app) ways(c echo.Context) error {
	ctx := c.Request().Context()
	tx := gormstore.Tx(ctx)
	tx.Model(&Order{}).Where("id = ?", 1).Update("total", 2)
	var order Order
	var n int64
	a.db.First(&order)                                                                                   // want `strayread: First reads orders`
	a.db.WithContext(ctx).Model(&Order{}).Count(&n)                                                      // want `strayread: Count reads orders`
	a.db.Table("orders").Pluck("id", &[]uint{})                                                          // want `strayread: Pluck reads orders`
	a.db.Raw("SELECT * FROM orders WHERE id = ?", 1).Scan(&order)                                        // want `strayread: Scan reads orders`
	_, _ = gorm.G[Order](a.db).First(ctx)                                                                // want `strayread: First reads orders`
	_ = a.own.QueryRowContext(ctx, "SELECT o.id FROM lines l JOIN public.\"orders\" o ON true").Scan(&n) // want `strayread: QueryRowContext reads orders`
	tx.First(&order)
	a.db.Find(&[]Line{})
	_ = a.own.QueryRowContext(ctx, "SELECT 'from orders'").Scan(&n)
	return nil
}

const (
	insertOrder = "INSERT INTO orders (id) VALUES ($1)"
	selectOrder = "SELECT id FROM orders WHERE id = $1"
)

func (a *app) texts(c echo.Context) error {
	ctx := c.Request().Context()
	tx, _ := gormstore.SQLTx(ctx)
	_, _ = tx.ExecContext(ctx, insertOrder, 1)
	_ = a.own.QueryRowContext(ctx, selectOrder, 1).Scan(new(int)) // want `strayread: QueryRowContext reads orders`
	_ = a.own.QueryRowContext(ctx, "SELECT id FROM "+c.Param("table")).Scan(new(int))
	_ = tx.QueryRowContext(ctx, selectOrder, 1).Scan(new(int))
	return nil
}

// A read in front of the write sees what was committed.
func (a *app) before(c echo.Context) error {
	var order Order
	for range 2 {
		a.db.First(&order)
		gormstore.Tx(c.Request().Context()).Save(&order)
	}
	return nil
}

func (a *app) branches(c echo.Context) error {
	if c.QueryParam("new") != "" {
		gormstore.Tx(c.Request().Context()).Create(&Order{})
		return nil
	}
	return c.JSON(200, a.db.First(&Order{}).Error)
}

// Behind a failed write the attempt's transaction cannot read.
func (a *app) failed(c echo.Context) error {
	tx := gormstore.Tx(c.Request().Context())
	if err := tx.Create(&Order{}).Error; errors.Is(err, gorm.ErrDuplicatedKey) {
		a.db.First(&Order{})
		return echo.ErrConflict
	} else if err != nil {
		a.db.First(&Order{})
		return err
	}
	return nil
}

// A call, or a checkpoint, has committed what stands in front of it.
func (a *app) resumed(c echo.Context) error {
	ctx := c.Request().Context()
	_ = gormstore.StepDo(ctx, "reserve", func(tx *gorm.DB) error { return tx.Create(&Order{}).Error })
	a.db.First(&Order{}) // want `strayread: First reads orders`
	_ = core.Checkpoint(ctx)
	a.db.Last(&Order{})
	_ = gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return tx.Save(&Order{}).Error })
	a.db.Take(&Order{}) // want `strayread: Take reads orders`
	return nil
}

// twice calls a method in front of the write, and behind it.
func (a *app) twice(c echo.Context) error {
	a.s.total()
	gormstore.Tx(c.Request().Context()).Create(&Order{})
	a.s.total()
	return nil
}

func (s *service) total() {
	var n int64
	s.db.Model(&Order{}).Count(&n) // want `strayread: Count reads orders.*POST /twice`
}

func (a *app) meant(c echo.Context) error {
	ctx := c.Request().Context()
	gormstore.Tx(ctx).Create(&Order{})
	a.db.WithContext(gormstore.Outside(ctx)).First(&Order{})
	//idemvet:ignore the last order but this one is asked for
	a.db.Last(&Order{})
	go func() { a.db.First(&Order{}) }()
	return nil
}

func (a *app) lists(c echo.Context) error {
	cart := Cart{Items: []Item{{}}}
	gormstore.Tx(c.Request().Context()).Create(&cart)
	a.db.Find(&[]Item{}) // want `strayread: Find reads items`
	a.db.Find(&[]Note{})
	return nil
}

// Rows that are locked are not changed by that.
func (a *app) locked(c echo.Context) error {
	tx := gormstore.Tx(c.Request().Context())
	tx.Clauses(clause.Locking{Strength: "UPDATE"}).First(&Order{})
	tx.Raw("SELECT id FROM orders WHERE id = 1 FOR UPDATE").Scan(new(uint))
	a.db.First(&Order{})
	return nil
}
