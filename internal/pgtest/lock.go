package pgtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// All servers of one user live below one root directory, each in a directory of its own with two lock files.
// The root directory itself is locked while directories below it are made, joined and swept.
const (
	usersLock      = "users"      // shared by all processes that use the server; free: nobody does
	supervisorLock = "supervisor" // exclusive to the server's supervisor; free: no server is running
)

// rootPath is the directory of all servers of this user.
func rootPath() string { return filepath.Join(os.TempDir(), "idem-pgtest-"+strconv.Itoa(os.Getuid())) }

// lockRoot makes the root directory if needed and locks it. Closing the file ends the lock.
func lockRoot() (*os.File, error) {
	path := rootPath()
	mode := fs.FileMode(0o700)
	if runsAsRoot() {
		mode = 0o711 // the server's account must get through
	}
	for {
		if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("pgtest: %w", err)
		}
		root, err := lockDirectory(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the last server was just removed, and the root with it
		}
		if err != nil {
			return nil, fmt.Errorf("pgtest: %w", err)
		}
		if err := os.Chmod(path, mode); err != nil { // Mkdir's mode is cut by the umask
			return nil, errors.Join(fmt.Errorf("pgtest: %w", err), root.Close())
		}
		return root, nil
	}
}

// lockDirectory locks a directory of this user. While it waited, the one before it may have removed the directory:
// then the lock would protect nothing, and the error is [fs.ErrNotExist].
func lockDirectory(path string) (*os.File, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() || !isOurs(before) {
		return nil, fmt.Errorf("%s is not a directory of this user: remove it or set TMPDIR", path)
	}
	directory, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := lockExclusive(directory); err != nil {
		return nil, errors.Join(err, directory.Close())
	}
	after, err := os.Lstat(path)
	if err != nil || !os.SameFile(before, after) {
		return nil, errors.Join(fs.ErrNotExist, directory.Close())
	}
	return directory, nil
}

// sweep deletes what servers left behind whose supervisors were killed too. The caller holds the root's lock.
//
// Should such a server still run, PostgreSQL ends it within a minute, when it misses its postmaster.pid.
func sweep(root string) {
	directories, _ := filepath.Glob(filepath.Join(root, "*")) // fails on a bad pattern only
	for _, directory := range directories {
		if !isLocked(directory, supervisorLock) && !isLocked(directory, usersLock) {
			_ = os.RemoveAll(directory) // what resists is left to the next sweep
		}
	}
}

// removeRoot removes the root directory once no server is left in it.
func removeRoot() {
	root, err := lockRoot()
	if err != nil {
		return
	}
	_ = os.Remove(root.Name()) // fails unless it is empty, as it should
	_ = root.Close()
}

// isLocked tells whether a living process holds one of a server's two locks.
func isLocked(directory, name string) bool {
	file, err := os.Open(filepath.Join(directory, name))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return !tryLockExclusive(file)
}
