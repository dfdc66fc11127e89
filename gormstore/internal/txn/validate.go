package txn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// inspect looks at everything over one connection, or over another one where its server takes no writes.
func (d *Database) inspect(ctx context.Context, i Inspector, need Rights) error {
	return Retry(ctx, func() error {
		return d.onConn(ctx, "", func(own *sql.Conn) error {
			d.askTogether(ctx, own)
			i.Q = own
			return i.all(ctx, need)
		})
	})
}

// Inspector looks at the live server and schema. It changes nothing.
type Inspector struct {
	Q          Querier
	Statements *Statements
	inUse      bool // lets a database in memory pass: it is not expected to last
}

// all looks at everything, and returns one error for all that is wrong.
func (i Inspector) all(ctx context.Context, need Rights) error {
	if err := errors.Join(i.Server(ctx, need)...); err != nil {
		return fmt.Errorf("idem: gormstore: %w", err)
	}
	return nil
}

// Server returns everything that is wrong with the server and the tables that are needed.
func (i Inspector) Server(ctx context.Context, need Rights) []error {
	return slices.DeleteFunc(i.server(ctx, need), func(err error) bool {
		_, untried := errors.AsType[dialect.UntriedError](err)
		return untried && i.Statements.untried
	})
}

func (i Inspector) server(ctx context.Context, need Rights) []error {
	d := i.Statements.Dialect
	schema, err := i.Statements.FindSchema(ctx, i.Q)
	if err != nil {
		return append(d.Inspect(ctx, i.Q, "", nil, i.inUse), err)
	}
	errs := i.missingColumns(ctx, schema, slices.Sorted(maps.Keys(need)))
	return append(errs, d.Inspect(ctx, i.Q, schema, need, i.inUse)...)
}

// missingColumns looks for what gormstore.Migrate has to add to the library's tables.
func (i Inspector) missingColumns(ctx context.Context, schema string, tables []string) []error {
	there, err := i.Texts(ctx, i.Statements.Dialect.TableColumns, schema, strings.Join(tables, ","))
	if err != nil {
		return []error{err}
	}
	var errs []error
	for _, table := range tables {
		isOf := func(column string) bool { return strings.HasPrefix(column, table+".") }
		if !slices.ContainsFunc(there, isOf) {
			errs = append(errs, dialect.SchemaError(fmt.Sprintf("table %s is missing: run gormstore.Migrate", table)))
			continue
		}
		for _, column := range tableColumns[table] {
			if !slices.Contains(there, table+"."+column) {
				errs = append(errs, dialect.SchemaError(fmt.Sprintf("table %s has no column %s: run gormstore.Migrate", table, column)))
			}
		}
	}
	return errs
}

// Columns lists the columns of a table, none if there is no such table.
func (i Inspector) Columns(ctx context.Context, table string) ([]string, error) {
	return i.Texts(ctx, i.Statements.Dialect.Columns, table)
}

// Texts returns the one text column of a query.
func (i Inspector) Texts(ctx context.Context, query string, args ...any) ([]string, error) {
	return dialect.Texts(ctx, i.Q, query, args...)
}
