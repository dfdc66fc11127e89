package gormstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// minBusyTimeout is the shortest time that a connection to an SQLite file may wait for another one's lock. The usual
// mistake is to give the number of seconds: SQLite counts milliseconds.
const minBusyTimeout = time.Second

// sqlite checks the database file and the settings of a connection. A driver ignores what it does not know in the address
// of the database, without a word. So each error says it in both forms that drivers know.
func (i inspector) sqlite(ctx context.Context) []error {
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
		if err := i.q.QueryRowContext(ctx, read.query).Scan(read.into); err != nil {
			return []error{fmt.Errorf("%s: %w", read.query, err)}
		}
	}
	if file == "" && i.inUse {
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
	if !strings.EqualFold(journal, "wal") {
		errs = append(errs, fmt.Errorf("journal_mode is %s: repeats would wait for a running attempt; %s", journal,
			inAddress("journal_mode(wal)", "_journal_mode=WAL")))
	}
	if synchronous < 2 {
		errs = append(errs, fmt.Errorf("synchronous is not FULL: a power failure would lose money; %s",
			inAddress("synchronous(full)", "_synchronous=FULL")))
	}
	if waits := time.Duration(busyTimeout) * time.Millisecond; waits < minBusyTimeout {
		errs = append(errs, fmt.Errorf("busy_timeout is %v: a statement that meets another connection's lock would fail with "+
			"\"database is locked\" instead of waiting; %s", waits, inAddress("busy_timeout(5000)", "_busy_timeout=5000")))
	}
	return errs
}

// inAddress says what to add to the address of the database, for each family of drivers.
func inAddress(pragma, mattn string) string {
	return fmt.Sprintf("add to the address of the database _pragma=%s (drivers of ncruces, modernc and glebarez) or %s "+
		"(github.com/mattn/go-sqlite3, which gorm.io/driver/sqlite uses)", pragma, mattn)
}
