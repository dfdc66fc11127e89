package gormstore

import (
	"database/sql"
	"reflect"
	"sync"
	"unsafe"
)

// unstick gives free what a query has kept whose argument has panicked. database/sql locks a *sql.Conn for reading until the
// rows are closed. If the driver panics, there are no rows, the lock stays, and Close waits for it for ever: with Go 1.26 in
// a query, and not in Exec. The connection would be lost to the pool, and on SQLite the one writer with it.
//
// It is called when no statement runs and all rows are closed, so that only such locks are left. It returns false, and does
// nothing, if a later release of Go has no such lock.
func unstick(own *sql.Conn) bool {
	lock := reflect.ValueOf(own).Elem().FieldByName("closemu")
	if !lock.IsValid() || lock.Type() != reflect.TypeFor[sync.RWMutex]() {
		return false
	}
	mu := (*sync.RWMutex)(unsafe.Pointer(lock.UnsafeAddr())) //nolint:gosec // its type was looked at
	for !mu.TryLock() {
		mu.RUnlock()
	}
	mu.Unlock()
	return true
}
