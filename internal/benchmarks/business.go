package main

import (
	"context"
	"strings"

	"gorm.io/gorm"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/gormstore"
)

// entry is a business row.
type entry struct {
	ID          int64
	OperationID string `gorm:"size:64;not null;uniqueIndex"`
	Amount      string `gorm:"not null"`
}

const amount = "12.34"

func create(tx *gorm.DB, operation string) error {
	return tx.Create(&entry{OperationID: operation, Amount: amount}).Error
}

func settle(tx *gorm.DB, operation string) error {
	return tx.Model(&entry{}).Where("operation_id = ?", operation).Update("amount", "0.00").Error
}

// insert is what GORM makes of create.
const insert = `INSERT INTO "entries" ("operation_id","amount") VALUES ($1,$2) RETURNING "id"`

func insertRaw(ctx context.Context, on opened, tx gormstore.DBTX, operation string) error {
	query := insert
	if on.db.Name() == "sqlite" {
		query = strings.ReplaceAll(query, "$", "?")
	}
	var id int64
	return tx.QueryRowContext(ctx, query, operation, amount).Scan(&id)
}

// The same row, written in one transaction in different ways.
var (
	rawAlone = func(on opened) work {
		return func(ctx context.Context, operation string) error {
			tx, err := on.pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := insertRaw(ctx, on, tx, operation); err != nil {
				return err
			}
			return tx.Commit()
		}
	}
	gormAlone = func(on opened) work {
		return func(ctx context.Context, operation string) error {
			return on.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return create(tx, operation) })
		}
	}
	rawRollback = func(on opened) work {
		return func(ctx context.Context, operation string) error {
			tx, _ := gormstore.SQLTx(ctx)
			return insertRaw(ctx, on, tx, operation)
		}
	}
	gormRollback = func(opened) work {
		return func(ctx context.Context, operation string) error { return create(gormstore.Tx(ctx), operation) }
	}
	oneStep = func(opened) work {
		return func(ctx context.Context, operation string) error {
			return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return create(tx, operation) })
		}
	}
)

// The same row written, a provider called that answers at once, and the row changed.
var (
	threeAlone = func(on opened) work {
		return func(ctx context.Context, operation string) error {
			db := on.db.WithContext(ctx)
			if err := db.Transaction(func(tx *gorm.DB) error { return create(tx, operation) }); err != nil {
				return err
			}
			return db.Transaction(func(tx *gorm.DB) error { return settle(tx, operation) })
		}
	}
	threeSteps = func(opened) work {
		return func(ctx context.Context, operation string) error {
			if err := gormstore.StepDo(ctx, "reserve", func(tx *gorm.DB) error { return create(tx, operation) }); err != nil {
				return err
			}
			if err := core.CallDo(ctx, "charge", func(context.Context, core.DerivedKey) error { return nil }); err != nil {
				return err
			}
			return gormstore.StepDo(ctx, "book", func(tx *gorm.DB) error { return settle(tx, operation) })
		}
	}
)
