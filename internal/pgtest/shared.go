package pgtest

import (
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// shared is the server that all test binaries of a run use; this process keeps it alive from its first call on.
var shared = sync.OnceValues(joinShared)

const (
	sharedPrefix = "shared-"
	ownPrefix    = "own-"
)

// joinShared joins the server that another process has started, or starts it.
func joinShared() (*server, error) {
	binaries, err := findBinaries(installed())
	if err != nil {
		return nil, err
	}
	root, err := lockRoot()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	sweep(root.Name())
	prefix := sharedPrefix + fingerprint(binaries) + "-"
	directories, err := filepath.Glob(filepath.Join(root.Name(), prefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, directory := range directories {
		if s, ok := join(directory); ok {
			return s, nil
		}
	}
	s, err := newServer(root.Name(), prefix, binaries)
	if err != nil {
		return nil, err
	}
	return s, s.launch(nil)
}

// fingerprint tells servers of different programs apart: a run with PostgreSQL 18 does not join a server of version 13.
func fingerprint(binaries string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(binaries)) // never fails
	return strconv.FormatUint(uint64(hash.Sum32()), 36)
}

// join makes this process a user of the server in the directory, if that is running.
func join(directory string) (*server, bool) {
	s := &server{directory: directory}
	users, err := os.Open(s.file(usersLock))
	if err != nil {
		return nil, false
	}
	s.users = users
	// Waits for a supervisor that is about to remove the server. Whoever holds the lock knows: it is there or gone.
	err = lockShared(users)
	if err == nil && isLocked(directory, supervisorLock) {
		s.url, err = readURL(directory)
		if err == nil {
			return s, true
		}
	}
	_ = users.Close()
	return nil, false
}
