package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// ownerFile is the path of a small database beside an SQLite file. The process that holds its lock owns the SQLite
// file. The operating system drops the lock when the process ends, however it ends.
//
// The owner removes the file when it closes the store. So another process may get the lock of a file that was removed
// a moment ago, while a third one makes a new file. lock notices that, and tries again with the new file.
type ownerFile string

// ownerTries is how often lock tries again with a new file.
const ownerTries = 10

// lock attaches the file to c and locks it until c is closed.
func (f ownerFile) lock(ctx context.Context, c *sql.Conn) error {
	for range ownerTries {
		before, _ := os.Stat(string(f))
		if _, err := c.ExecContext(ctx, "ATTACH DATABASE ? AS idem_owner", string(f)); err != nil {
			return err
		}
		opened, _ := os.Stat(string(f))
		if f.virtual() || before != nil && os.SameFile(before, opened) { // c has opened the file of that name
			for _, statement := range []string{
				"PRAGMA idem_owner.locking_mode = EXCLUSIVE", // the lock of the next write is kept
				"PRAGMA idem_owner.user_version = 1",
			} {
				if _, err := c.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			if locked, _ := os.Stat(string(f)); f.virtual() || os.SameFile(opened, locked) {
				return nil
			}
		}
		if _, err := c.ExecContext(ctx, "DETACH DATABASE idem_owner"); err != nil {
			return err
		}
	}
	return errors.New("other processes open and close it all the time")
}

// virtual reports whether the SQLite file is none of the operating system's, but of a virtual file system of the
// driver's.
func (f ownerFile) virtual() bool {
	_, err := os.Stat(string(f[:len(f)-len(ownerSuffix)]))
	return errors.Is(err, os.ErrNotExist)
}

// ownerSuffix follows the name of the SQLite file.
const ownerSuffix = "-owner"

// refused is the error of gormstore.New where lock has failed with err.
func (f ownerFile) refused(err error) error {
	file := f[:len(f)-len(ownerSuffix)]
	if _, missing := os.Stat(string(f)); missing != nil && !f.virtual() {
		return fmt.Errorf("idem: gormstore.New: make the lock file %s: %w", f, err)
	}
	return fmt.Errorf("idem: gormstore.New: the SQLite file %s is in use by another process or store. SQLite is for one "+
		"process per file: stop the other one, give this one a file of its own, or use PostgreSQL: %w", file, err)
}

// remove removes the file. Its owner calls it before it closes the connection that holds the lock. A file that cannot
// be removed stays, and does no harm: on Windows that is every file that is open.
func (f ownerFile) remove() {
	if f != "" && !f.virtual() {
		_ = os.Remove(string(f))
	}
}
