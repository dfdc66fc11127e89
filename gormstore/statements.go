package gormstore

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

// statement is the name of a statement: it stands behind "-- name:" in its file.
type statement string

// The statements of both databases, unless a comment says otherwise. Their comments are in PostgreSQL's files.
const (
	// claims.sql
	claimKey     statement = "claimKey"
	insertRecord statement = "insertRecord" // PostgreSQL
	lockFirst    statement = "lockFirst"    // PostgreSQL
	takeOver     statement = "takeOver"
	lookFirst    statement = "lookFirst"  // PostgreSQL
	lookAnswer   statement = "lookAnswer" // PostgreSQL
	look         statement = "look"       // PostgreSQL
	held         statement = "held"       // PostgreSQL
	tryLock      statement = "tryLock"    // PostgreSQL
	waitLock     statement = "waitLock"   // PostgreSQL
	importRecord statement = "importRecord"

	// attempts.sql
	renew         statement = "renew"
	complete      statement = "complete"
	recordAnswer  statement = "recordAnswer"  // PostgreSQL
	recordOver    statement = "recordOver"    // PostgreSQL
	recordRunning statement = "recordRunning" // PostgreSQL
	sealRunning   statement = "sealRunning"
	sealAnswer    statement = "sealAnswer"   // PostgreSQL
	ownsRecord    statement = "ownsRecord"   // PostgreSQL
	loseAnswer    statement = "loseAnswer"   // PostgreSQL
	begun         statement = "begun"        // PostgreSQL
	asBegun       statement = "asBegun"      // PostgreSQL
	readSettings  statement = "readSettings" // PostgreSQL
	setSettings   statement = "setSettings"  // PostgreSQL
	park          statement = "park"
	release       statement = "release"
	releaseOwner  statement = "releaseOwner"
	keepOut       statement = "keepOut"
	traceAnswer   statement = "traceAnswer" // SQLite
	confirm       statement = "confirm"     // PostgreSQL
	atStandby     statement = "atStandby"   // PostgreSQL

	// operations.sql
	clock            statement = "clock"
	find             statement = "find"
	withoutJIT       statement = "withoutJIT" // PostgreSQL
	list             statement = "list"
	listNewest       statement = "listNewest" // made of list
	countOpen        statement = "countOpen"
	count            statement = "count"
	openSteps        statement = "openSteps"
	near             statement = "near"
	history          statement = "history"
	lastSettled      statement = "lastSettled"
	lastAnswered     statement = "lastAnswered"
	settle           statement = "settle"
	appendSettlement statement = "appendSettlement"
	sweep            statement = "sweep"  // PostgreSQL
	due              statement = "due"    // SQLite
	bury             statement = "bury"   // SQLite
	drop             statement = "drop"   // SQLite
	putOff           statement = "putOff" // SQLite
	erasable         statement = "erasable"
	erase            statement = "erase"
	setting          statement = "setting"
	keepSetting      statement = "keepSetting"
	keepFirstScoping statement = "keepFirstScoping"

	// patrol.sql
	patrolled  statement = "patrolled"
	patrolTurn statement = "patrolTurn" // PostgreSQL
	writers    statement = "writers"    // PostgreSQL
	patrolUpto statement = "patrolUpto" // SQLite
	patrol     statement = "patrol"

	// keytimes.sql
	keyFloor        statement = "keyFloor" // SQLite
	raiseKeyFloor   statement = "raiseKeyFloor"
	raiseKeyFloors  statement = "raiseKeyFloors"
	raiseAgedFloors statement = "raiseAgedFloors"
	keepFirst       statement = "keepFirst"
	lockSetting     statement = "lockSetting"

	// steps.sql
	ownRecord    statement = "ownRecord"    // SQLite
	putSteps     statement = "putSteps"     // PostgreSQL
	putStep      statement = "putStep"      // SQLite
	beginTrace   statement = "beginTrace"   // SQLite
	traceSegment statement = "traceSegment" // SQLite
	endTrace     statement = "endTrace"     // SQLite
	stepsOf      statement = "stepsOf"
	stepAt       statement = "stepAt"
	dropSteps    statement = "dropSteps"
	forgetSteps  statement = "forgetSteps"

	// references.sql
	refer          statement = "refer"
	referencesOf   statement = "referencesOf"
	referred       statement = "referred"
	dropReferences statement = "dropReferences"

	// sightings.sql
	sight           statement = "sight"
	noteSighting    statement = "noteSighting" // SQLite
	forgetSightings statement = "forgetSightings"

	// messages.sql
	mark           statement = "mark"
	payloadHash    statement = "payloadHash"
	traceMarker    statement = "traceMarker"
	loseMarker     statement = "loseMarker"
	forgetMessages statement = "forgetMessages"
	raiseFloor     statement = "raiseFloor"

	// intents.sql
	beginIntent    statement = "beginIntent"
	findIntent     statement = "findIntent"
	endIntent      statement = "endIntent"
	pendingIntents statement = "pendingIntents"
	forgetIntents  statement = "forgetIntents"
	whichDatabase  statement = "whichDatabase"
	planIntent     statement = "planIntent"
	doneIntent     statement = "doneIntent"
)

