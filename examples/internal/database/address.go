// Package database opens the databases of the example apps: PostgreSQL, or an SQLite file by default.
package database

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/libtnb/sqlite"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// DefaultFile is the SQLite file in the working folder that is used without a DATABASE_URL.
const DefaultFile = "idem-example.db"

// Address says where a database is: an SQLite file, or a PostgreSQL server.
type Address struct {
	file     string
	postgres string
}

// Parse reads a DATABASE_URL: empty for [DefaultFile], "sqlite:PATH" or "postgres://...".
func Parse(text string) (Address, error) {
	switch {
	case text == "":
		return Address{file: DefaultFile}, nil
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		return Address{postgres: text}, nil
	}
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok && path != "" {
		return Address{file: path}, nil
	}
	return Address{}, errors.New("DATABASE_URL: want postgres://..., sqlite:PATH, or nothing for " + DefaultFile)
}

// IsEmbedded reports whether it is an SQLite file, which needs no server.
func (a Address) IsEmbedded() bool { return a.file != "" }

// String names the database for people; a password is not shown.
func (a Address) String() string {
	if a.postgres != "" {
		return "PostgreSQL"
	}
	return "the SQLite file " + a.file
}

// Provider returns the database of the provider's simulator: another SQLite file, or the same PostgreSQL over its own
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
	if a.postgres != "" {
		return postgres.Open(a.postgres)
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
