package txn

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"github.com/auth19/idem/core/store"
	"github.com/auth19/idem/gormstore/internal/dialect/sqlite"
)

// File is this process's hold on an SQLite file. SQLite has one writer, and a writer that waits for the lock of the
// file may wait in vain, so writers take turns here. The attempts that are running are listed here, because their rows
// cannot be seen before COMMIT, and a repeat has to be told at once. Both work in one process only, so a lock keeps others
// out. It is nil on PostgreSQL, where the database does all this.
type File struct {
	writer chan struct{} // holds a token while a transaction writes
	owner  *sql.Conn     // holds the lock; nil for a database in memory
	lock   ownerFile
	closed sync.Once

	mu      sync.Mutex
	running map[store.ID]store.Owner
}

// mainFile asks for the path of the database file; it is empty for a database in memory.
const mainFile = "SELECT file FROM pragma_database_list WHERE name = 'main'"

func newSQLiteFile() *File {
	return &File{writer: make(chan struct{}, 1), running: make(map[store.ID]store.Owner)}
}

// Own takes the file of the pool for this process. A connection of its own holds the lock of the owner file.
func (f *File) Own(pool *sql.DB) error {
	if f == nil {
		return nil
	}
	ctx := context.Background()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("idem: gormstore.New: open the SQLite file: %w", err)
	}
	var file string
	err = conn.QueryRowContext(ctx, mainFile).Scan(&file)
	if err == nil && file == "" {
		return conn.Close()
	}
	if err == nil { // a file that is in use is refused at once
		_, err = conn.ExecContext(ctx, "PRAGMA busy_timeout = 0")
	}
	if err != nil {
		Discard(conn)
		return fmt.Errorf("idem: gormstore.New: open the SQLite file: %w", err)
	}
	lock := ownerFile(file + ownerSuffix)
	if err := lock.lock(ctx, conn); err != nil {
		Discard(conn)
		return lock.refused(err)
	}
	f.owner, f.lock = conn, lock
	return nil
}

// Close gives the file back, once: later the lock file may be that of another store.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.closed.Do(func() {
		if f.owner != nil {
			f.lock.remove()
			Discard(f.owner)
		}
	})
	return nil
}

// stillOpen reports whether a transaction is open on a connection of SQLite: there BEGIN fails.
func stillOpen(own *sql.Conn) bool {
	ctx, cancel := Ending()
	defer cancel()
	if _, err := own.ExecContext(ctx, "BEGIN"); err != nil {
		const sqliteError = 1 // "cannot start a transaction within a transaction"
		return sqlite.Code(err) == sqliteError
	}
	_, _ = own.ExecContext(ctx, "COMMIT") // of nothing; it lets rows be read on
	return false
}

func (f *File) lockWriter(ctx context.Context) error {
	select {
	case f.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: SQLite has one writer, and it is busy: %w", store.ErrCrowded, ctx.Err())
	}
}

func (f *File) unlockWriter() { <-f.writer }

// IsRunning reports whether an attempt of id is running in this process.
func (f *File) IsRunning(id store.ID) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, running := f.running[id]
	return running
}

// Reserve makes an attempt the one of id in this process; false if there is one already.
func (f *File) Reserve(id store.ID, attempt store.Owner) bool {
	if f == nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, running := f.running[id]; running {
		return false
	}
	f.running[id] = attempt
	return true
}

// Unreserve gives back what the attempt has reserved. Done twice, it must not take the id from the next attempt.
func (f *File) Unreserve(id store.ID, attempt store.Owner) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running[id] == attempt {
		delete(f.running, id)
	}
}
