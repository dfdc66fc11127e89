package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// minBusyTimeout is the shortest time that a connection to an SQLite file may wait for another one's lock. The usual
// mistake is to give the number of seconds: SQLite counts milliseconds.
const minBusyTimeout = time.Second

// inspect checks the database file and the settings of a connection. A driver ignores what it does not know in the address
// of the database, without a word. So the last error has the address in both forms that drivers know.
func inspect(ctx context.Context, q dialect.Querier, _ string, _ dialect.Rights, inUse bool) []error {
	var file, journal string
	var synchronous int
	var readOnly bool
	var busyTimeout int64
	for _, read := range []struct {
		query string
		into  any
	}{
		{mainFile, &file},
		{"PRAGMA journal_mode", &journal},
		{"PRAGMA synchronous", &synchronous},
		{"PRAGMA query_only", &readOnly},
		{"PRAGMA busy_timeout", &busyTimeout},
	} {
		if err := q.QueryRowContext(ctx, read.query).Scan(read.into); err != nil {
			return []error{fmt.Errorf("%s: %w", read.query, err)}
		}
	}
	if file == "" && inUse {
		return nil
	}
	if file == "" {
		return []error{errors.New("the database is in memory: its records end with the process; use a file")}
	}
	var errs []error
	if readOnly {
		errs = append(errs, errors.New("query_only is on: nothing could be recorded; take it out of the address of the "+
			"database"))
	}
	var settings []error
	if !strings.EqualFold(journal, "wal") {
		settings = append(settings, fmt.Errorf("journal_mode is %s: repeats would wait for a running attempt", journal))
	}
	if synchronous < 2 {
		settings = append(settings, errors.New("synchronous is not FULL: a power failure would lose money"))
	}
	if waits := time.Duration(busyTimeout) * time.Millisecond; waits < minBusyTimeout {
		settings = append(settings, fmt.Errorf("busy_timeout is %v: a statement that meets another connection's lock would fail "+
			"with \"database is locked\" instead of waiting", waits))
	}
	if settings != nil {
		settings = append(settings, errAddress)
	}
	return append(errs, settings...)
}

// errAddress has all settings, also those that are right: some drivers give up their defaults when one of them is set.
var errAddress = errors.New("end the address of the database with " +
	"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(5000) (drivers of ncruces, modernc and " +
	"glebarez) or ?_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000 (github.com/mattn/go-sqlite3, which " +
	"gorm.io/driver/sqlite uses)")
