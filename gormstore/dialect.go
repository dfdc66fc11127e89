package gormstore

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/gormstore/internal/sqltext"
)

// dialect holds what differs between the two databases. Their statements are in separate files: see statements.go.
type dialect struct {
	name        string
	connections int // the smallest pool that works
	text        sqltext.Dialect
	begin       string // opens a transaction that will write
}

var (
	postgres = &dialect{name: "postgres", connections: 2, text: sqltext.Postgres, begin: "BEGIN"}
	sqlite   = &dialect{name: "sqlite", connections: 3, text: sqltext.SQLite, begin: "BEGIN IMMEDIATE"}
)

// txOptions are the options of the store's own transactions: what such a transaction reads after it has got a lock must
// be as new as the lock.
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

// instant is a point in time as a parameter of a statement.
func (d *dialect) instant(t time.Time) any {
	if d == sqlite {
		return t.UnixMicro()
	}
	return t
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

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (i *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.InfinityModifier != pgtype.Finite {
		return fmt.Errorf("idem: gormstore: a point in time is %v", v.InfinityModifier)
	}
	i.Time = v.Time
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

// ScanBool implements [pgtype.BoolScanner].
func (f *flag) ScanBool(v pgtype.Bool) error {
	*f = flag(v.Bool)
	return nil
}
