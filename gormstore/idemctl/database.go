package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/libtnb/sqlite"
	"github.com/spf13/cobra"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/auth19/idem/gormstore"
)

const databaseTimeout = time.Minute

func (c *tool) migrateCommand() *cobra.Command {
	return c.changes(&cobra.Command{
		Use:     "migrate",
		Short:   "Create the library's tables, or bring them up to date",
		Example: "  DATABASE_URL=postgres://owner@db/shop idemctl migrate\n  idemctl migrate --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDatabase(cmd.Context(), true, func(ctx context.Context, db *gorm.DB) error {
				s, err := c.schemaOf(ctx, db)
				if err != nil {
					return err
				}
				if len(s.Missing) == 0 {
					_, _ = fmt.Fprintln(c.log, "The tables are up to date: nothing to do.")
				} else {
					err := c.confirm("Migrate " + s.Database + ": " + strings.Join(s.Missing, ", ") +
						". It only adds: older releases go on beside it.")
					if err != nil {
						return err
					}
					if err := gormstore.Migrate(ctx, db, c.options()...); err != nil {
						return fail(failed, "%v", err)
					}
					if s, err = c.schemaOf(ctx, db); err != nil {
						return err
					}
				}
				return c.printStatus(s)
			})
		},
	})
}

func (c *tool) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Check the database: tables, server, rights, self-test, settings",
		Long: "Check the database as gormstore's Validate does: tables, what the server keeps, rights, and the self-test,\n" +
			"which sends the statements of attempts in a transaction that is rolled back. It exits with 1 if something is wrong.\n" +
			"Take the role of the app for it, and not that of the tables' owner.",
		Example: "  DATABASE_URL=postgres://app@db/shop idemctl status\n  idemctl status -o json | jq .problems",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDatabase(cmd.Context(), false, func(ctx context.Context, db *gorm.DB) error {
				s, err := c.schemaOf(ctx, db)
				if err != nil {
					return err
				}
				if s.Settings, err = c.settings(ctx, db); err != nil {
					return err
				}
				s.SelfTest = "passed"
				if err := c.validate(ctx, db); err != nil {
					s.SelfTest = "not passed"
					s.Problems = strings.Split(strings.TrimSpace(err.Error()), "\n")
				}
				if err := c.printStatus(s); err != nil {
					return err
				}
				if len(s.Problems) > 0 {
					return fail(failed, "the database is not as it should be")
				}
				return nil
			})
		},
	}
}

// status is what is known of a database.
type status struct {
	Database string            `json:"database"`
	Applied  []string          `json:"migrations_applied"`
	Missing  []string          `json:"migrations_missing"`
	Newer    []string          `json:"migrations_of_newer_releases"`
	Settings map[string]string `json:"settings,omitempty"`
	SelfTest string            `json:"self_test,omitempty"`
	Problems []string          `json:"problems,omitempty"`
}

func (c *tool) printStatus(s status) error {
	if c.output == "json" {
		return c.printJSON(s)
	}
	say := func(name, text string) {
		if text != "" {
			_, _ = fmt.Fprintf(c.out, "%-10s %s\n", name+":", line(text))
		}
	}
	say("database", s.Database)
	say("migrated", strings.Join(s.Applied, ", "))
	say("missing", strings.Join(s.Missing, ", "))
	say("newer", strings.Join(s.Newer, ", "))
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		say("setting", name+" = "+s.Settings[name])
	}
	say("self-test", s.SelfTest)
	for _, problem := range s.Problems {
		say("problem", problem)
	}
	return nil
}

func (c *tool) options() []gormstore.Option {
	if c.schema == "" {
		return nil
	}
	return []gormstore.Option{gormstore.InSchema(c.schema)}
}

// validate runs what an app runs when it starts.
func (c *tool) validate(ctx context.Context, db *gorm.DB) error {
	store, err := gormstore.New(db, c.options()...)
	if err != nil {
		return err
	}
	return errors.Join(store.Validate(ctx), store.Close())
}

// withDatabase opens the database of DATABASE_URL. No error shows the address, which may have a password.
func (c *tool) withDatabase(ctx context.Context, create bool, do func(context.Context, *gorm.DB) error) error {
	server, err := serverOf(c.getenv("DATABASE_URL"), create)
	if err != nil {
		return err
	}
	c.server = server
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	db, err := gorm.Open(server.dialector, &gorm.Config{DisableAutomaticPing: true, Logger: logger.Discard})
	if err != nil {
		return fail(misused, "DATABASE_URL: it cannot be used; check its parameters")
	}
	pool, err := db.DB()
	if err != nil {
		return fail(failed, "%v", err)
	}
	defer func() { _ = pool.Close() }()
	pool.SetMaxOpenConns(4) // what gormstore.New needs, and little of the server's
	if err := pool.PingContext(ctx); err != nil {
		return fail(failed, "the database of DATABASE_URL does not answer: %v", err)
	}
	return do(ctx, db)
}

