package main

import (
	"context"

	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// entry is a row of the app.
type entry struct {
	ID     int64
	Key    string `gorm:"size:64;not null;uniqueIndex"`
	Amount string `gorm:"not null"`
}

const amount = "12.34"

// style is how an app writes its rows. The rows are the same.
type style struct {
	name string
	// transact runs fn in a transaction of the app's own.
	transact func(ctx context.Context, on opened, fn func(tx session) error) error
	attempt  func(ctx context.Context) session // the library's transaction, in Rollback
	step     func(tx *gorm.DB) session         // the library's transaction, in a step of Resume
}

// session is a transaction, as an app writes through it.
type session interface {
	insert(ctx context.Context, key string) error
	update(ctx context.Context, key string) error
	byHand() gormstore.DBTX // for the table of keys, which is written with database/sql in both styles
}

var (
	plainSQL = style{
		transact: func(ctx context.Context, on opened, fn func(tx session) error) error {
			tx, err := on.pool.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := fn(sqlSession{tx}); err != nil {
				return err
			}
			return tx.Commit()
		},
		attempt: func(ctx context.Context) session {
			tx, _ := gormstore.SQLTx(ctx)
			return sqlSession{tx}
		},
		step: func(tx *gorm.DB) session { return sqlSession{tx.Statement.ConnPool} },
	}
	withGORM = style{
		name: "GORM",
		transact: func(ctx context.Context, on opened, fn func(tx session) error) error {
			return on.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return fn(gormSession{tx}) })
		},
		attempt: func(ctx context.Context) session { return gormSession{gormstore.Tx(ctx)} },
		step:    func(tx *gorm.DB) session { return gormSession{tx} },
	}
)

type sqlSession struct{ tx gormstore.DBTX }

// These are what GORM makes of Create and Update.
const (
	insertEntry = `INSERT INTO "entries" ("key","amount") VALUES ($1,$2) RETURNING "id"`
	updateEntry = `UPDATE "entries" SET "amount"=$1 WHERE key = $2`
)

func (s sqlSession) insert(ctx context.Context, key string) error {
	var id int64
	return s.tx.QueryRowContext(ctx, insertEntry, key, amount).Scan(&id)
}

func (s sqlSession) update(ctx context.Context, key string) error {
	_, err := s.tx.ExecContext(ctx, updateEntry, "0.00", key)
	return err
}

func (s sqlSession) byHand() gormstore.DBTX { return s.tx }

type gormSession struct{ tx *gorm.DB }

func (s gormSession) insert(_ context.Context, key string) error {
	return s.tx.Create(&entry{Key: key, Amount: amount}).Error
}

func (s gormSession) update(_ context.Context, key string) error {
	return s.tx.Model(&entry{}).Where("key = ?", key).Update("amount", "0.00").Error
}

func (s gormSession) byHand() gormstore.DBTX { return s.tx.Statement.ConnPool }
