package dialect

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/auth19/idem/core/store"
)

// Querier is what statements run on: the pool, or the connection of a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Texts returns the one text column of a query.
func Texts(ctx context.Context, q Querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// Quote is a name as an identifier.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// SQLState returns the SQLSTATE of an error, "" for one that has none.
func SQLState(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	number, state := numbered(err)
	if known, ok := states[number]; ok {
		return known
	}
	return state
}

// ReadOnly is the SQLSTATE of a server that takes no writes.
const ReadOnly = "25006"

// NoWrites is in the error where TakesWrites fails.
const NoWrites = "the server is a standby in recovery, or read-only: it takes no writes"

// SchemaError is a store.ErrSchema that says what the tables lack.
type SchemaError string

// Error implements error.
func (e SchemaError) Error() string { return string(e) }

// Is makes it a store.ErrSchema.
func (SchemaError) Is(target error) bool { return target == store.ErrSchema }

// UntriedError says that no test has passed on a server of this kind: gormstore.Untried lets it pass.
type UntriedError string

// Error implements error.
func (e UntriedError) Error() string { return string(e) }

// NoWritesError says that nothing can be written on a server, and so it is not believed either: it may be behind (F-8).
type NoWritesError string

// Error implements error.
func (e NoWritesError) Error() string { return string(e) }

// SQLState is that of the server's own error of a write.
func (NoWritesError) SQLState() string { return ReadOnly }
