// Package database opens the databases of the example apps: PostgreSQL, MariaDB, or an SQLite file by default.
package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/libtnb/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// DefaultFile is the SQLite file in the working folder that is used without a DATABASE_URL.
const DefaultFile = "idem-example.db"

// Address says where a database is: an SQLite file, or a server of PostgreSQL or MariaDB.
type Address struct {
	file     string
	postgres string
	mysql    string // as its driver wants it
}

// Parse reads a DATABASE_URL: empty for [DefaultFile], "sqlite:PATH", "postgres://..." or
// "mysql://user:password@host:port/database".
func Parse(text string) (Address, error) {
	switch {
	case text == "":
		return Address{file: DefaultFile}, nil
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		return Address{postgres: text}, nil
	case strings.HasPrefix(text, "mysql://"):
		dsn, err := mysqlDSN(text)
		return Address{mysql: dsn}, err
	}
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok && path != "" {
		return Address{file: path}, nil
	}
	return Address{}, errors.New("DATABASE_URL: want postgres://..., mysql://..., sqlite:PATH, or nothing for " + DefaultFile)
}

// mysqlDSN is the address as the driver wants it, with the settings of a session that moves money.
func mysqlDSN(text string) (string, error) {
	at, err := url.Parse(text)
	if err != nil || at.Hostname() == "" || len(at.Path) < 2 || at.RawQuery != "" { // err would show the password
		return "", errors.New("DATABASE_URL: want mysql://user:password@host:port/database")
	}
	config := driver.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "3306"))
	config.User, config.DBName = at.User.Username(), at.Path[1:]
	config.Passwd, _ = at.User.Password()
	config.ParseTime, config.Timeout = true, 10*time.Second
	// A host that is gone holds its keys for as long: twice the deadline.
	config.Params = map[string]string{"idle_transaction_timeout": "120"}
	return config.FormatDSN(), nil
}

// IsEmbedded reports whether it is an SQLite file, which needs no server.
func (a Address) IsEmbedded() bool { return a.file != "" }

// String names the database for people; a password is not shown.
func (a Address) String() string {
	switch {
	case a.postgres != "":
		return "PostgreSQL"
	case a.mysql != "":
		return "MariaDB"
	}
	return "the SQLite file " + a.file
}

// Provider returns the database of the provider's simulator: another SQLite file, or the same server over its own
// connections.
func (a Address) Provider() Address {
	if a.file != "" {
		extension := filepath.Ext(a.file)
		a.file = strings.TrimSuffix(a.file, extension) + "-provider" + extension
	}
	return a
}

// Open opens the database with a pool of at most that many connections.
func (a Address) Open(ctx context.Context, connections int) (*gorm.DB, error) {
	db, err := gorm.Open(a.dialector(), &gorm.Config{
		DisableAutomaticPing: true,
		Logger: logger.New(log.New(os.Stderr, "", log.LstdFlags), logger.Config{
			SlowThreshold: time.Second, LogLevel: logger.Warn, IgnoreRecordNotFoundError: true,
			ParameterizedQueries: true, // a log must not contain the values of statements
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("open %v: %w", a, err)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("open %v: %w", a, err)
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := pool.PingContext(ctx); err != nil {
		_ = pool.Close()
		return nil, fmt.Errorf("open %v: %w", a, err)
	}
	return db, nil
}

func (a Address) dialector() gorm.Dialector {
	switch {
	case a.postgres != "":
		return postgres.Open(a.postgres)
	case a.mysql != "":
		return mysql.Open(a.mysql)
	}
	path := (&url.URL{Path: filepath.ToSlash(a.file)}).EscapedPath()
	return sqlite.Open("file:" + path + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
}

// Close closes the pool of a database.
func Close(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}
