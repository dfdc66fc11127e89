package gormstore

// Option is a setting of [New] and [Migrate].
type Option func(*options)

type options struct {
	schema string
}

func optionsOf(given []Option) (o options) {
	for _, set := range given {
		set(&o)
	}
	return o
}

// InSchema names the schema of the tables on PostgreSQL, as it is and without quotes. Default: the one of the search
// path that has them, where that is configured for the role, the database or the connection string; a SET on a
// connection does not count. SQLite has none, and takes no notice.
func InSchema(name string) Option { return func(o *options) { o.schema = name } }
