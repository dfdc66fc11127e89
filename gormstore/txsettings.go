package gormstore

import "context"

// A handler may change the settings of its transaction, SET LOCAL ROLE for a tenant's rows for instance. What the library
// writes at the end needs those of the beginning. synchronous_commit is kept by the transaction's first statement
// and restored in its last one, whoever has changed it. The role and the search path are asked for before the first
// statement that may change them, and restored by a statement of their own: who changes none of them pays nothing. Where a
// trigger or a function changes the role unseen, the last statement fails, and everything is rolled back.

// keepCommit makes the transaction remember how it is to commit: as the session does, and never off, which somebody may
// have left on the connection. It is the transaction's mark, too: the value lasts exactly as long as it does.
const keepCommit = `pg_catalog.set_config('idem.synchronous_commit',
		pg_catalog.replace(pg_catalog.current_setting('synchronous_commit'), 'off', 'on'), true)`

// isOurs is true in the transaction that keepCommit ran in, and nowhere else.
const isOurs = `coalesce(pg_catalog.current_setting('idem.synchronous_commit', true), '') <> ''`

// asBegun is true in that transaction as well, which then commits as it would have at its beginning.
const asBegun = `CASE WHEN ` + isOurs + ` THEN
	pg_catalog.set_config('synchronous_commit', pg_catalog.current_setting('idem.synchronous_commit'), true) <> ''
	ELSE false END`

// durably is true. A statement that is a transaction by itself asks for it where its COMMIT decides whether a command runs
// again: that is then confirmed as if nobody had left synchronous_commit off on the connection (F-5).
const durably = `CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off'
	THEN pg_catalog.set_config('synchronous_commit', 'on', true) = 'on' ELSE true END`

// settings are what else the library's statements depend on.
type settings struct{ session, role, searchPath string }

const (
	readSettings = `SELECT session_user::pg_catalog.text, pg_catalog.current_setting('role'),
	pg_catalog.current_setting('search_path')`
	// setSettings sets the session's user first: that takes the role back.
	setSettings = `SELECT pg_catalog.set_config('session_authorization', $1::text, true),
	pg_catalog.set_config('role', $2::text, true), pg_catalog.set_config('search_path', $3::text, true)`
)

// keepSettings remembers the settings before the first statement that may change them.
func (c *conn) keepSettings(ctx context.Context) error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.settings != nil {
		return nil
	}
	c.checkRows() // a connection has one result at a time
	var s settings
	err := c.sql.QueryRowContext(c.within(ctx), readSettings).Scan(&s.session, &s.role, &s.searchPath)
	if err == nil {
		c.settings = &s
	}
	c.note(err)
	return err
}

// restoreSettings takes back what a handler may have changed.
func (c *conn) restoreSettings(ctx context.Context) error {
	c.stateMu.Lock()
	s := c.settings
	c.stateMu.Unlock()
	if s == nil {
		return nil
	}
	_, err := c.sql.ExecContext(ctx, setSettings, s.session, s.role, s.searchPath)
	return err
}
