package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"
)

// A connection of the pool may be broken, and only its next user finds out. Some servers and networks close connections that
// are idle. And a claim whose time is over may leave an error behind: pgx reads in the background while a write takes
// long, and if the statement's context ends when its answer has just arrived, the deadline that pgx sets on the
// connection hits that reader. pgx notices neither, gives the connection back, and the next statement gets "i/o
// timeout" at once. (database/sql asks pgx about a connection before each use, but pgx sends a ping only after a
// second.)

// overAnother runs fn, and runs it again over another connection as long as ctx allows, if an error came from a
// connection that was there. fn may have taken effect each time. Where no connection can be opened, there is no other
// one.
func overAnother(ctx context.Context, fn func() error) error {
	for try := 0; ; try++ {
		err := fn()
		if err == nil || !isBroken(err) {
			return err
		}
		timer := time.NewTimer(rand.N(min(time.Millisecond<<min(try, 10), 50*time.Millisecond)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// isBroken reports that an error came from a connection, not from the server's answer to a statement, nor from opening it.
func isBroken(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	const terminated = "57P01"
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		sqlState(err) == terminated || strings.HasPrefix(sqlState(err), "08")
}
