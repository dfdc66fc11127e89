package shop

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// endTransaction ends the attempt's transaction past the library, where the test method says so and the database is
// PostgreSQL: as a handler can that reaches the driver. What is written after it is in no transaction of the attempt's.
func endTransaction(tx *gorm.DB, method string) error {
	statements := map[string]hidden{MethodCommit: "COMMIT", MethodRollback: "ROLLBACK"}
	statement, ok := statements[method]
	if !ok {
		return nil
	}
	if tx.Name() != "postgres" {
		return errors.New("shop: only PostgreSQL's driver can be made to end a transaction")
	}
	ctx := tx.Statement.Context
	handle, _ := gormstore.SQLTx(ctx)
	_, err := handle.ExecContext(ctx, "SELECT 1", statement)
	return err
}

// hidden is a statement that the driver sends in the place of the one that the library has seen.
type hidden string

// RewriteQuery implements [pgx.QueryRewriter].
func (h hidden) RewriteQuery(context.Context, *pgx.Conn, string, []any) (sql string, args []any, err error) {
	return string(h), nil, nil
}
