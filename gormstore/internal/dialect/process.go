package dialect

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/auth19/idem/core/store"
)

// Process is what a process holds of a database that is in it.
type Process interface {
	// Own takes the database for this process, until Close.
	Own(pool *sql.DB) error
	Close() error
	// LockWriter waits for the turn to write.
	LockWriter(ctx context.Context) error
	UnlockWriter()
	// Reserve makes an attempt the one of id in this process; false if there is one already. Unreserve gives back what the
	// attempt has reserved. IsRunning reports whether there is one.
	Reserve(id store.ID, attempt store.Owner) bool
	Unreserve(id store.ID, attempt store.Owner)
	IsRunning(id store.ID) bool
	// StillOpen reports whether a transaction is open on a connection, behind an error that may have ended it. busy: rows of it
	// are being read; where nothing can be asked then, it is taken for open, and its end is noticed at the end.
	StillOpen(own *sql.Conn, busy bool) bool
	// Serial is locked from a statement on a connection until it is known whether that has ended the transaction: no other
	// statement may come in between.
	Serial() sync.Locker
}

// OfServer is the [Process] of a database that is a server: it holds nothing.
func OfServer() Process { return server{} }

type server struct{}

func (server) Own(*sql.DB) error                  { return nil }
func (server) Close() error                       { return nil }
func (server) LockWriter(context.Context) error   { return nil }
func (server) UnlockWriter()                      {}
func (server) Reserve(store.ID, store.Owner) bool { return true }
func (server) Unreserve(store.ID, store.Owner)    {}
func (server) IsRunning(store.ID) bool            { return false }
func (server) Serial() sync.Locker                { return noLock{} }
func (server) StillOpen(*sql.Conn, bool) bool     { return true }

// noLock is for transactions that no error ends.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// Discard closes a connection for good instead of giving it back to the pool.
func Discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.Close()
}
