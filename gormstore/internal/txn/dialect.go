package txn

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/dialect/mysql"
	"github.com/auth19/idem/gormstore/internal/dialect/postgres"
	"github.com/auth19/idem/gormstore/internal/dialect/sqlite"
)

// Dialect is what one database has of its own.
type Dialect = dialect.Dialect

// Dialects are the databases. They are named nowhere else.
var Dialects = []*Dialect{postgres.Dialect, sqlite.Dialect, mysql.Dialect}

// DialectOf returns the dialect of a GORM dialector of that name.
func DialectOf(name string) (*Dialect, error) {
	for _, d := range Dialects {
		if d.Name == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("the database is %q; use PostgreSQL (gorm.io/driver/postgres), SQLite, or "+
		"MariaDB (gorm.io/driver/mysql)", name)
}

// isOfDatabase reports an error of a database, not of its driver.
func isOfDatabase(err error) bool {
	return slices.ContainsFunc(Dialects, func(d *Dialect) bool { return d.Class(err) != "" })
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
