package gormstore_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/auth19/idem/core"
	"github.com/auth19/idem/core/wire"
	"github.com/auth19/idem/gormstore"
)

// Queries is what sqlc generates; its DBTX has the methods of gormstore.DBTX.
type Queries struct{ db gormstore.DBTX }

func (q *Queries) CreateEntry(ctx context.Context, operation, amount string) error {
	_, err := q.db.ExecContext(ctx, "INSERT INTO entries (operation_id, amount) VALUES (?, ?)", operation, amount)
	return err
}

// Handlers that do not use GORM for their own rows take the attempt's transaction as plain SQL.
func ExampleSQLTx() {
	db, done := exampleDB()
	defer done()
	must(db.Exec("CREATE TABLE entries (operation_id text NOT NULL UNIQUE, amount text NOT NULL)").Error)
	store, err := gormstore.New(db)
	must(err)
	defer func() { must(store.Close()) }()
	idem, err := core.New(core.Config{Store: store, Policy: core.Policy{Recovery: core.Rollback}})
	must(err)

	for range 2 {
		w := examplePost(idem, "a", func(w http.ResponseWriter, r *http.Request) {
			tx, ok := gormstore.SQLTx(r.Context())
			operation, _ := core.Operation(r.Context())
			if !ok || (&Queries{tx}).CreateEntry(r.Context(), operation.String(), "12.50") != nil {
				w.WriteHeader(http.StatusInternalServerError) // rolled back
				return
			}
			w.WriteHeader(http.StatusCreated)
		})
		fmt.Println(w.Code, w.Header().Get(wire.HeaderResult))
	}
	var rows int64
	must(db.Table("entries").Count(&rows).Error)
	fmt.Println("rows:", rows)
	// Output:
	// 201 created
	// 201 reused
	// rows: 1
}
