// Package repo is a layer of an app that knows nothing of routes.
package repo

import (
	"context"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

type Payment struct{ ID uint }

// Payments hides its type: handlers know the interface alone.
type Payments interface {
	Book(ctx context.Context, p *Payment) error
	Forget(p *Payment) error
}

type payments struct{ db *gorm.DB }

func New(db *gorm.DB) Payments { return &payments{db} }

// conn is the way that guarded and unguarded routes share.
func (r *payments) conn(ctx context.Context) *gorm.DB {
	if tx, ok := gormstore.TxFrom(ctx); ok {
		return tx
	}
	return r.db.WithContext(ctx)
}

func (r *payments) Book(ctx context.Context, p *Payment) error { return r.conn(ctx).Create(p).Error }

func (r *payments) Forget(p *Payment) error { return r.db.Delete(p).Error } // want `straywrite: Delete goes past the attempt`

// Save writes through what its caller gives to it.
func Save(db *gorm.DB, p *Payment) error {
	return db.Transaction(func(tx *gorm.DB) error { return tx.Save(p).Error }) // want `straywrite: Save goes past the attempt`
}

type Audits struct{ DB *gorm.DB }

func (a Audits) Note(ctx context.Context, p *Payment) error {
	return a.DB.WithContext(gormstore.Outside(ctx)).Create(p).Error
}
