package txn

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// Dialect holds what differs between the two databases. Their statements are in separate files: see statementtexts.go.
type Dialect struct {
	Name        string
	connections int // the smallest pool that works
	text        sqltext.Dialect
	Begin       string // opens a transaction that will write
}

// The databases.
var (
	Postgres = &Dialect{Name: "postgres", connections: 2, text: sqltext.Postgres, Begin: "BEGIN"}
	SQLite   = &Dialect{Name: "sqlite", connections: 3, text: sqltext.SQLite, Begin: "BEGIN IMMEDIATE"}
)

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

// Instant is a point in time as a parameter of a statement.
func (d *Dialect) Instant(t time.Time) any {
	if d == SQLite {
		return t.UnixMicro()
	}
	return t
}

// Instant reads a point in time of either database; NULL is the zero time.
type Instant struct{ time.Time }

// Scan implements [database/sql.Scanner].
func (i *Instant) Scan(value any) error {
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

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (i *Instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.InfinityModifier != pgtype.Finite {
		return fmt.Errorf("idem: gormstore: a point in time is %v", v.InfinityModifier)
	}
	i.Time = v.Time
	return nil
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
