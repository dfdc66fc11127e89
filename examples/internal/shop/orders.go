package shop

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// OrderInput is the body of POST /v1/orders.
type OrderInput struct {
	CustomerID string `json:"customer_id"`
	Items      []Item `json:"items"`
}

// Item is a line of an order.
type Item struct {
	SKU   string `json:"sku"`
	Qty   int64  `json:"qty"`
	Price string `json:"price"`
}

// States of an order.
const (
	orderOpen      = "open"
	orderCancelled = "cancelled"
)

// Order is an order and its answer.
type Order struct {
	gormstore.Once `json:"-"`
	ID             string `gorm:"primaryKey;size:32" json:"id"`
	Owner          string `gorm:"size:64;not null" json:"-"`
	CustomerID     string `gorm:"not null" json:"customer_id"`
	Items          []Item `gorm:"serializer:json;not null" json:"items"`
	Status         string `gorm:"size:16;not null" json:"status"`
}

const (
	maxItems = 100
	maxQty   = 1_000_000_000
)

func (in OrderInput) check() error {
	if len(in.Items) == 0 || len(in.Items) > maxItems {
		return &InvalidError{"items", fmt.Sprintf("1 to %d items", maxItems)}
	}
	err := checkText("customer_id", in.CustomerID)
	for _, item := range in.Items {
		_, priceErr := parseAmount("items.price", item.Price)
		err = cmp.Or(err, checkText("items.sku", item.SKU), priceErr)
		if item.Qty < 1 || item.Qty > maxQty {
			err = cmp.Or[error](err, &InvalidError{"items.qty", fmt.Sprintf("a whole number from 1 to %d", maxQty)})
		}
	}
	return err
}

// PlaceOrder reserves the pieces of an order, on a Rollback route. A customer always orders for itself, and
// customer_id is ignored. A seller orders for the customer of that name in its own tenant.
func (s *Shop) PlaceOrder(ctx context.Context, p core.Principal, in OrderInput) (*Order, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	owner := p
	if !p.HasAnyRole(RoleCustomer) {
		owner.Subject = in.CustomerID
	}
	order := &Order{ID: newID("ord"), Owner: ownerOf(owner), CustomerID: in.CustomerID, Items: in.Items, Status: orderOpen}
	tx := gormstore.Tx(ctx)
	created, err := gormstore.CreateOnce(tx, order)
	if err != nil || !created {
		return order, err
	}
	return order, reserve(tx, order.Items)
}

// CancelOrder cancels an order of the caller and gives its pieces back, on a Rollback route.
func (s *Shop) CancelOrder(ctx context.Context, p core.Principal, id string) (*Order, error) {
	if !isID(id) {
		return nil, ErrNotFound
	}
	tx := gormstore.Tx(ctx)
	cancelled := tx.Model(&Order{}).Where("id = ? AND owner = ? AND status = ?", id, ownerOf(p), orderOpen).
		Update("status", orderCancelled)
	if cancelled.Error != nil {
		return nil, cancelled.Error
	}
	order, err := findOrder(tx, p, id)
	switch {
	case err != nil:
		return nil, err
	case cancelled.RowsAffected == 0:
		return nil, ErrAlreadyCancelled
	}
	return order, giveBack(tx, order.Items)
}

// Order returns an order of the caller.
func (s *Shop) Order(ctx context.Context, p core.Principal, id string) (*Order, error) {
	return findOrder(s.db.WithContext(ctx), p, id)
}

// findOrder finds an order of the caller. An order of another caller is not found.
func findOrder(db *gorm.DB, p core.Principal, id string) (*Order, error) {
	if !isID(id) {
		return nil, ErrNotFound
	}
	var order Order
	err := db.Where("id = ? AND owner = ?", id, ownerOf(p)).Take(&order).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, ErrNotFound
	}
	return &order, err
}
