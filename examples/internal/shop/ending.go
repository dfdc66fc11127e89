package shop

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore"
)

// endTransaction ends the attempt's transaction past the library, as a handler can that uses the driver directly. It does so
// if the test method asks for it and the database is PostgreSQL. Later writes are not in the attempt's transaction.
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

// hidden is a statement that the driver sends instead of the one that the library has checked.
type hidden string

// RewriteQuery implements [pgx.QueryRewriter].
func (h hidden) RewriteQuery(context.Context, *pgx.Conn, string, []any) (sql string, args []any, err error) {
	return string(h), nil, nil
}
