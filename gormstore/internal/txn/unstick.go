package txn

import (
	"database/sql"
	"reflect"
	"sync"
	"unsafe"
)

// unstick frees a connection on which so many queries have panicked while the driver read their arguments. database/sql
// locks a *sql.Conn for reading until the rows of a query are closed. After a panic there are no rows, the lock stays, and
// Close waits for it for ever (Go 1.26; not after Exec). The pool would lose the connection, and SQLite its one writer.
//
// Not enough instead: to call Value of each argument before database/sql does. But drivers call functions of the app,
// too, such as MarshalJSON, while database/sql holds the lock. It is called after such a panic only, when no statement
// runs and all rows are closed. TestQueryThatPanics pins the field of Go 1.26. unstick returns false if the lock is held
// all the same, or a later release of Go has no such lock: the connection is lost then.
func unstick(own *sql.Conn, queries int32) bool {
	lock := reflect.ValueOf(own).Elem().FieldByName("closemu")
	if !lock.IsValid() || lock.Type() != reflect.TypeFor[sync.RWMutex]() {
		return false
	}
	mu := (*sync.RWMutex)(unsafe.Pointer(lock.UnsafeAddr())) //nolint:gosec // its type was looked at
	free := mu.TryLock()                                     // a later release of Go may have unlocked it
	for ; queries > 0 && !free; queries-- {
		mu.RUnlock()
		free = mu.TryLock()
	}
	if free {
		mu.Unlock()
	}
	return free
}
