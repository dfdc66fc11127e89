package txn

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// The statements are in the files below statements/postgres and statements/sqlite, each whole, as the database gets it, so
// that they can be read, explained and tried there. The two databases have files of their own, although many statements
// differ in a few words only. TestStatementsAgree compares what several statements must have in common. A few words are
// inserted, once for all statements: the schema of PostgreSQL's tables, which the files write as psql does, :"schema", and
// the dialect's words, as :now. And those that only read get onlyFromWriter.
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
	words := strings.NewReplacer(append(slices.Clone(d.words), `:"schema"`, schema)...)
	files, err := fs.Glob(statementFiles, "statements/"+d.Name+"/*.sql")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := statementFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parts := strings.Split(words.Replace(string(text)), "-- name: ")
		for _, part := range parts[1:] { // before the first name is what the file is about
			name, rest, _ := strings.Cut(part, "\n")
			if _, twice := texts[Statement(name)]; twice {
				return nil, fmt.Errorf("%s: there are two statements %q", file, name)
			}
			texts[Statement(name)] = withoutComments(rest)
		}
	}
	texts[ListNewest] = turnedRound.Replace(texts[List])
	for name, text := range texts {
		if d == Postgres && asks(name, text) {
			texts[name] = onlyFromWriter(text)
		}
	}
	return texts, nil
}

// asks reports whether any server could answer a statement of PostgreSQL: one that writes fails by itself where nothing may
// be written, and a few of a claim return what the server says of itself. Others say nothing of the tables, and belong to a
// transaction that writes.
func asks(name Statement, text string) bool {
	ofTransaction := []Statement{begun, AsBegun, readSettings, setSettings, "waitLock", "withoutJIT"}
	return !writes.MatchString(text) && !strings.Contains(text, readOnlySetting) && !slices.Contains(ofTransaction, name)
}

var writes = regexp.MustCompile(`\b(INSERT INTO|UPDATE|DELETE FROM)\b`)

const (
	readOnlySetting = "pg_catalog.current_setting('transaction_read_only')" // on in recovery, too
	noWrites        = "the server is a standby in recovery, or read-only: it takes no writes"
)

// TakesWrites is a condition on PostgreSQL that fails where nothing may be written, whatever a question would find. A
// standby that is behind answers as well, without the steps, the intent or the marker that the primary has (F-8). It is
// judged once, before the first row is read.
const TakesWrites = "CAST(CASE " + readOnlySetting + " WHEN 'off' THEN 'true' ELSE '" + noWrites + "' END AS boolean)"

// onlyFromWriter puts the condition around a question.
func onlyFromWriter(question string) string {
	return "SELECT answer.* FROM (" + question + ") AS answer\nWHERE " + TakesWrites
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

// Row is the outcome of QueryRow. Nothing is sent before Scan.
type Row struct{ scan func(targets []any) error }

// Scan is that of [sql.Row].
func (r Row) Scan(targets ...any) error { return r.scan(targets) }

// Exec runs a statement that changes at most a few rows, and returns how many.
func (d *Database) Exec(ctx context.Context, q Querier, name Statement, args ...any) (n int64, err error) {
	err = d.over(ctx, q, name, func(q Querier) error {
		text, err := d.Statements.text(ctx, q, name)
		if err != nil {
			return err
		}
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
	return d.over(ctx, q, name, func(q Querier) error {
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
	})
}

// QueryRow runs a statement that returns one row.
func (d *Database) QueryRow(ctx context.Context, q Querier, name Statement, args ...any) Row {
	return Row{func(targets []any) error {
		return d.over(ctx, q, name, func(q Querier) error {
			text, err := d.Statements.text(ctx, q, name)
			if err != nil {
				return err
			}
			return q.QueryRowContext(ctx, text, args...).Scan(targets...)
		})
	}}
}
