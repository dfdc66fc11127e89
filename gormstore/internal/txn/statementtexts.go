package txn

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
)

// The statements are in the files below statements/postgres and statements/sqlite, each whole, as the database gets it, so
// that they can be read, explained and tried there. The two databases have files of their own, although many statements
// differ in a few words only: a statement that is put together from words cannot be read. TestStatementsAgree compares what
// several statements must have in common. Only one thing is inserted, the schema of PostgreSQL's tables, which the files
// write as psql does, :"schema". It is put in once, for all statements.
//
//go:embed statements
var statementFiles embed.FS

// Statement is the name of a statement: it stands behind "-- name:" in its file.
type Statement string

// The statements of this package. Their comments are in PostgreSQL's files.
const (
	tryLock      Statement = "tryLock"      // PostgreSQL
	begun        Statement = "begun"        // PostgreSQL
	AsBegun      Statement = "asBegun"      // PostgreSQL
	readSettings Statement = "readSettings" // PostgreSQL
	setSettings  Statement = "setSettings"  // PostgreSQL
	confirm      Statement = "confirm"      // PostgreSQL
	atStandby    Statement = "atStandby"    // PostgreSQL
	Clock        Statement = "clock"
	List         Statement = "list"
	ListNewest   Statement = "listNewest" // made of list
)

// readStatements reads the statements of a dialect, with the schema as it stands in a statement.
func readStatements(d *Dialect, schema string) (map[Statement]string, error) {
	texts := make(map[Statement]string)
	files, err := fs.Glob(statementFiles, "statements/"+d.Name+"/*.sql")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := statementFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parts := strings.Split(strings.ReplaceAll(string(text), `:"schema"`, schema), "-- name: ")
		for _, part := range parts[1:] { // before the first name is what the file is about
			name, rest, _ := strings.Cut(part, "\n")
			if _, twice := texts[Statement(name)]; twice {
				return nil, fmt.Errorf("%s: there are two statements %q", file, name)
			}
			texts[Statement(name)] = withoutComments(rest)
		}
	}
	texts[ListNewest] = turnedRound.Replace(texts[List])
	return texts, nil
}

// turnedRound makes of list the list of the newest.
var turnedRound = strings.NewReplacer("(r.created_at, r.id) > (", "(r.created_at, r.id) < (",
	"ORDER BY r.created_at, r.id LIMIT", "ORDER BY r.created_at DESC, r.id DESC LIMIT")

// withoutComments returns a statement without the comments before it, and without the semicolon at its end.
func withoutComments(text string) string {
	for strings.HasPrefix(text, "--") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSuffix(strings.TrimSpace(text), ";")
}

// Statements are those of a database, as the database gets them.
type Statements struct {
	Dialect *Dialect
	known   atomic.Pointer[statementTexts] // nil until the schema is known; it never changes
}

// statementTexts are the statements of one schema.
type statementTexts struct {
	schema string // as it stands in a statement
	texts  map[Statement]string
}

// newStatements are those of a schema. Where it is "", the schema is found at first use: see Statements.find.
func newStatements(d *Dialect, schema string) (*Statements, error) {
	s := &Statements{Dialect: d}
	switch {
	case d == SQLite:
		_, err := s.in("main")
		return s, err
	case schema != "":
		_, err := s.in(Quote(schema))
		return s, err
	}
	return s, nil
}

// in makes the statements those of a schema, as it stands in a statement. If many find the schema at the same time, the
// first one counts, for all of them.
func (s *Statements) in(schema string) (*statementTexts, error) {
	texts, err := readStatements(s.Dialect, schema)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		ownTexts.add(text)
	}
	s.known.CompareAndSwap(nil, &statementTexts{schema, texts})
	return s.known.Load(), nil
}

// text is a statement as the database gets it. q is asked for the schema where that is not known yet.
func (s *Statements) text(ctx context.Context, q Querier, name Statement) (string, error) {
	known, err := s.find(ctx, q)
	if err != nil {
		return "", err
	}
	text, ok := known.texts[name]
	if !ok {
		return "", fmt.Errorf("idem: gormstore: there is no statement %q for %s", name, s.Dialect.Name)
	}
	return text, nil
}

// Row is the outcome of QueryRow.
type Row struct {
	*sql.Row
	err error // nothing was sent
}

// Scan is that of [sql.Row].
func (r Row) Scan(targets ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.Row.Scan(targets...)
}

// Exec runs a statement that changes at most a few rows, and returns how many.
func (d *Database) Exec(ctx context.Context, q Querier, name Statement, args ...any) (int64, error) {
	text, err := d.Statements.text(ctx, q, name)
	if err != nil {
		return 0, err
	}
	result, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Each runs a statement that returns rows, and calls row for each of them.
func (d *Database) Each(
	ctx context.Context, q Querier, name Statement, row func(scan func(into ...any) error) error, args ...any,
) error {
	text, err := d.Statements.text(ctx, q, name)
	if err != nil {
		return err
	}
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
}

// QueryRow runs a statement that returns one row.
func (d *Database) QueryRow(ctx context.Context, q Querier, name Statement, args ...any) Row {
	text, err := d.Statements.text(ctx, q, name)
	if err != nil {
		return Row{err: err}
	}
	return Row{Row: q.QueryRowContext(ctx, text, args...)}
}
