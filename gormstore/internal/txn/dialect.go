package txn

import (
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Dialect holds what differs between the two databases. Their statements are in separate files: see statementtexts.go.
type Dialect struct {
	Name        string
	connections int // the smallest pool that works
	text        sqltext.Dialect
	Begin       string   // opens a transaction that will write
	words       []string // of statements, and what stands there for the database
}

// The databases.
var (
	Postgres = &Dialect{Name: "postgres", connections: 2, text: sqltext.Postgres, Begin: "BEGIN", words: []string{
		":now", microsOf("clock_timestamp"), ":statement_now", microsOf("statement_timestamp"),
		":transaction_now", microsOf("transaction_timestamp"), ":server_started", microsOf("pg_postmaster_start_time")}}
	SQLite = &Dialect{Name: "sqlite", connections: 3, text: sqltext.SQLite, Begin: "BEGIN IMMEDIATE", words: []string{
		":now", "CAST(unixepoch('subsec') * 1000 AS INTEGER) * 1000"}}
)

// microsOf is what a clock of PostgreSQL shows, in microseconds since 1970. A double is exact enough until
// the year 2106.
func microsOf(clock string) string {
	return "CAST(pg_catalog.date_part('epoch', pg_catalog." + clock + "()) * 1000000 AS bigint)"
}

// TxOptions are the options of the library's own transactions: what such a transaction reads after it has got a lock must
// be as new as the lock.
func (d *Dialect) TxOptions() *sql.TxOptions {
	if d == SQLite {
		return &sql.TxOptions{Isolation: sql.LevelSerializable} // BEGIN IMMEDIATE
	}
	return &sql.TxOptions{Isolation: sql.LevelReadCommitted}
}

// DialectOf returns the dialect of a GORM dialector of that name.
func DialectOf(name string) (*Dialect, error) {
	switch name {
	case Postgres.Name:
		return Postgres, nil
	case SQLite.Name:
		return SQLite, nil
	}
	return nil, fmt.Errorf("the database is %q; use PostgreSQL (gorm.io/driver/postgres) or SQLite", name)
}

// Flag reads a truth value of either database.
type Flag bool

// Scan implements [database/sql.Scanner].
func (f *Flag) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*f = false
	case bool:
		*f = Flag(v)
	case int64:
		*f = v != 0
	default:
		return fmt.Errorf("idem: gormstore: a truth value is a %T", value)
	}
	return nil
}

// ScanBool implements [pgtype.BoolScanner].
func (f *Flag) ScanBool(v pgtype.Bool) error {
	*f = Flag(v.Bool)
	return nil
}
