package mysql

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/auth19/idem/gormstore/internal/dialect"
)

// server is the process's hold on a server: there is none. A conflict, and a lock that was not granted in time under
// innodb_rollback_on_timeout, end the transaction, and the next statement would commit by itself.
type server struct{ dialect.Process }

func newServer() dialect.Process { return server{dialect.OfServer()} }

// endTimeout bounds the question whether a transaction is open.
const endTimeout = 5 * time.Second

// StillOpen implements [dialect.Process].
func (server) StillOpen(own *sql.Conn, busy bool) bool {
	if busy { // the driver would give up the connection
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	var open bool
	err := own.QueryRowContext(ctx, "SELECT @@in_transaction").Scan(&open)
	return open || err != nil && dialect.Number(err) == 0 // to the question, too, a server may say that it was a conflict
}

// Serial implements [dialect.Process].
func (server) Serial() sync.Locker { return new(sync.Mutex) }