// readStatements reads the statements of a dialect, with the schema as it stands in a statement.
func readStatements(d *dialect, schema string) (map[statement]string, error) {
	texts := make(map[statement]string)
	files, err := fs.Glob(statementFiles, "statements/"+d.name+"/*.sql")
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
			if _, twice := texts[statement(name)]; twice {
				return nil, fmt.Errorf("%s: there are two statements %q", file, name)
			}
			texts[statement(name)] = withoutComments(rest)
		}
	}
	texts[listNewest] = turnedRound.Replace(texts[list])
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

// statements are those of a store, as the database gets them.
type statements struct {
	dialect *dialect
	known   atomic.Pointer[statementTexts] // nil until the schema is known; it never changes
}

// statementTexts are the statements of one schema.
type statementTexts struct {
	schema string // as it stands in a statement
	texts  map[statement]string
}

// newStatements are those of a schema. Where it is "", the schema is found at first use: see findSchema.
func newStatements(d *dialect, schema string) (*statements, error) {
	s := &statements{dialect: d}
	switch {
	case d == sqlite:
		_, err := s.in("main")
		return s, err
	case schema != "":
		_, err := s.in(quote(schema))
		return s, err
	}
	return s, nil
}

// in makes the statements those of a schema, as it stands in a statement. If many find the schema at the same time, the
// first one counts, for all of them.
func (s *statements) in(schema string) (*statementTexts, error) {
	texts, err := readStatements(s.dialect, schema)
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
func (s *statements) text(ctx context.Context, q querier, name statement) (string, error) {
	known, err := s.find(ctx, q)
	if err != nil {
		return "", err
	}
	text, ok := known.texts[name]
	if !ok {
		return "", fmt.Errorf("idem: gormstore: there is no statement %q for %s", name, s.dialect.name)
	}
	return text, nil
}

// row is the outcome of queryRow.
type row struct {
	*sql.Row
	err error // nothing was sent
}

// Scan is that of [sql.Row].
func (r row) Scan(targets ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.Row.Scan(targets...)
}

// exec runs a statement that changes at most a few rows, and returns how many.
func (d *database) exec(ctx context.Context, q querier, name statement, args ...any) (int64, error) {
	text, err := d.statements.text(ctx, q, name)
	if err != nil {
		return 0, err
	}
	result, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each runs a statement that returns rows, and calls row for each of them.
func (d *database) each(
	ctx context.Context, q querier, name statement, row func(scan func(into ...any) error) error, args ...any,
) error {
	text, err := d.statements.text(ctx, q, name)
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

// queryRow runs a statement that returns one row.
func (d *database) queryRow(ctx context.Context, q querier, name statement, args ...any) row {
	text, err := d.statements.text(ctx, q, name)
	if err != nil {
		return row{err: err}
	}
	return row{Row: q.QueryRowContext(ctx, text, args...)}
}
