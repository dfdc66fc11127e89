package gormstore

import (
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// dialect holds the few words in which the two databases differ. Statements are written once, for PostgreSQL, with
// these words in braces, and with {schema} before each table: see names.
type dialect struct {
	name        string
	connections int    // the smallest pool that works
	begin       string // opens a transaction that will write
	words       *strings.Replacer
}

var (
	postgres = &dialect{name: "postgres", connections: 2, begin: "BEGIN", words: strings.NewReplacer(
		"{now}", "pg_catalog.clock_timestamp()", // the statement's time, not the transaction's start (T-1)
		"{µs}", "::bigint * interval '1 microsecond'",
		"{bytes}", "::bytea", "{int}", "::smallint", "{long}", "::bigint", "{text}", "::text", "{bool}", "::boolean",
		"{from own}", "FROM own",
		"{epoch}", "timestamptz 'epoch' + ", "{later}", "greatest",
		"{skip locked}", "FOR UPDATE SKIP LOCKED",
		"{backend}", backendColumns,
		"{for update}", "FOR UPDATE", "{database}", postgresDatabase, "{durably}", durably,
	)}
	sqlite = &dialect{name: "sqlite", connections: 3, begin: "BEGIN IMMEDIATE", words: strings.NewReplacer(
		"{now}", "(CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000)",
		"{µs}", "",
		"{bytes}", "", "{int}", "", "{long}", "", "{text}", "", "{bool}", "",
		"{from own}", "",
		"{epoch}", "", "{later}", "max",
		"{skip locked}", "", "{for update}", "", // there is one writer
		"{database}", "("+mainFile+")", "{durably}", "true",
		"{backend}", "0, NULL",
		"$", "?", // SQLite numbers parameters with a question mark
	)}
)

// txOptions are those of a transaction of the store's own: what it reads after it has a lock must be as new as the lock.
func (d *dialect) txOptions() *sql.TxOptions {
	if d == sqlite {
		return &sql.TxOptions{Isolation: sql.LevelSerializable} // BEGIN IMMEDIATE
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

func dialectOf(name string) (*dialect, error) {
	switch name {
	case postgres.name:
		return postgres, nil
	case sqlite.name:
		return sqlite, nil
	}
	return nil, fmt.Errorf("the database is %q; use PostgreSQL (gorm.io/driver/postgres) or SQLite", name)
}

// instant reads a point in time of either database; NULL is the zero time.
type instant struct{ time.Time }

// Scan implements [database/sql.Scanner].
func (i *instant) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		i.Time = time.Time{}
	case time.Time:
		i.Time = v
	case int64:
		i.Time = time.UnixMicro(v)
	default:
		return fmt.Errorf("idem: gormstore: a point in time is a %T", value)
	}
	return nil
}

// flag reads a truth value of either database.
type flag bool

// Scan implements [database/sql.Scanner].
func (f *flag) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*f = false
	case bool:
		*f = flag(v)
	case int64:
		*f = v != 0
	default:
		return fmt.Errorf("idem: gormstore: a truth value is a %T", value)
	}
	return nil
}
