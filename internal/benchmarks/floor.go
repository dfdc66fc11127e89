package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/auth19/idem/core"
)

// floor sends the statements of one command in a bare loop: with a deadline, as every app should have one, but without
// HTTP, hashing and decisions. The results are read and thrown away.
type floor struct {
	pool       *sql.DB
	statements []statement
	writer     *sync.Mutex // SQLite: statements that write take turns, as those of the store do
	changes    []change
}

// change is an argument that differs from command to command.
type change struct {
	statement, arg int
	to             func(id core.ID) any
}

// newFloor prepares to send statements again that were recorded for a key.
func newFloor(d *database, statements []statement, key string) *floor {
	f := &floor{pool: d.pool, statements: statements}
	if d.db.Name() == "sqlite" && slices.ContainsFunc(statements, writes) {
		f.writer = &d.writer
	}
	recorded := core.Scoping{}.RecordID(principal, key)
	forms := []func(id core.ID) any{ // in which an id goes into a statement
		func(id core.ID) any { return id[:] },
		func(id core.ID) any { return id.String() },
		func(id core.ID) any { return lockOf(id) },
	}
	for i, s := range statements {
		for j, arg := range s.args {
			for _, form := range forms {
				if same(arg, form(recorded)) {
					f.changes = append(f.changes, change{i, j, form})
				}
			}
		}
	}
	return f
}

func writes(s statement) bool { return !strings.HasPrefix(s.sql, "SELECT") }

// lockOf is the number of the advisory lock of a record, which gormstore makes from the hash in its id.
func lockOf(id core.ID) int64 { return int64(binary.BigEndian.Uint64(id.Hash()) ^ 0x6964656d7265636f) }

func same(a, b any) bool {
	x, isBytes := a.([]byte)
	y, alike := b.([]byte)
	if isBytes || alike {
		return isBytes && alike && bytes.Equal(x, y)
	}
	return a == b
}

// send does once what the library does for a key.
func (f *floor) send(key string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if f.writer != nil {
		f.writer.Lock()
		defer f.writer.Unlock()
	}
	id := core.Scoping{}.RecordID(principal, key)
	var conn *sql.Conn // of the transaction, where there is one
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	next := f.changes
	for i, s := range f.statements {
		if strings.HasPrefix(s.sql, "BEGIN") {
			if conn, err = f.pool.Conn(ctx); err != nil {
				return err
			}
		}
		args := s.args
		if len(next) > 0 && next[0].statement == i {
			args = slices.Clone(args)
			for ; len(next) > 0 && next[0].statement == i; next = next[1:] {
				args[next[0].arg] = next[0].to(id)
			}
		}
		if conn != nil {
			err = sendOne(ctx, conn, s, args)
		} else {
			err = sendOne(ctx, f.pool, s, args)
		}
		if err != nil {
			return err
		}
		if s.sql == "COMMIT" || s.sql == "ROLLBACK" {
			if err := conn.Close(); err != nil {
				return err
			}
			conn = nil
		}
	}
	return nil
}

// handle is the pool, or the connection of a transaction.
type handle interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func sendOne(ctx context.Context, on handle, s statement, args []any) error {
	if !s.rows {
		_, err := on.ExecContext(ctx, s.sql, args...)
		return err
	}
	rows, err := on.QueryContext(ctx, s.sql, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
	}
	return rows.Err()
}
