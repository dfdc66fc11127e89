package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect"
)

// file is this process's hold on an SQLite file. SQLite has one writer, and a writer that waits for the lock of the
// file may wait in vain, so writers take turns here. The attempts that are running are listed here, because their rows
// cannot be seen before COMMIT, and a repeat has to be told at once. Both work in one process only, so a lock keeps others
// out.
type file struct {
	writer chan struct{} // holds a token while a transaction writes
	owner  *sql.Conn     // holds the lock; nil for a database in memory
	lock   ownerFile
	closed sync.Once

	mu      sync.Mutex
	running map[store.ID]store.Owner
}

// mainFile asks for the path of the database file; it is empty for a database in memory.
const mainFile = "SELECT file FROM pragma_database_list WHERE name = 'main'"

func newFile() dialect.Process {
	return &file{writer: make(chan struct{}, 1), running: make(map[store.ID]store.Owner)}
}

// Own implements [dialect.Process]. A connection of its own holds the lock of the owner file.
func (f *file) Own(pool *sql.DB) error {
	ctx := context.Background()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("idem: gormstore.New: open the SQLite file: %w", err)
	}
	var path string
	err = conn.QueryRowContext(ctx, mainFile).Scan(&path)
	if err == nil && path == "" {
		return conn.Close()
	}
	if err == nil { // a file that is in use is refused at once
		_, err = conn.ExecContext(ctx, "PRAGMA busy_timeout = 0")
	}
	if err != nil {
		dialect.Discard(conn)
		return fmt.Errorf("idem: gormstore.New: open the SQLite file: %w", err)
	}
	lock := ownerFile(path + ownerSuffix)
	if err := lock.lock(ctx, conn); err != nil {
		dialect.Discard(conn)
		return lock.refused(err)
	}
	f.owner, f.lock = conn, lock
	return nil
}

// Close gives the file back, once: later the lock file may be that of another store.
func (f *file) Close() error {
	f.closed.Do(func() {
		if f.owner != nil {
			f.lock.remove()
			dialect.Discard(f.owner)
		}
	})
	return nil
}

// endTimeout bounds the question whether a transaction is open.
const endTimeout = 5 * time.Second

// StillOpen asks with a BEGIN, which fails in a transaction.
func (*file) StillOpen(own *sql.Conn, _ bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if _, err := own.ExecContext(ctx, "BEGIN"); err != nil {
		const sqliteError = 1 // "cannot start a transaction within a transaction"
		return codeOf(err) == sqliteError
	}
	_, _ = own.ExecContext(ctx, "COMMIT") // of nothing; it lets rows be read on
	return false
}

// Serial implements [dialect.Process].
func (*file) Serial() sync.Locker { return new(sync.Mutex) }

// LockWriter implements [dialect.Process].
func (f *file) LockWriter(ctx context.Context) error {
	select {
	case f.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: SQLite has one writer, and it is busy: %w", store.ErrCrowded, ctx.Err())
	}
}

// UnlockWriter implements [dialect.Process].
func (f *file) UnlockWriter() { <-f.writer }

// IsRunning implements [dialect.Process].
func (f *file) IsRunning(id store.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, running := f.running[id]
	return running
}

// Reserve implements [dialect.Process].
func (f *file) Reserve(id store.ID, attempt store.Owner) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, running := f.running[id]; running {
		return false
	}
	f.running[id] = attempt
	return true
}

// Unreserve gives back what the attempt has reserved. Done twice, it must not take the id from the next attempt.
func (f *file) Unreserve(id store.ID, attempt store.Owner) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running[id] == attempt {
		delete(f.running, id)
	}
}
