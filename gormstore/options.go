package gormstore

import (
	"strings"
	"time"

	"github.com/auth19/idem/gormstore/internal/txn"
)

// Option is a setting of [New] and [Migrate].
type Option func(*options)

type options struct {
	txn.Options
	seals []given
	lost  []string
}

func optionsOf(given []Option) options {
	var o options
	for _, set := range given {
		set(&o)
	}
	return o
}

// DefaultStall is the default of [StallAfter].
const DefaultStall = txn.DefaultStall

// StallAfter sets how long a COMMIT, or the write of an answer, may wait on a connection that gets no answer, on
// PostgreSQL with a limited pool. These statements are never cancelled. After that time the store raises the pool's limit
// by one, at most to twice the configured limit, and finds out over another connection whether the statement took effect.
// While the server waits for its synchronous standby, the store waits, too. Default: [DefaultStall], also for 0. [New]
// refuses a negative time.
func StallAfter(d time.Duration) Option { return func(o *options) { o.Stall = d } }

// InSchema names the schema of the tables on PostgreSQL, without quotes. Default: the schema of the search path that has
// the tables. The search path is the one that is configured for the role, the database or in the connection string; a SET
// on a connection does not count. It must be named if another schema of the database has the tables, too: the store and
// Migrate refuse until then, because in the wrong tables every key is free (F-6). On SQLite, which has no schemas, the
// option does nothing.
func InSchema(name string) Option { return func(o *options) { o.Schema = name } }

// Untried lets a server pass on which no test of this library has passed: MySQL, Percona Server, Aurora, TiDB, MariaDB
// other than 10.11, a node of a Galera cluster. Without it [Store.Validate], [Audit] and the first claim refuse such a
// server by its name. Take it to run the tests on your server, before anybody's money is there. On PostgreSQL and SQLite
// it does nothing.
func Untried() Option { return func(o *options) { o.Untried = true } }

// HarmlessFunctions names functions of your own that handlers call and that leave nothing on a connection, on PostgreSQL:
// no setting, no role, no lock of the session. Write a name as in your statements: "total", or "shop.total" if it is called
// with its schema. Names are compared in lower case.
//
// What a handler leaves on its connection would reach the requests of others. So a connection on which a handler has
// called a function that the library does not know is closed after the attempt, and so is one on which it has sent DO,
// CALL, RESET or anything else that may leave a setting behind. That costs a new connection each time, and GORM's
// logger warns of each function once. The functions that come with PostgreSQL are known if they leave nothing. Default:
// none.
func HarmlessFunctions(names ...string) Option {
	return func(o *options) {
		for _, name := range names {
			o.Harmless = append(o.Harmless, strings.ToLower(name))
		}
	}
}
