package txn

import (
	"context"
	"math/rand/v2"
	"time"
)

// MaxTries bounds how often the library runs a statement of its own after a lost snapshot race, a serialization failure or
// a deadlock.
const MaxTries = 16

// The longest pauses of again: before a statement is sent again, and while a server is not there.
const (
	short = 50 * time.Millisecond
	long  = time.Second
)

// again runs fn until it is done. It returns false if ctx ends first. The pauses grow up to most, and are random:
// transactions that fail together would fail together again.
func again(ctx context.Context, most time.Duration, fn func(try int) (done bool)) bool {
	for try := 0; ; try++ {
		if fn(try) {
			return true
		}
		timer := time.NewTimer(rand.N(min(time.Millisecond<<min(try, 10), most)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// otherServers is how often fn of Retry is run again because the server took no writes. Each time a connection is closed
// (see giveBack): where there is no other server, all requests open connections.
const otherServers = 2

// Retry runs fn again after a serialization failure, a deadlock or a cached plan that a migration has made useless, and over
// another connection where the server took no writes.
func Retry(ctx context.Context, fn func() error) (err error) {
	others := 0
	again(ctx, short, func(try int) bool {
		err = fn()
		if takesNoWrites(err) {
			others++
			return others > otherServers
		}
		return err == nil || try == MaxTries-1 || !IsConflict(err) && !isStalePlan(err)
	})
	return err
}

// OverAnother runs fn, and runs it again over another connection as long as ctx allows, if an error came from a
// connection that was there. fn may have taken effect each time. Where no connection can be opened, there is no other
// one.
//
// A connection of the pool may be broken, and only its next user finds out. Some servers and networks close connections that
// are idle. And a claim whose time is over may leave an error behind: pgx reads in the background while a write takes
// long, and if the statement's context ends when its answer has just arrived, the deadline that pgx sets on the
// connection hits that reader. pgx notices neither, gives the connection back, and the next statement gets "i/o
// timeout" at once. (database/sql asks pgx about a connection before each use, but pgx sends a ping only after a
// second.)
func OverAnother(ctx context.Context, fn func() error) (err error) {
	again(ctx, short, func(int) bool {
		err = fn()
		return err == nil || !isConnectionError(err)
	})
	return err
}