// server is the database of DATABASE_URL, and what is asked of it in its own words.
type server struct {
	dialector gorm.Dialector
	version   string // a query
	exists    string // a query: how many tables there are of a name
	schemas   bool   // it has some
}

func serverOf(text string, create bool) (server, error) {
	var none server
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok && path != "" {
		parameters := "?_pragma=busy_timeout(5000)&_pragma=synchronous(full)"
		if create {
			parameters += "&_pragma=journal_mode(wal)"
		} else if _, err := os.Stat(path); err != nil {
			return none, fail(misused, "DATABASE_URL: %v", err)
		}
		return server{
			dialector: sqlite.Open("file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + parameters),
			version:   "SELECT 'SQLite'",
			exists:    "SELECT count(*) FROM sqlite_master WHERE name = ?",
		}, nil
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return none, fail(misused, "DATABASE_URL: want postgres://USER@HOST/DATABASE or sqlite:PATH")
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		_, form := url.Parse(text) // what is wrong with the form may quote the password
		if cause := errors.Unwrap(err); cause != nil && form == nil {
			return none, fail(misused, "DATABASE_URL: %v", cause)
		}
		return none, fail(misused, "DATABASE_URL: it is no address that PostgreSQL's clients take; is the password escaped?")
	}
	return server{
		dialector: postgres.New(postgres.Config{DSN: config.ConnString()}),
		version:   "SELECT 'PostgreSQL ' || pg_catalog.current_setting('server_version')",
		exists:    "SELECT count(*) FROM (SELECT pg_catalog.to_regclass(?) AS found) t WHERE found IS NOT NULL",
		schemas:   true,
	}, nil
}

// schemaOf compares the migrations that the database lists with those of this release.
func (c *tool) schemaOf(ctx context.Context, db *gorm.DB) (status, error) {
	var s status
	if err := db.WithContext(ctx).Raw(c.server.version).Scan(&s.Database).Error; err != nil {
		return s, fail(failed, "%v", err)
	}
	rows, err := c.rows(ctx, db, "idempotency_migration", "name", "''")
	if err != nil {
		return s, err
	}
	files, err := fs.Glob(gormstore.Migrations(), db.Name()+"/*.sql")
	if err != nil {
		return s, fail(failed, "%v", err)
	}
	for _, file := range files {
		_, name, _ := strings.Cut(file, "/")
		if _, ok := rows[name]; ok {
			s.Applied = append(s.Applied, name)
			delete(rows, name)
		} else {
			s.Missing = append(s.Missing, name)
		}
	}
	s.Newer = slices.Sorted(maps.Keys(rows))
	return s, nil
}

// settings reads what the store keeps about keys, in words.
func (c *tool) settings(ctx context.Context, db *gorm.DB) (map[string]string, error) {
	rows, err := c.rows(ctx, db, "idempotency_setting", "name", "value")
	for name, value := range rows {
		if us, err := strconv.ParseInt(value, 10, 64); err == nil && strings.HasPrefix(name, "floor/") {
			rows[name] = "keys up to " + time.UnixMicro(us).UTC().Format(time.RFC3339Nano) + " are refused"
		}
	}
	return rows, err
}

// rows reads two columns of a table of the library; none if there is no such table.
func (c *tool) rows(ctx context.Context, db *gorm.DB, table, name, value string) (map[string]string, error) {
	db = db.WithContext(ctx)
	if c.server.schemas && c.schema != "" {
		table = pgx.Identifier{c.schema, table}.Sanitize()
	}
	var there int
	if err := db.Raw(c.server.exists, table).Scan(&there).Error; err != nil {
		return nil, fail(failed, "%v", err)
	}
	found := map[string]string{}
	if there == 0 {
		return found, nil
	}
	var list []struct{ Name, Value string }
	err := db.Raw("SELECT " + name + " AS name, " + value + " AS value FROM " + table).Scan(&list).Error
	if err != nil {
		return nil, fail(failed, "%v", err)
	}
	for _, row := range list {
		found[row.Name] = row.Value
	}
	return found, nil
}
