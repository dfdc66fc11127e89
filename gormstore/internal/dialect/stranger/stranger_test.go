// Package stranger is a database that nobody has, for tests: PostgreSQL without its locks, without a mark that a statement
// could compare, and with one statement in each message. It passes what the others pass, and shows what a new one needs:
// this folder, and one more of txn.Dialects.
package stranger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/auth19/idem/gormstore/internal/dialect"
	"github.com/auth19/idem/gormstore/internal/dialect/postgres"
)

//go:embed statements
var statements embed.FS

func newDialect() *dialect.Dialect {
	d := *postgres.Dialect
	d.Name = "stranger"
	d.Statements = append(slices.Clone(d.Statements), statements)
	return &d
}

// openURL opens a database of PostgreSQL as a stranger.
func openURL(url string) gorm.Dialector {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		panic(err)
	}
	pool := sql.OpenDB(connector{stdlib.GetConnector(*config)})
	return dialector{gormpostgres.New(gormpostgres.Config{Conn: pool}).(*gormpostgres.Dialector)}
}

type dialector struct{ *gormpostgres.Dialector }

// Name implements [gorm.Dialector].
func (dialector) Name() string { return "stranger" }

type connector struct{ driver.Connector }

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	below, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn{below.(*stdlib.Conn)}, nil
}

// conn has the methods of pgx's connections, and is none: nothing is known of it but what database/sql knows.
type conn struct{ *stdlib.Conn }
