package txn

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// Statement is the name of a statement: see package dialect, whose files have the texts.
type Statement = dialect.Statement

// The statements of this package.
const (
	tryLock      Statement = "tryLock"
	lockClaim    Statement = "lockClaim"
	lockGuarded  Statement = "lockGuarded"
	durably      Statement = "durably"
	begun        Statement = "begun"
	askForCheck  Statement = "askForCheck"
	readGuards   Statement = "readGuards"
	asBegun      Statement = "asBegun"
	readSettings Statement = "readSettings"
	setSettings  Statement = "setSettings"
	confirm      Statement = "confirm"
	atStandby    Statement = "atStandby"
	Clock        Statement = "clock"
	List         Statement = "list"
	ListNewest   Statement = "listNewest"
)

// Statements are those of a database, as the database gets them.
type Statements struct {
	Dialect *Dialect
	untried bool                           // a server on which no test has passed will do
	known   atomic.Pointer[statementTexts] // nil until the schema is known; it never changes
}

// statementTexts are the statements of one schema.
type statementTexts struct {
	schema string // as it stands in a statement
	texts  map[Statement]statementText
}

type statementText struct {
	text       string
	parameters int
}

// newStatements are those of a schema. Where it is "", the schema is found at first use: see Statements.find.
func newStatements(d *Dialect, schema string) (*Statements, error) {
	s := &Statements{Dialect: d}
	if schema == "" {
		return s, nil
	}
	_, err := s.in(d.InSchema(schema))
	return s, err
}

// load returns the statements. They name the schema of their tables. It is found once: so a search path that an app has left
// on a connection, or a temporary table of the same name, has no effect. If another schema of the database has the tables
// too, none is found, and nothing is done until gormstore.InSchema says which (F-6). q is asked if it is not known yet.
func (s *Statements) load(ctx context.Context, q Querier) (*statementTexts, error) {
	if known := s.known.Load(); known != nil {
		return known, nil
	}
	schema, err := s.Dialect.FindSchema(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.in(schema)
}

// FindSchema returns the schema as it stands in statements.
func (s *Statements) FindSchema(ctx context.Context, q Querier) (string, error) {
	known, err := s.load(ctx, q)
	if err != nil {
		return "", err
	}
	return known.schema, nil
}

// in makes the statements those of a schema, as it stands in a statement. If many find the schema at the same time, the
// first one counts, for all of them.
func (s *Statements) in(schema string) (*statementTexts, error) {
	texts, err := dialect.Render(s.Dialect, schema)
	if err != nil {
		return nil, fmt.Errorf("idem: gormstore: the statements of %w", err)
	}
	found := &statementTexts{schema, make(map[Statement]statementText, len(texts))}
	for name, text := range texts {
		ownTexts.add(text)
		found.texts[name] = statementText{text, dialect.Parameters(text)}
	}
	s.known.CompareAndSwap(nil, found)
	return s.known.Load(), nil
}

// text is a statement as the database gets it, with the first of args, as many as it has parameters: the last ones are for
// databases that have a use for them. It is "" where the database has no use for the statement: nothing is sent then. q is
// asked for the schema where that is not known yet.
func (s *Statements) text(ctx context.Context, q Querier, name Statement, args []any) (string, []any, error) {
	known, err := s.load(ctx, q)
	if err != nil {
		return "", nil, err
	}
	of, ok := known.texts[name]
	if !ok {
		return "", nil, fmt.Errorf("idem: gormstore: there is no statement %q for %s", name, s.Dialect.Name)
	}
	args = args[:min(len(args), of.parameters)]
	if s.Dialect.Bind != nil {
		return s.Dialect.Bind(of.text, args), nil, nil
	}
	return of.text, args, nil
}

// Row is the outcome of QueryRow. Nothing is sent before Scan.
type Row struct{ scan func(targets []any) error }

// Scan is that of [sql.Row].
func (r Row) Scan(targets ...any) error { return r.scan(targets) }

// Exec runs a statement that changes at most a few rows, and returns how many.
func (d *Database) Exec(ctx context.Context, q Querier, name Statement, args ...any) (n int64, err error) {
	err = d.over(ctx, q, name, args, func(ctx context.Context, q Querier, text string, args []any) error {
		result, err := q.ExecContext(ctx, text, args...)
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	return n, err
}

// Each runs a statement that returns rows, and calls row for each of them.
func (d *Database) Each(
	ctx context.Context, q Querier, name Statement, row func(scan func(into ...any) error) error, args ...any,
) error {
	return d.over(ctx, q, name, args, func(ctx context.Context, q Querier, text string, args []any) error {
		rows, err := q.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// QueryRow runs a statement that returns one row. Where the database has no use for it, what Scan gets stays as it is.
func (d *Database) QueryRow(ctx context.Context, q Querier, name Statement, args ...any) Row {
	return Row{func(targets []any) error {
		return d.over(ctx, q, name, args, func(ctx context.Context, q Querier, text string, args []any) error {
			return q.QueryRowContext(ctx, text, args...).Scan(targets...)
		})
	}}
}
