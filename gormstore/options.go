package gormstore

import "time"

// Option is a setting of [New] and [Migrate].
type Option func(*options)

type options struct {
	schema string
	stall  time.Duration
}

func optionsOf(given []Option) (o options) {
	for _, set := range given {
		set(&o)
	}
	return o
}

// StallAfter says how long a statement that is never cancelled may hold a place of a limited pool on PostgreSQL, although
// its connection passes nothing: then the pool gets another place, as many as it has at most, and what became of the
// statement is read back over another connection. A server that is seen to wait for its synchronous standby is waited
// for. Default: [DefaultStall].
func StallAfter(d time.Duration) Option { return func(o *options) { o.stall = d } }

// InSchema names the schema of the tables on PostgreSQL, as it is and without quotes. Default: the one of the search
// path that has them, where that is configured for the role, the database or the connection string; a SET on a
// connection does not count. SQLite has none, and takes no notice.
func InSchema(name string) Option { return func(o *options) { o.schema = name } }
