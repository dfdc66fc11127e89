package gormstore

import "context"

// A handler may change the settings of its transaction, SET LOCAL ROLE for a tenant's rows for instance. What the library
// writes at the end needs those of the beginning. synchronous_commit is kept by the transaction's first statement
// and restored in its last one, whoever has changed it. The role and the search path are asked for before the first
// statement that may change them, and restored by a statement of their own: who changes none of them pays nothing. Where a
// trigger or a function changes the role unseen, the last statement fails, and everything is rolled back.

// settings are what else the library's statements depend on.
type settings struct{ session, role, searchPath string }

// keepSettings remembers the settings before the first statement that may change them.
func (c *conn) keepSettings(ctx context.Context) error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.settings != nil {
		return nil
	}
	c.checkRows() // a connection has one result at a time
	var s settings
	err := c.store.queryRow(c.within(ctx), c.sql, readSettings).Scan(&s.session, &s.role, &s.searchPath)
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
	_, err := c.store.exec(ctx, c.sql, setSettings, s.session, s.role, s.searchPath)
	return err
}
